"""Engines on a live mount, while Spark with Hudi commits to the table below it.

    scripts/interop/live [--tables cow6,mor6,cow9,mor9] [--no-trino]

After each commit every engine is asked about the mount, and must say what Hudi's own read-optimized query says. A commit is
waited for in the mount (`.hudifs/read_optimized/latest`) for at most five seconds; the time it took is reported.
"""
import argparse
import os
import signal
import statistics
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import engines  # noqa: E402
from mount import Mount, Scratch  # noqa: E402
from report import Report  # noqa: E402
from spark import Spark  # noqa: E402

TABLES = {
    "cow6": ("0.15.0", "cow", 6, False), "mor6": ("0.15.0", "mor", 6, True),
    "cow9": ("1.2.0", "cow", 9, True), "mor9": ("1.2.0", "mor", 9, False),
}
# Clustering writes by Spark's own writer, which keeps small decimals in integers: Hive 2.3 cannot read those, in any directory.
FOR_HIVE = {"hoodie__parquet__writelegacyformat__enabled": "true"}
SMALL = {"hoodie__parquet__small__file__limit": 0}


def commits(kind):
    """Name, and what to call on the writer."""
    def do(method, *args, **named):
        return lambda s, t: s.do(t, method, *args, **named)

    yield "insert", do("insert", list(range(30)), 1, None, 3)
    yield "upsert", do("upsert", [1, 2, 3, 40], 2, None, 3)
    yield "delete", do("delete", [3, 4], 3, None, 3)
    yield "insert into a new file group", do("insert", list(range(50, 56)), 3, None, 3, **SMALL)
    yield "insert_overwrite", lambda s, t: s.insert_overwrite(t, [70, 71, 72], 4, "p0")
    yield "clustering planned", do("schedule_clustering")
    yield "clustering", do("run_clustering")
    yield "upsert after clustering", do("upsert", [5, 8, 70], 5, None, 3)
    if kind == "mor":
        yield "compaction planned", do("schedule_compaction")
        yield "upsert after the plan", do("upsert", [5, 11], 6, None, 3)
        yield "compaction", do("run_compaction")
    yield "clean", lambda s, t: s.clean(t, 1)
    yield "a write that failed", do("failing_upsert", [1, 2], 7, None, 3)
    yield "the next write, which rolls it back", do("upsert", [1, 90], 8, None, 3)


def seen(point, instant, seconds=5):
    """Waits until the mount shows that instant or a later one; returns the milliseconds, or None."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if os.readlink(point / ".hudifs/read_optimized/latest") >= instant:
            return (time.monotonic() - began) * 1000
        time.sleep(0.001)
    return None


def run(report, spark, key, work, trino):
    _, kind, version, metadata = TABLES[key]
    table = work / key
    spark.create(key, str(table), kind, version, metadata=metadata, options=FOR_HIVE)
    steps = commits(kind)
    name, step = next(steps)
    step(spark, key)
    delays = []
    with Mount(table, work / "mnt" / key) as point:
        spark.hive_create(key, str(point))
        if trino:
            trino.create(key)
        while True:
            instant = spark.latest(key)
            delay = seen(point, instant)
            if delay is None:
                report.fail(f"{key} {name}", f"the mount does not show {instant}")
            else:
                delays.append(delay)
            want = engines.normal(*spark.answer(key))
            asked = {e: (lambda e=e: engines.ask(e, point)) for e in engines.NAMES}
            asked["Hive SerDe"] = lambda: engines.normal(*spark.hive_answer(key, False))
            asked["Spark parquet"] = lambda: engines.normal(*spark.hive_answer(key, True))
            if trino:
                asked["Trino"] = lambda: trino.answer(key)
            for engine, ask in asked.items():
                try:
                    report.check(f"{key} after {name}: {engine}", ask(), want)
                except Exception as error:  # noqa: BLE001, the others still have their say
                    report.fail(f"{key} after {name}: {engine}", error)
            try:
                name, step = next(steps)
            except StopIteration:
                break
            step(spark, key)
    print(f"     {key}: visible {statistics.median(delays):.1f} ms (median), {max(delays):.1f} ms (worst) after Spark's call returned")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--no-trino", action="store_true")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    report = Report()
    keys = args.tables.split(",")
    with Scratch() as work:
        trino = None
        if not args.no_trino:
            from trino import Trino
            try:
                trino = Trino(work)
            except Exception as error:  # noqa: BLE001, said loudly
                report.skip("Trino", str(error)[:300])
        try:
            for release in dict.fromkeys(TABLES[k][0] for k in keys):
                (home := work / f"spark-{release}").mkdir()
                try:
                    with Spark(release, home) as spark:
                        for key in [k for k in keys if TABLES[k][0] == release]:
                            run(report, spark, key, work, trino)
                except Exception as error:  # noqa: BLE001, the other release is still to be tried
                    report.fail(f"Spark with Hudi {release}", error)
        finally:
            if trino:
                trino.stop()
    report.close()


if __name__ == "__main__":
    main()
