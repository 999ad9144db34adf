"""The measurements of scripts/bench. Each section prints rows: what, ours, the peer's, ratio, goal."""
import glob
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(__file__))
import tables

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
HUDIFS = os.environ.get("HUDIFS", f"{ROOT}/target/release/hudifs")
IS_ROOT = os.geteuid() == 0


def row(what, ours, peer=None, goal="", unit="s"):
    ratio = f"{ours / peer:6.2f}" if peer else "      "
    peer = f"{peer:10.4g} {unit}" if peer is not None else " " * (11 + len(unit))
    print(f"{what:<56} {ours:10.4g} {unit} {peer} {ratio}  goal {goal}", flush=True)


def cold():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")


def timed(command, shell=False):
    start = time.perf_counter()
    subprocess.run(command, shell=shell, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def interleaved(ours, peer, rounds=5, before=lambda: None):
    """Medians of two actions run in turn, the order alternating."""
    a, b = [], []
    for i in range(rounds):
        for times, act in [(a, ours), (b, peer)] if i % 2 == 0 else [(b, peer), (a, ours)]:
            before()
            times.append(act())
    return statistics.median(a), statistics.median(b)


class Mount:
    """A foreground daemon on a directory of its own."""

    def __init__(self, uri, *flags, wait=60):
        self.dir = tempfile.mkdtemp(prefix="hudifs-bench-")
        start = time.perf_counter()
        self.log = open(f"{self.dir}.log", "w")
        self.process = subprocess.Popen([HUDIFS, "mount", "-f", *flags, uri, self.dir], stdout=self.log, stderr=self.log)
        while not os.path.ismount(self.dir):
            if self.process.poll() is not None or time.perf_counter() - start > wait:
                raise SystemExit(f"mount failed: {open(self.dir + '.log').read()}")
            time.sleep(0.002)
        self.ready_s = time.perf_counter() - start

    def rss_mb(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmRSS"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", self.dir], check=False)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        os.rmdir(self.dir)
        self.log.close()
        os.unlink(f"{self.dir}.log")


# The peak memory of a process is inherited over exec, so a small process starts what is measured, not this large one.
LAUNCHER = """
import os, sys, time
start = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
_, status, usage = os.wait4(pid, 0)
print(time.perf_counter() - start, usage.ru_maxrss / 1024, status)
"""


