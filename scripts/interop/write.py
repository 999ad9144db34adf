"""Random histories of writes by hudifs and by Java Hudi, in turns, on one table.

    scripts/interop/write [--tables cow6-bloom,…] [--steps 12] [--seed 1] [--no-spark] [--list]

A table is named by type, table version, index and, where it has one, `mdt` for the metadata table. After every step the same
rows are expected from Spark's snapshot query, from hudi-rs, from the mount (where the read-optimized view is the whole), and,
after a compaction or on copy-on-write tables, from Spark's read-optimized query. Rows carry their revision, which only grows, so
that every way of ordering agrees on which write is the later one.
"""
import argparse
import datetime
import decimal
import json
import os
import random
import signal
import subprocess
import sys
import zlib
from pathlib import Path

sys.dont_write_bytecode = True
import hudi as hudi_rs  # noqa: E402
# The fixtures' own module has that name too, and is what `spark` wants.
del sys.modules["hudi"]
sys.path.insert(0, str(Path(__file__).resolve().parent))
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from mount import Mount, Scratch, binary  # noqa: E402
from report import Report  # noqa: E402
from spark import Spark  # noqa: E402

INDEXES = ("bloom", "global_bloom", "simple", "global_simple", "bucket", "record_index")
TABLES = [f"{kind}{version}-{index}{mdt}" for kind in ("cow", "mor") for version in (6, 9) for index in INDEXES
          for mdt in (("-mdt",) if index == "record_index" else ("", "-mdt"))]
RELEASES = {6: "0.15.0", 9: "1.2.0"}
PARTS = 3
SCHEMA = pa.schema([
    ("id", pa.int32()), ("name", pa.string()), ("ts", pa.int64()), ("price", pa.float64()), ("amount", pa.decimal128(10, 2)),
    ("day", pa.date32()), ("flag", pa.bool_()), ("part", pa.string())])
COLUMNS = SCHEMA.names


def row(i, revision, part):
    flag = None if i % 5 == 0 else i % 2 == 0
    day = datetime.date(2026, 1, 1) + datetime.timedelta(days=i + revision)
    amount = decimal.Decimal(i * 100 + revision).scaleb(-2)
    return (i, f"name {i} r{revision}", revision, i + revision / 10, amount, day, flag, part)


def comparable(rows):
    """As text, in an order that nulls do not disturb."""
    return sorted(repr(tuple(r)) for r in rows)


