"""Engines that scan a directory of Parquet files: each answers the same question about `root`, or says why it cannot.

The question: number of rows, of distinct ids, and three sums whose values no order of rows changes. Every engine opens and
lists the tree itself, as its users do; none is handed a list of files.
"""
from decimal import Decimal

NAMES = ("duckdb", "polars", "pyarrow", "chdb")


def normal(count, ids, id_sum, ts_sum, amount):
    return (int(count), int(ids), int(id_sum or 0), int(ts_sum or 0), str(Decimal(amount or 0).quantize(Decimal("0.01"))))


def total(answers):
    """The answer about several disjoint parts, out of the answer about each."""
    columns = list(zip(*answers))
    return normal(*[sum(c) for c in columns[:4]], sum(map(Decimal, columns[4]))) if columns else normal(0, 0, 0, 0, 0)


def duckdb(root):
    import duckdb as engine

    pattern = f"{root}/**/*.parquet"
    sql = f"select count(*), count(distinct id), sum(id), sum(ts), sum(amount) from read_parquet('{pattern}', hive_partitioning=false)"
    return normal(*engine.connect().execute(sql).fetchone())


def polars(root):
    import polars as engine

    c = engine.col
    # Without hive_partitioning=False it would take the values of `part` out of the folders' names.
    frame = engine.scan_parquet(f"{root}/**/*.parquet", hive_partitioning=False)
    row = frame.select(engine.len(), c("id").n_unique().alias("ids"), c("id").cast(engine.Int64).sum(), c("ts").sum(), c("amount").sum()).collect()
    return normal(*row.row(0))


def pyarrow(root):
    import pyarrow.compute as compute
    import pyarrow.dataset as dataset

    table = dataset.dataset(str(root), format="parquet").to_table(columns=["id", "ts", "amount"])
    total = [compute.sum(table[name]).as_py() for name in ("id", "ts", "amount")]
    return normal(table.num_rows, compute.count_distinct(table["id"]).as_py(), *total)


def chdb(root):
    import chdb as engine

    pattern = f"{root}/**/*.parquet"
    sql = f"select count(), uniqExact(id), sum(id), sum(ts), sum(amount) from file('{pattern}', 'Parquet')"
    text = engine.query(sql, "TabSeparated").bytes().decode().split("\t")
    return normal(*[t.strip() for t in text])


def ask(name, root):
    return globals()[name](root)
