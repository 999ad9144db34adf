"""Seeds for the fuzz targets, out of the fixture tables: the files themselves, and the small tables that whole-table targets
damage. Usage: seeds.py FIXTURES WORK; writes WORK/seeds/<target>/ and WORK/tables/."""

import hashlib
import os
import shutil
import sys
import zipfile

# Small, and between them all layouts, log files, an archive, a replace commit and a metadata table.
TABLES = ["v6_cow_overwrite_plain_mdt", "v6_mor_compaction_plain_mdt", "v9_cow_savepoint_archived", "v9_mor_compaction_plain_mdt"]
SEED_LEN_MAX = 128 << 10
PLANS = ("requested", "inflight", "clean", "rollback", "restore", "savepoint", "indexing")


def main(fixtures: str, work: str) -> None:
    seeds = os.path.join(work, "seeds")
    tables = os.path.join(work, "tables")
    for folder in (seeds, tables):
        shutil.rmtree(folder, ignore_errors=True)
    counts: dict[str, int] = {}

    def seed(target: str, content: bytes) -> None:
        if not content or len(content) > SEED_LEN_MAX:
            return
        folder = os.path.join(seeds, target)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, hashlib.sha1(content).hexdigest()[:16])
        if not os.path.exists(path):
            counts[target] = counts.get(target, 0) + 1
            with open(path, "wb") as file:
                file.write(content)

    for name in sorted(os.listdir(fixtures)):
        if not name.endswith(".zip"):
            continue
        with zipfile.ZipFile(os.path.join(fixtures, name)) as archive:
            if name[: -len(".zip")] in TABLES:
                archive.extractall(tables)
            for entry in archive.infolist():
                if not entry.is_dir():
                    one_file(entry.filename, archive.read(entry), seed)
    for schema, value in [
        ('{"type":"array","items":"null"}', b"\x02\x00"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":["null","R"]}]}', b"\x02\x02\x00"),
        ('{"type":"map","values":{"type":"fixed","name":"F","size":3}}', b"\x02\x02kabc\x00"),
        ('{"type":"enum","name":"E","symbols":["A","B"]}', b"\x02"),
    ]:
        seed("avro", schema.encode() + b"\0" + value)
    whole_tables(tables, seed)
    for target in sorted(counts):
        print(f"{target}: {counts[target]} seeds", file=sys.stderr)


def one_file(path: str, content: bytes, seed) -> None:
    name = path.rsplit("/", 1)[-1]
    seed("file_name", name.encode())
    seed("partition", path.encode())
    if name.startswith(".hoodie_partition_metadata"):
        seed("partition", content)
    elif name.startswith("hoodie.properties"):
        seed("properties", content)
    elif name.endswith(".hfile"):
        seed("hfile", content)
    elif ".log." in name:
        seed("log", content)
    elif "/.hoodie/" in path and name[:1].isdigit():
        seed("instant", name.encode())
        seed("plan" if name.endswith(PLANS) else "commit", content)
        if content.startswith(b"Obj\x01"):
            seed("avro", content)


def whole_tables(tables: str, seed) -> None:
    """Numbers as the targets count: tables by name, files by path in the order of bytes."""
    for number, table in enumerate(sorted(os.listdir(tables))):
        base = os.path.join(tables, table)
        files = []
        for folder, _, names in os.walk(base):
            files.extend(os.path.relpath(os.path.join(folder, n), base) for n in names)
        files.sort(key=str.encode)
        in_history = [f for f in files if f.startswith(".hoodie/timeline/history/")]
        for index, path in enumerate(files):
            if path.endswith((".parquet", ".crc")) and path not in in_history:
                continue
            with open(os.path.join(base, path), "rb") as file:
                content = file.read()
            seed("table", bytes([number, index >> 8, index & 255]) + content)
            if "archived" in table and path in in_history:
                seed("history", bytes([in_history.index(path)]) + content)


if __name__ == "__main__":
    main(*sys.argv[1:])
