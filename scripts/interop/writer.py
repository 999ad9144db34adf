"""The other side of the live tests: a long-lived Spark session with Hudi that commits when told to, and answers as Hudi does.

Runs in the Python that has Spark. One JSON object a line comes in on stdin, one goes out on the descriptor given as the
first argument (stdout belongs to Spark's chatter). The second argument is the Hudi release, the third a folder for its
metastore.
"""
import json
import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fixtures"))
import hudi  # noqa: E402

QUESTION = "count(*), count(distinct id), sum(id), sum(ts), cast(sum(amount) as string)"


class Writer:
    def __init__(self, release, home):
        self.spark = hudi.start_spark(release, extra={
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": f"{home}/warehouse",
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home}/metastore;create=true",
            "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
            "spark.hadoop.hive.stats.autogather": "false",
        })
        self.tables = {}

    def create(self, name, path, kind, version, partition="part", metadata=False, options=None):
        self.tables[name] = hudi.Table(self.spark, path, kind, version, partition=partition, metadata=metadata, **(options or {}))

    def do(self, table, method, *args, **named):
        """Any operation of `hudi.Table`."""
        result = getattr(self.tables[table], method)(*args, **named)
        return result if isinstance(result, (str, int, type(None))) else None

    def insert_overwrite(self, table, ids, revision, part):
        t = self.tables[table]
        t.write("insert_overwrite", t.frame(ids, revision, part))

    def clean(self, table, retain):
        t = self.tables[table]
        t.with_client(lambda c: c.clean(), hoodie__cleaner__commits__retained=retain)

    def latest(self, table):
        return max(i.time for i in self.tables[table].completed())

    def instants(self, table):
        return [i.time for i in self.tables[table].completed()]

    def answer(self, table, as_of=None, by_part=False):
        """Hudi's own read-optimized query."""
        t = self.tables[table]
        reader = self.spark.read.format("hudi").option("hoodie.datasource.query.type", "read_optimized")
        reader = reader.option("hoodie.metadata.enable", t.options["hoodie.metadata.enable"])
        frame = (reader.option("as.of.instant", as_of) if as_of else reader).load(str(t.path))
        frame.createOrReplaceTempView("ro")
        if by_part:
            rows = self.spark.sql(f"select part, {QUESTION} from ro group by part").collect()
            return {r[0]: list(r)[1:] for r in rows}
        return list(self.spark.sql(f"select {QUESTION} from ro").collect()[0])

    def rows(self, table, query):
        """All rows by Hudi's own snapshot or read-optimized query, decimals and dates as text."""
        t = self.tables[table]
        reader = self.spark.read.format("hudi").option("hoodie.datasource.query.type", query)
        reader = reader.option("hoodie.metadata.enable", t.options["hoodie.metadata.enable"])
        reader.load(str(t.path)).createOrReplaceTempView("all_rows")
        rows = self.spark.sql("select id, name, ts, price, cast(amount as string), cast(day as string), flag, part from all_rows")
        return [list(r) for r in rows.collect()]

    def hive_create(self, name, root):
        """An external table as a user of Hive declares it. Its name is not the Hudi table's: Hudi would look that up."""
        self.spark.sql(f"drop table if exists default.{name}_files")
        self.spark.sql(
            f"create external table default.{name}_files (id int, name string, ts bigint, price double, amount decimal(10,2), `day` date, flag boolean) "
            f"partitioned by (part string) row format serde 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe' "
            f"stored as inputformat 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat' "
            f"outputformat 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat' location 'file://{root}'")

    def hive_answer(self, name, convert):
        self.spark.sql(f"set spark.sql.hive.convertMetastoreParquet={str(convert).lower()}")
        self.spark.sql(f"msck repair table default.{name}_files sync partitions")
        self.spark.sql(f"refresh table default.{name}_files")
        frame = self.spark.sql(f"select {QUESTION} from default.{name}_files")
        plan = frame._jdf.queryExecution().executedPlan().toString()
        wanted = "FileScan parquet" if convert else "Scan hive"
        assert wanted in plan, plan[:500]
        return list(frame.collect()[0])


def main():
    out = os.fdopen(int(sys.argv[1]), "w", buffering=1)
    writer = Writer(sys.argv[2], sys.argv[3])
    print(json.dumps({"ready": True}), file=out)
    for line in sys.stdin:
        call = json.loads(line)
        try:
            value = getattr(writer, call["call"])(*call.get("args", []), **call.get("named", {}))
            print(json.dumps({"value": value}), file=out)
        except Exception as error:  # noqa: BLE001, told to the one who asked
            # What Java says first is seldom what went wrong.
            causes = [line.strip() for line in str(error).splitlines() if line.lstrip().startswith("Caused by")]
            print(json.dumps({"error": f"{type(error).__name__}: {'; '.join(causes[-3:])} {error}"[:3000]}), file=out)
    writer.spark.stop()


if __name__ == "__main__":
    main()
