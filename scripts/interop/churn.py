"""Readers that scan in a loop while another process makes 200 commits, with cleaning.

    scripts/interop/churn [--commits 200] [--minutes 20] [--tables cow6,mor9mdt]

Two readers, each in a process of its own:
- pinned: reads the link `.hudifs/read_optimized/latest` once, scans that tree with DuckDB, and twice, so that a view that
  changes under a scan is found. What it counts must be what Hudi itself says as of that instant.
- plain: opens one partition's directory, lists it, opens and reads every file that was listed. No file group may appear
  twice, no listed file may be missing (ENOENT, ESTALE, EIO), and the sums must be those of that partition after some commit.
The cleaner keeps ten commits, more than any scan takes: whatever is missing is missing too early.
"""
import argparse
import collections
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import engines  # noqa: E402
from live import seen  # noqa: E402
from mount import Mount, Scratch  # noqa: E402
from report import Report  # noqa: E402
from spark import Spark  # noqa: E402

TABLES = {"cow6": ("0.15.0", "cow", 6, False), "mor9mdt": ("1.2.0", "mor", 9, True), "cow9mdt": ("1.2.0", "cow", 9, True), "mor6": ("0.15.0", "mor", 6, False)}
PARTS = 3
# Between two scans: on two cores a reader without any would starve the writer that it is here to watch.
BREATH = 0.1
TIGHT = {
    "hoodie__cleaner__commits__retained": 10, "hoodie__keep__min__commits": 12, "hoodie__keep__max__commits": 15,
    "hoodie__metadata__compact__max__delta__commits": 5,
}
COMPACT = {"hoodie__compact__inline": "true", "hoodie__compact__inline__max__delta__commits": 2}


def pinned(point, stop, out):
    with open(out, "w") as lines:
        while not stop.wait(BREATH):
            instant = os.readlink(point / ".hudifs/read_optimized/latest")
            for _ in range(2):
                try:
                    found = engines.duckdb(point / ".hudifs/read_optimized" / instant)
                    print(json.dumps({"instant": instant, "found": found}), file=lines)
                except Exception as error:  # noqa: BLE001, it is what is looked for
                    print(json.dumps({"instant": instant, "error": str(error)[:500]}), file=lines)


