"""Writing: one command a commit, durable, against encoding the rows once and against copying the files that it wrote.

    scripts/bench.d/write.py FOLDER [MILLIONS]      (in an environment with numpy and pyarrow; FOLDER is removed)
"""
import json
import os
import random
import shutil
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq

from bench import HUDIFS, row


def rows(ids, revision, rng=None):
    """Ten columns, a near-unique text among them; keys are int64."""
    n = len(ids)
    ids = pa.array(ids, pa.int64())
    base = ids.to_numpy()
    columns = {
        "id": ids,
        "ts": pa.array([revision] * n, pa.int64()),
        "amount": pa.array(base * 7 % 100003 / 100.0),
        "price": pa.array(base * 13 % 1009 / 10.0),
        "quantity": pa.array((base * 31 % 100).astype("int32")),
        "city": pa.array([f"city-{x % 300}" for x in base]),
        "kind": pa.array([("red", "green", "blue", "grey")[x % 4] for x in base]),
        "note": pa.array([f"{x * 2654435761 % 4294967296:08x}-{revision}" for x in base]),
        "flag": pa.array(base % 3 == 0),
        "day": pa.array((base % 3650).astype("int32"), pa.date32()),
    }
    return pa.table(columns)


def measured(*arguments):
    """Seconds of one command, and its JSON."""
    before = time.perf_counter()
    process = subprocess.Popen([HUDIFS, *map(str, arguments), "--json"], stdout=subprocess.PIPE, text=True)
    out = process.stdout.read()
    status = process.wait()
    seconds = time.perf_counter() - before
    if status:
        raise SystemExit(f"hudifs {arguments}: {status}")
    return seconds, json.loads(out)


def create(table, *more):
    os.makedirs(table)
    subprocess.run([HUDIFS, "create", table, "--record-key", "id", "--ordering", "ts", *more], check=True, stdout=subprocess.DEVNULL)


def copied(table, report):
    """Seconds to copy the files that a commit wrote, synced."""
    files = [f"{table}/{f['partition']}/{f['name']}" for f in report["files"]]
    start = time.perf_counter()
    for number, file in enumerate(files):
        with open(file, "rb") as source, open(f"{table}.copy{number}", "wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
            out.flush()
            os.fsync(out.fileno())
    seconds = time.perf_counter() - start
    for number in range(len(files)):
        os.unlink(f"{table}.copy{number}")
    return seconds


def encoded(file, out):
    """Seconds to encode the same rows by Arrow's C++ writer, one thread, Snappy, synced."""
    data = pq.read_table(file)
    start = time.perf_counter()
    pq.write_table(data, out, compression="snappy", row_group_size=100_000)
    with open(out, "rb") as f:
        os.fsync(f.fileno())
    seconds = time.perf_counter() - start
    os.unlink(out)
    return seconds


def run(work, millions=1):
    n = millions * 1_000_000
    source = f"{work}/source.parquet"
    writer = None
    for start in range(0, n, 500_000):
        part = rows(range(start, min(start + 500_000, n)), 1)
        writer = writer or pq.ParquetWriter(source, part.schema)
        writer.write_table(part, row_group_size=500_000)
    writer.close()
    del part
    rng = random.Random(5)
    clustered, spread, thousand, one = (f"{work}/{x}.parquet" for x in ("clustered", "random", "thousand", "one"))
    pq.write_table(rows(range(n // 3, n // 3 + 10_000), 2), clustered)
    pq.write_table(rows(sorted(rng.sample(range(n), n // 100)), 3), spread)
    pq.write_table(rows(sorted(rng.sample(range(n), 1000)), 4), thousand)
    pq.write_table(rows([n // 2], 5), one)
    floor = encoded(source, f"{work}/floor.parquet")
    for name, more in [("no metadata table", ["--no-metadata"]), ("files", []), ("record index", ["--metadata", "files,record_index"])]:
        table = f"{work}/cow-{name.replace(' ', '-')}"
        create(table, *more)
        s, report = measured("bulk-insert", source, "--table", table)
        row(f"bulk insert of {n:,} rows, {name}", s, floor, "1.5 of encoding on one thread / 2")
        for what, file in [("10,000 clustered keys", clustered), ("1 % of the keys at random", spread), ("one row", one)]:
            s, report = measured("upsert", file, "--table", table)
            row(f"upsert of {what}, {name}", s, copied(table, report), "3 of copying the files")
        if name != "no metadata table":
            shutil.rmtree(table)
    mor = f"{work}/mor"
    create(mor, "--type", "mor", "--metadata", "files,record_index")
    measured("bulk-insert", source, "--table", mor)
    for _ in range(3):
        s, report = measured("upsert", thousand, "--table", mor, "--no-services")
    row(f"upsert of 1,000 rows, merge on read, record index", s, None, "0.06 s")
    for name, more in [("no metadata table", ["--no-metadata"]), ("files", [])]:
        table = f"{work}/many-{name.replace(' ', '-')}"
        create(table, *more)
        times = []
        for i in range(325):
            pq.write_table(rows([i % 10], i), one)
            times.append(measured("upsert", one, "--table", table)[0])
        row(f"one-row upserts, {name}: last 25 of 325 against the first 25", sorted(times[-25:])[12], sorted(times[:25])[12], "flat, 0.025 s")


if __name__ == "__main__":
    work = sys.argv[1]
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    run(work, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    shutil.rmtree(work)
