"""Every engine, on a live mount of some fixture tables, must say what Spark said when it wrote them."""
import json
import sys
import zipfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import engines  # noqa: E402
from mount import REPO, Mount, Scratch  # noqa: E402
from report import Report  # noqa: E402

TABLES = [
    "v6_cow_basic_hive", "v6_mor_compaction_plain_mdt", "v8_mor_compaction_hive_mdt", "v9_cow_overwrite_plain_mdt",
    "v9_mor_compaction_plain_mdt", "v9_cow_encoded_mdt",
]


def expected(table, answer):
    """Count and sums over the files that Spark listed, read one by one off the table itself."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    rows = pa.concat_tables(pq.ParquetFile(table / f["path"]).read(columns=["id", "ts", "amount"]) for f in answer["ro"]["files"])
    return engines.normal(rows.num_rows, pc.count_distinct(rows["id"]).as_py(), *[pc.sum(rows[c]).as_py() for c in ("id", "ts", "amount")])


def main():
    report = Report()
    with Scratch() as work:
        for name in TABLES:
            fixture = REPO / "tests/fixtures" / name
            with zipfile.ZipFile(f"{fixture}.zip") as archive:
                archive.extractall(work)
            answer = json.loads(Path(f"{fixture}.json").read_text())
            want = expected(work / name, answer)
            try:
                with Mount(work / name) as root:
                    for engine in engines.NAMES:
                        try:
                            report.check(f"{name} {engine}", engines.ask(engine, root), want)
                        except Exception as error:  # noqa: BLE001, the others still have their say
                            report.fail(f"{name} {engine}", error)
            except RuntimeError as error:
                report.fail(name, error)
    report.close()


if __name__ == "__main__":
    main()