def plain(point, stop, out):
    import io

    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    turn = 0
    with open(out, "w") as lines:
        while not stop.wait(BREATH):
            part = f"part=p{turn % PARTS}"
            turn += 1
            try:
                directory = os.open(point / part, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
            try:
                names = os.listdir(directory)
                groups = collections.Counter(n.split("_")[0] for n in names)
                twice = [g for g, n in groups.items() if n > 1]
                tables = []
                for name in names:
                    with open(os.open(name, os.O_RDONLY, dir_fd=directory), "rb") as file:
                        tables.append(pq.ParquetFile(io.BytesIO(file.read())).read(columns=["id", "ts", "amount"]))
                rows = pa.concat_tables(tables)
                found = engines.normal(rows.num_rows, pc.count_distinct(rows["id"]).as_py(), *[pc.sum(rows[c]).as_py() for c in ("id", "ts", "amount")])
                print(json.dumps({"part": part, "found": found, "twice": twice}), file=lines)
            except Exception as error:  # noqa: BLE001, it is what is looked for
                print(json.dumps({"part": part, "error": f"{type(error).__name__}: {error}"[:500]}), file=lines)
            finally:
                os.close(directory)


def commit(spark, key, n):
    """The n-th commit: mostly upserts, now and then a delete, an insert into new files, an overwrite."""
    ids = [(n * 7) % 60, (n * 11 + 1) % 60]
    if n % 25 == 24:
        spark.insert_overwrite(key, [1000 + 2 * n, 1001 + 2 * n], n, f"p{n % PARTS}")
    elif n % 10 == 9:
        spark.do(key, "delete", ids, n, None, PARTS)
    elif n % 10 == 4:
        spark.do(key, "insert", [200 + n], n, None, PARTS, hoodie__parquet__small__file__limit=0)
    else:
        spark.do(key, "upsert", ids, n, None, PARTS)


def verify(report, key, truth, parts, work):
    scans = [json.loads(line) for line in (work / "pinned").read_text().splitlines()]
    wrong = [s for s in scans if "error" in s or s["instant"] not in truth or tuple(s["found"]) != truth[s["instant"]]]
    views = len({s["instant"] for s in scans})
    report.check(f"{key}: {len(scans)} scans of {views} pinned views, wrong", len(wrong), 0, str(wrong[:3]) if wrong else "")
    report.check(f"{key}: the pinned reader saw many views", views > len(truth) // 20, True)
    scans = [json.loads(line) for line in (work / "plain").read_text().splitlines()]
    errors = [s for s in scans if "error" in s]
    report.check(f"{key}: {len(scans)} listings of a live directory, files missing or unreadable", len(errors), 0, str(errors[:3]) if errors else "")
    twice = [s for s in scans if s.get("twice")]
    report.check(f"{key}: listings with a file group twice", len(twice), 0, str(twice[:2]) if twice else "")
    wrong = [s for s in scans if "found" in s and tuple(s["found"]) not in parts[s["part"]]]
    report.check(f"{key}: listings whose sums no commit had", len(wrong), 0, str(wrong[:3]) if wrong else "")


def run(report, spark, key, work, commits, minutes):
    _, kind, version, metadata = TABLES[key]
    table = work / key
    options = {**TIGHT, **(COMPACT if kind == "mor" else {})}
    spark.create(key, str(table), kind, version, metadata=metadata, options=options)
    spark.do(key, "insert", list(range(60)), 1, None, PARTS)
    truth, parts, late = {}, collections.defaultdict(set), 0
    began = time.monotonic()
    with Mount(table) as point:
        stop = multiprocessing.Event()
        readers = [multiprocessing.Process(target=f, args=(point, stop, work / f.__name__)) for f in (pinned, plain)]
        known = set()

        def learn():
            # Every commit since the last look, a compaction inline too.
            for instant in spark.instants(key):
                if instant not in known:
                    known.add(instant)
                    answers = {part: engines.normal(*values) for part, values in spark.answer(key, instant, True).items()}
                    for part, values in answers.items():
                        parts[f"part={part}"].add(values)
                    # No id is in two partitions, so that the answers add up.
                    truth[instant] = engines.total(answers.values())

        learn()
        for reader in readers:
            reader.start()
        try:
            for made in range(commits):
                if time.monotonic() - began > 60 * minutes:
                    report.skip(f"{key}: {commits - made} of {commits} commits", f"{minutes} minutes are over")
                    commits = made
                    break
                n = made + 2
                commit(spark, key, n)
                late += seen(point, spark.latest(key)) is None
                learn()
        finally:
            stop.set()
            for reader in readers:
                reader.join(60)
                if reader.is_alive():
                    reader.kill()
                    report.fail(f"{key}: reader", "hangs")
    left = sum(1 for _ in table.glob("part=*/*.parquet"))
    print(f"     {key}: {commits} commits in {time.monotonic() - began:.0f} s, {len(truth)} instants, {left} base files left by the cleaner")
    report.check(f"{key}: commits that were not visible within 5 s", late, 0)
    verify(report, key, truth, parts, work)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=20, help="the most that one table may take")
    parser.add_argument("--tables", default="cow6,mor9mdt")
    args = parser.parse_args()
    multiprocessing.set_start_method("fork")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    report = Report()
    for key in args.tables.split(","):
        with Scratch() as work:
            try:
                (work / "spark").mkdir()
                with Spark(TABLES[key][0], work / "spark") as spark:
                    run(report, spark, key, work, args.commits, args.minutes)
            except Exception:  # noqa: BLE001, the other table is still to be tried
                report.fail(key, traceback.format_exc()[-1500:])
    report.close()


if __name__ == "__main__":
    main()