class History:
    """One table, the map of what it should hold, and the two who write to it."""

    def __init__(self, report, spark, name, work, seed):
        self.report, self.spark, self.name = report, spark, name
        parts = name.split("-")
        self.kind, self.version = parts[0][:3], int(parts[0][3:])
        self.index, self.metadata = parts[1], "mdt" in parts
        self.is_global = self.index in ("global_bloom", "global_simple", "record_index")
        self.random = random.Random(seed * 1000 + zlib.crc32(name.encode()))
        self.work = work
        self.path = work / "tables" / name.replace("-", "_")
        self.rows, self.revision, self.fresh, self.compacted = {}, 0, 1000, True

    # -- the two writers

    def hudifs(self, *arguments, allowed=(0,)):
        done = subprocess.run([binary(), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        if done.returncode not in allowed:
            raise RuntimeError(f"hudifs {' '.join(map(str, arguments))}: {done.stderr[-1500:]}")
        return done.stdout

    def settings(self):
        # Spark writes here as a single writer, which must not find commits after a write that failed.
        given = ["--set", "hoodie.clean.failed.writes.policy=EAGER"]
        if self.index == "bucket":
            given += ["--set", "hoodie.bucket.index.num.buckets=4"]
        return given

    def create(self, by):
        # Without it Hudi 0.15 itself multiplies small decimals by their scale, once it updates a file that it has clustered.
        options = {"hoodie.parquet.writelegacyformat.enabled": "true", "hoodie.index.type": "RECORD_INDEX" if self.index == "record_index" else self.index.upper()}
        if self.index == "bucket":
            options["hoodie.bucket.index.num.buckets"] = "4"
        if self.index == "record_index":
            options["hoodie.metadata.record.index.enable"] = "true"
            options["hoodie.metadata.global.record.level.index.enable"] = "true"
            options["hoodie.metadata.record.index.min.filegroup.count"] = "2"
            options["hoodie.metadata.record.index.max.filegroup.count"] = "2"
        if self.spark:
            self.spark.create(self.name, str(self.path), self.kind, self.version, metadata=self.metadata,
                              options={k.replace(".", "__"): v for k, v in options.items()})
        if by == "hudifs":
            self.path.mkdir(parents=True, exist_ok=True)
            metadata = ["--no-metadata"] if not self.metadata else ["--metadata", "files,record_index" if self.index == "record_index" else "files"]
            # Text has no decimals and dates of its own: the table's columns say what they are.
            self.save([], schema := self.work / "schema.parquet")
            self.hudifs("create", self.path, "--schema", schema, "--record-key", "id", "--partition-by", "part", "--hive-style", "--ordering", "ts", "--type", self.kind,
                        "--table-version", self.version, "--set", f"hoodie.index.type={options['hoodie.index.type']}", *self.settings()[2:], *metadata)

    def write(self, by, operation, rows):
        if by == "spark":
            self.spark.do(self.name, "write_rows", operation, [[r[0], r[2], r[-1]] for r in rows])
            return
        file = self.work / f"rows.{self.random.choice(['parquet', 'arrow', 'csv', 'ndjson'])}"
        self.save(rows, file)
        index = "record-index" if self.index == "record_index" else self.index.replace("_", "-")
        self.hudifs(operation.replace("_", "-"), file, "--table", self.path, "--index", index, *self.settings())

    def save(self, rows, file):
        table = pa.Table.from_pylist([dict(zip(COLUMNS, r)) for r in rows], schema=SCHEMA)
        if file.suffix == ".parquet":
            pq.write_table(table, file)
        elif file.suffix == ".arrow":
            with pa.ipc.new_stream(file, SCHEMA) as out:
                out.write_table(table)
        elif file.suffix == ".csv":
            import pyarrow.csv
            pyarrow.csv.write_csv(table, file)
        else:
            with file.open("w") as out:
                for r in rows:
                    print(json.dumps(dict(zip(COLUMNS, r)), default=lambda v: str(v)), file=out)

    # -- the steps

    def some(self, count):
        """Ids of rows that are there and of some that are not, with partitions."""
        chosen = {}
        for _ in range(count):
            i = self.random.randrange(40)
            held = [p for (p, j) in self.rows if j == i]
            chosen[i] = held[0] if held and (self.is_global or self.random.random() < 0.7) else f"p{self.random.randrange(PARTS)}"
        self.revision += 1
        return [row(i, self.revision, p) for i, p in chosen.items()]

    def put(self, r):
        if self.is_global:
            self.rows = {k: v for k, v in self.rows.items() if k[1] != r[0]}
        self.rows[(r[-1], r[0])] = r

    def step(self, by, operation):
        if operation == "upsert":
            rows = self.some(self.random.randrange(1, 20))
            self.write(by, "upsert", rows)
            for r in rows:
                self.put(r)
            self.compacted = False
        elif operation == "insert" or operation == "bulk_insert":
            self.revision += 1
            rows = []
            for _ in range(self.random.randrange(1, 15)):
                self.fresh += 1
                rows.append(row(self.fresh, self.revision, f"p{self.random.randrange(PARTS)}"))
            self.write(by, operation, rows)
            for r in rows:
                self.put(r)
            self.compacted = False
        elif operation == "delete":
            held = [r for r in self.rows.values() if self.random.random() < 0.3]
            if not held:
                return False
            self.write(by, "delete", held)
            for r in held:
                del self.rows[(r[-1], r[0])]
            self.compacted = False
        elif operation == "insert_overwrite":
            part = f"p{self.random.randrange(PARTS)}"
            self.revision += 1
            rows = []
            for _ in range(self.random.randrange(1, 10)):
                self.fresh += 1
                rows.append(row(self.fresh, self.revision, part))
            self.write(by, operation, rows)
            self.rows = {k: v for k, v in self.rows.items() if k[0] != part}
            for r in rows:
                self.put(r)
        elif operation == "compact":
            if self.kind != "mor":
                return False
            if by == "hudifs":
                self.hudifs("compact", self.path, *self.settings())
                self.compacted = True
            else:
                self.spark.do(self.name, "schedule_compaction")
                self.spark.do(self.name, "run_compaction")
        elif operation == "clean":
            if by == "hudifs":
                self.hudifs("clean", self.path, "--set", "hoodie.cleaner.commits.retained=2", *self.settings())
            else:
                self.spark.clean(self.name, 2)
        elif operation == "cluster":
            if by == "hudifs" or self.index == "bucket" or (self.kind == "mor" and not self.compacted):
                return False
            self.spark.do(self.name, "schedule_clustering")
            self.spark.do(self.name, "run_clustering")
        elif operation == "fail":
            if by == "hudifs" or not self.rows:
                return False
            self.spark.do(self.name, "failing_upsert", [i for (_, i) in list(self.rows)[:3]], 1, None, PARTS)
        return True

    # -- the readers

    def check(self, what):
        wanted = comparable(self.rows.values())
        whole = self.kind == "cow" or self.compacted
        readers = {"hudi-rs": self.hudi_rs, "mount": self.mount}
        if self.spark:
            readers["Spark snapshot"] = lambda: self.spark.rows(self.name, "snapshot")
        if whole and self.spark:
            readers["Spark read-optimized"] = lambda: self.spark.rows(self.name, "read_optimized")
        if not whole or not os.path.exists("/dev/fuse"):
            del readers["mount"]
        for reader, ask in readers.items():
            try:
                got = ask()
                if reader.startswith("Spark"):
                    got = [self.from_spark(r) for r in got]
                got = comparable(got)
                if got == wanted:
                    self.report.passed += 1
                else:
                    lost, more = set(wanted) - set(got), set(got) - set(wanted)
                    self.report.fail(f"{self.name} after {what}: {reader}",
                                     f"{len(got)} rows, want {len(wanted)}; lost {sorted(lost)[:2]}, more {sorted(more)[:2]}")
                    return False
            except Exception as error:  # noqa: BLE001, counted
                self.report.fail(f"{self.name} after {what}: {reader}", error)
                return False
        return True

    @staticmethod
    def from_spark(r):
        i, name, ts, price, amount, day, flag, part = r
        return (i, name, ts, price, decimal.Decimal(amount), datetime.date.fromisoformat(day), flag, part)

    def hudi_rs(self):
        table = hudi_rs.HudiTableBuilder.from_base_uri(str(self.path)).build()
        batches = table.read_snapshot() if hasattr(table, "read_snapshot") else table.read()
        return [tuple(r[c] for c in COLUMNS) for b in batches for r in b.select(COLUMNS).to_pylist()]

    def mount(self):
        with Mount(self.path) as point:
            files = [f for f in point.rglob("*.parquet")]
            return [tuple(r[c] for c in COLUMNS) for f in files for r in pq.ParquetFile(f).read(columns=COLUMNS).select(COLUMNS).to_pylist()]


def run(report, spark, name, work, steps, seed):
    history = History(report, spark, name, work, seed)
    first = "hudifs" if not spark or history.random.random() < 0.6 else "spark"
    history.create(first)
    history.step(first, "upsert")
    done = [f"{first} upsert"]
    if not history.check(done[-1]):
        return
    weights = {"upsert": 6, "insert": 2, "bulk_insert": 1, "delete": 3, "insert_overwrite": 1, "compact": 2, "clean": 1, "cluster": 1, "fail": 1}
    if history.index == "bucket":
        del weights["bulk_insert"]
    for _ in range(steps):
        by = history.random.choice(["hudifs", "hudifs", "spark"]) if spark else "hudifs"
        operation = history.random.choices(list(weights), list(weights.values()))[0]
        try:
            if not history.step(by, operation):
                continue
        except Exception as error:  # noqa: BLE001, counted
            report.fail(f"{name}: {by} {operation} after {'; '.join(done[-4:])}", error)
            return
        done.append(f"{by} {operation}")
        if not history.check("; ".join(done[-6:])):
            return
    print(f"ok   {name}: {len(done)} steps", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-spark", action="store_true", help="hudifs writes alone, and hudi-rs and the mount read")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        print("\n".join(TABLES))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    report = Report()
    keys = args.tables.split(",")
    with Scratch() as work:
        (work / "tables").mkdir()
        if args.no_spark:
            for key in keys:
                run(report, None, key, work, args.steps, args.seed)
            report.close()
        for version, release in RELEASES.items():
            of_version = [k for k in keys if int(k.split("-")[0][3:]) == version]
            if not of_version:
                continue
            (home := work / f"spark-{release}").mkdir()
            try:
                with Spark(release, home) as spark:
                    for key in of_version:
                        try:
                            run(report, spark, key, work, args.steps, args.seed)
                        except Exception as error:  # noqa: BLE001, the other tables are still to be tried
                            report.fail(key, error)
            except Exception as error:  # noqa: BLE001
                report.fail(f"Spark with Hudi {release}", error)
    report.close()


if __name__ == "__main__":
    main()
