"""Synthetic version 6 copy-on-write tables for benchmarks, in any size, that every Hudi reader accepts.

Correctness is never tested on these (real Hudi writes the fixtures): they only have the right names, timeline and sizes.
"""
import json
import os
import uuid
import random
import zlib

import duckdb


SCHEMA = json.dumps({"type": "record", "name": "row", "fields": [
    {"name": "id", "type": ["null", "long"], "default": None}, {"name": "dt", "type": ["null", "string"], "default": None}]})


def instant(n):
    """A valid 17-digit instant, one second apart."""
    day, second = divmod(n, 86400)
    month, day = divmod(day, 28)
    return f"2024{month % 12 + 1:02d}{day + 1:02d}{second // 3600:02d}{second // 60 % 60:02d}{second % 60:02d}000"


def properties(base, name, partition_fields):
    os.makedirs(f"{base}/.hoodie/archived", exist_ok=True)
    checksum = zlib.crc32(f"bench.{name}".encode())
    lines = [
        f"hoodie.table.name={name}", "hoodie.database.name=bench", "hoodie.table.type=COPY_ON_WRITE",
        "hoodie.table.version=6", "hoodie.timeline.layout.version=1", "hoodie.archivelog.folder=archived",
        "hoodie.table.recordkey.fields=id", "hoodie.table.base.file.format=PARQUET",
        "hoodie.datasource.write.hive_style_partitioning=true", "hoodie.table.timeline.timezone=UTC",
        f"hoodie.table.checksum={checksum}",
    ]
    if partition_fields:
        lines.append(f"hoodie.table.partition.fields={partition_fields}")
    with open(f"{base}/.hoodie/hoodie.properties", "w") as f:
        f.write("\n".join(lines) + "\n")


def stat(file_id, partition, name, size, previous):
    return {"fileId": file_id, "path": f"{partition}/{name}" if partition else name, "cdcStats": None,
            "prevCommit": previous, "numWrites": 1, "numDeletes": 0, "numUpdateWrites": 0, "numInserts": 1,
            "totalWriteBytes": size, "totalWriteErrors": 0, "tempPath": None, "partitionPath": partition,
            "totalLogRecords": 0, "totalLogFilesCompacted": 0, "totalLogSizeCompacted": 0,
            "totalUpdatedRecordsCompacted": 0, "totalLogBlocks": 0, "totalCorruptLogBlock": 0,
            "totalRollbackBlocks": 0, "fileSizeInBytes": size, "minEventTime": None, "maxEventTime": None}


def commit(base, time, stats):
    """Completes `time` with the write stats, by partition."""
    meta = f"{base}/.hoodie"
    open(f"{meta}/{time}.commit.requested", "w").close()
    open(f"{meta}/{time}.inflight", "w").close()
    with open(f"{meta}/.{time}.tmp", "w") as f:
        json.dump({"partitionToWriteStats": stats, "compacted": False,
                   "extraMetadata": {"schema": SCHEMA}, "operationType": "UPSERT"}, f)
    os.rename(f"{meta}/.{time}.tmp", f"{meta}/{time}.commit")


def partition(base, path, time):
    os.makedirs(f"{base}/{path}", exist_ok=True)
    with open(f"{base}/{path}/.hoodie_partition_metadata", "w") as f:
        f.write(f"commitTime={time}\npartitionDepth={path.count('/') + 1 if path else 0}\n")


def tiny_parquet():
    path = f"/tmp/.hudifs-bench-{os.getpid()}.parquet"
    duckdb.sql(f"copy (select '20240101000000000' as _hoodie_commit_time, 1::bigint as id, 'x' as dt) to '{path}' (format parquet)")
    with open(path, "rb") as f:
        data = f.read()
    os.unlink(path)
    return data


class Listing:
    """A table of many tiny files: `partitions` x `files` groups, rewritten in part by each later commit."""

    def __init__(self, base, partitions, files, commits, fraction=0.005, seed=7):
        self.base, self.random, self.data = base, random.Random(seed), tiny_parquet()
        properties(base, "listing", "dt")
        self.groups, self.count = [], 0
        for p in range(partitions):
            path = f"dt=2020-{p // 28 % 12 + 1:02d}-{p % 28 + 1:02d}-{p:05d}"
            partition(base, path, instant(0))
            for _ in range(files):
                file_id = f"{uuid.UUID(int=self.random.getrandbits(128), version=4)}-0"
                self.groups.append([path, file_id, "null"])
        load = min(10, commits)
        for i in range(load):
            self.write(self.groups[i * len(self.groups) // load:(i + 1) * len(self.groups) // load])
        for _ in range(commits - load):
            self.write(self.random.sample(self.groups, max(1, int(len(self.groups) * fraction))))

    def write(self, groups):
        """One commit that writes a new base file for each group; returns (instant, names)."""
        time, stats, names = instant(self.count), {}, []
        for group in groups:
            path, file_id, previous = group
            name = f"{file_id}_0-{self.count}-0_{time}.parquet"
            with open(f"{self.base}/{path}/{name}", "wb") as f:
                f.write(self.data)
            stats.setdefault(path, []).append(stat(file_id, path, name, len(self.data), previous))
            group[2] = time
            names.append(f"{path}/{name}")
        commit(self.base, time, stats)
        self.count += 1
        return time, names


def rows(base, partitions, files, rows_a_file):
    """A table of incompressible rows; returns the files' paths relative to the base."""
    properties(base, "rows", "dt")
    time, stats, paths = instant(0), {}, []
    for p in range(partitions):
        path = f"dt=2024-01-{p + 1:02d}"
        partition(base, path, time)
        for n in range(files):
            file_id = f"{uuid.UUID(int=p * 1000 + n, version=4)}-0"
            name = f"{file_id}_0-0-0_{time}.parquet"
            duckdb.sql(f"""copy (select '{time}' as _hoodie_commit_time, range as id, random() as a, random() as b,
                random() as c, random() as d, (range % 1000)::int as e from range({rows_a_file}))
                to '{base}/{path}/{name}' (format parquet, compression uncompressed, row_group_size 100000)""")
            size = os.path.getsize(f"{base}/{path}/{name}")
            stats.setdefault(path, []).append(stat(file_id, path, name, size, "null"))
            paths.append(f"{path}/{name}")
    commit(base, time, stats)
    return paths