def measured(command):
    """Wall seconds and peak memory (MB) of a command; under about 10 MB the launcher's own memory shows."""
    launch = [sys.executable, "-I", "-S", "-c", LAUNCHER, *command]
    out = subprocess.run(launch, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    if out[2] != "0":
        raise SystemExit(f"{command} failed")
    return float(out[0]), float(out[1])


def bench_io(work, small):
    base = f"{work}/rows"
    paths = tables.rows(base, 1, 1, 1_000_000 if small else 12_000_000)
    bench = max(glob.glob(f"{ROOT}/target/release/deps/io-*[!.d]"), key=os.path.getmtime)
    for name, flags in [("passthrough", []), ("served by the daemon", ["--no-passthrough"])]:
        if name == "passthrough" and not IS_ROOT:
            print("passthrough left out: needs root")
            continue
        with Mount(base, *flags) as m:
            print(f"-- {name}; goals: " + ("cold 1.15, warm 1.05, mmap 1.05, random 1.2 / 1.25, CPU 1.1, open 30 us" if not flags
                  else "cold 1.6, warm 1.25, mmap 2, random 1.4 / 2"))
            subprocess.run([bench, f"{m.dir}/{paths[0]}", f"{base}/{paths[0]}", str(m.process.pid)], check=True)


def bench_duckdb(work, small):
    import duckdb
    base = f"{work}/duck"
    paths = tables.rows(base, 4, 2, 300_000 if small else 3_000_000)
    with Mount(base) as m:
        query = "select e, count(*), sum(a), sum(b), sum(c) from read_parquet({}) group by e order by e"
        mounted = query.format(f"'{m.dir}/*/*.parquet'")
        listed = query.format(str([f"{base}/{p}" for p in paths]))

        def run(sql):
            start = time.perf_counter()
            with duckdb.connect() as c:
                c.sql("set threads=2")
                c.sql(sql).fetchall()
            return time.perf_counter() - start

        run(mounted), run(listed)
        row("DuckDB aggregate, warm", *interleaved(lambda: run(mounted), lambda: run(listed)), "1.05")
        if IS_ROOT:
            row("DuckDB aggregate, cold", *interleaved(lambda: run(mounted), lambda: run(listed), before=cold), "1.05")


def listing_table(work, partitions, files, commits):
    base = f"{work}/listing-{partitions}x{files}"
    return base, tables.Listing(base, partitions, files, commits)


def plain_names(work, base):
    """The same names on the disk itself: the listed files only, hard links to one inode each would not be fair."""
    plain = f"{work}/plain-{os.path.basename(base)}"
    listed = subprocess.run([HUDIFS, "files", base], stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    for path in listed:
        os.makedirs(os.path.dirname(f"{plain}/{path}"), exist_ok=True)
        shutil.copyfile(f"{base}/{path}", f"{plain}/{path}")
    return plain, len(listed)


def bench_listing(work, small):
    sizes = [(100, 100, "100 partitions")] if small else [(1000, 100, "100,000 files"), (1000, 1000, "1,000,000 files")]
    for partitions, files, name in sizes:
        base, _ = listing_table(work, partitions, files, 20)
        plain, count = plain_names(work, base)
        assert count == partitions * files
        with Mount(base) as m:
            start = time.perf_counter()
            first = len(os.listdir(f"{m.dir}/{os.listdir(m.dir)[0]}"))
            row(f"{name}: mount ready", m.ready_s, goal="1 s with a metadata table")
            row(f"{name}: first ls of one partition ({first} files)", time.perf_counter() - start, goal="0.05 s")
            for tool, command, goal in [("find", ["find", None, "-type", "f"], "0.8 cold, 0.7 warm"), ("ls -lR", ["ls", "-lR", None], "0.5 cold, 0.7 warm")]:
                def act(where):
                    return lambda: timed([where if c is None else c for c in command])
                act(m.dir)(), act(plain)()
                if tool == "ls -lR":
                    row(f"{name}: resident memory after ls -lR", m.rss_mb(), goal="60 MB / 300 MB", unit="MB")
                row(f"{name}: {tool}, warm", *interleaved(act(m.dir), act(plain), 3), goal)
                if IS_ROOT:
                    row(f"{name}: {tool}, cold", *interleaved(act(m.dir), act(plain), 3, cold), goal)
        shutil.rmtree(base)
        shutil.rmtree(plain)


PEER = """
import sys, hudi
print(len(hudi.HudiTableBuilder.from_base_uri(sys.argv[1]).build().get_file_slices()))
"""


def add_metadata_table(base, name):
    """Java Hudi builds it, through Spark; False where that cannot be had."""
    lib = f". {ROOT}/scripts/lib.sh; spark_python"
    python = subprocess.run(["bash", "-c", lib], stdout=subprocess.PIPE, text=True)
    if python.returncode != 0:
        print("SKIPPED: no Spark on this machine, so no metadata table")
        return False
    start = time.perf_counter()
    script = f"{ROOT}/scripts/bench.d/with_metadata.py"
    subprocess.run([python.stdout.strip(), script, base], env={**os.environ, "TABLE_NAME": name}, check=True, timeout=1800)
    print(f"(Java Hudi built the metadata table in {time.perf_counter() - start:.0f} s, Spark's start included)")
    return True


def bench_metadata(work, small):
    base, _ = listing_table(work, 100 if small else 1000, 100 if small else 1000, 20)
    if not add_metadata_table(base, "listing"):
        return
    partition = sorted(n for n in os.listdir(base) if n.startswith("dt="))[7]
    wall, memory = measured([HUDIFS, "files", base, "--partition", partition, "--listing", "metadata-table"])
    row("one partition from a cold start, metadata table", wall)
    if IS_ROOT:
        cold()
    with Mount(base, "--listing", "metadata-table") as m:
        row("mount ready, metadata table", m.ready_s, goal="1 s")
        start = time.perf_counter()
        first = len(os.listdir(f"{m.dir}/{partition}"))
        row(f"first ls of one partition ({first} files)", time.perf_counter() - start, goal="0.05 s")
        row("ls -lR", timed(["ls", "-lR", m.dir]))
        row("resident memory after ls -lR", m.rss_mb(), goal="300 MB for a million", unit="MB")
    for listing in ("metadata-table", "storage"):
        wall, memory = measured([HUDIFS, "files", base, "--listing", listing])
        row(f"all file slices, {listing}: {memory:.0f} MB", wall)


def bench_resolve(work, small):
    base, _ = listing_table(work, 50 if small else 1000, 100, 200)
    peer = [sys.executable, "-c", PEER, base]
    one = sorted(n for n in os.listdir(base) if n.startswith("dt="))[-1]
    for name, ours, goal in [("all file slices", [HUDIFS, "files", base], "0.1"),
                             ("slices of one partition", [HUDIFS, "files", base, "--partition", one], "0.02")]:
        runs = [(measured(ours), measured(peer)) for _ in range(5)]
        wall, memory = [statistics.median(r[0][i] for r in runs) for i in (0, 1)]
        peer_wall, peer_memory = [statistics.median(r[1][i] for r in runs) for i in (0, 1)]
        row(f"{name} against hudi-rs", wall, peer_wall, goal)
        row(f"{name}: memory", memory, peer_memory, "0.1", "MB")


def bench_visible(work, small):
    base, table = listing_table(work, 100, 20 if small else 100, 12)
    with Mount(base) as m:
        subprocess.run(["ls", "-lR", m.dir], stdout=subprocess.DEVNULL, check=True)
        delays, big = [], []
        for i in range(25):
            groups = table.random.sample(table.groups, 1 if i < 20 else min(1000, len(table.groups)))
            _, names = table.write(groups)
            start = time.perf_counter()
            folder, name = os.path.split(f"{m.dir}/{names[-1]}")
            while name not in os.listdir(folder):
                if time.perf_counter() - start > 10:
                    raise SystemExit("the commit never became visible")
                time.sleep(0.0005)
            (delays if i < 20 else big).append(time.perf_counter() - start)
        row("commit of 1 file by another process to visible in ls", statistics.median(delays) * 1e3, goal="20 ms", unit="ms")
        row(f"commit of {len(groups)} files to visible in ls", statistics.median(big) * 1e3, goal="20 ms + parsing", unit="ms")


def bench_s3(work, small):
    import s3
    s3.run(work, small, Mount, row, interleaved)


SECTIONS = {"io": bench_io, "duckdb": bench_duckdb, "listing": bench_listing, "resolve": bench_resolve,
            "metadata": bench_metadata, "visible": bench_visible, "s3": bench_s3}


def main():
    args = sys.argv[1:]
    small = "--small" in args
    names = [a for a in args if not a.startswith("--")] or list(SECTIONS)
    place = os.environ.get("HUDIFS_BENCH")
    work = tempfile.mkdtemp(prefix="bench-", dir=place)
    try:
        for name in names:
            print(f"\n== {name}")
            SECTIONS[name](work, small)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
