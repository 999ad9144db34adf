"""schemathesis against the control socket of a mounted warehouse whose tables it may write to, create and empty.

The socket is reached through a port of the loopback address for the time of the run. A daemon that dies, answers 500, breaks a
connection off, or answers what its document does not describe fails the run; so does a table that cannot be read afterwards.
"""
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

from mount import Mount, Scratch, binary

SECONDS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
SEED = os.environ.get("SEED", "1")

CONFIG = """
[parameters]
"path.table" = "trips"

# Refusals by name are answers, not failures: unsupported is 501, unavailable 503.
[checks.not_a_server_error]
expected-statuses = ["2xx", "4xx", 501, 503]

# A body may follow its schema and yet hold no rows of the table.
[checks.positive_data_acceptance]
enabled = false
"""

HOOKS = """
import schemathesis
from hypothesis import strategies as st

names = st.sampled_from(["id", "city", "fare", "ts", "_hoodie_record_key", "", "a.b", "new"])
values = st.one_of(st.none(), st.integers(), st.text(max_size=20), st.booleans(), st.floats(), st.just("../x"), st.just("a:b"))
row = st.fixed_dictionaries(
    {"id": st.one_of(st.text(max_size=8), st.integers(0, 50).map(str)), "city": st.sampled_from(["oslo", "rome", "..", "a/b", "", "ü"])},
    optional={"fare": st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=4)), "ts": st.integers(0, 10**12), "new": values},
)
import json as _json
lines = st.lists(row, max_size=6).map(lambda rows: "\\n".join(_json.dumps(r) for r in rows).encode())
csv = st.lists(st.tuples(st.text(max_size=6), st.sampled_from(["oslo", "rome"]), st.integers(0, 99), st.integers(0, 9)), max_size=6).map(
    lambda rows: "\\n".join(["id,city,fare,ts"] + [",".join(map(str, r)) for r in rows]).encode("utf-8", "surrogatepass"))
junk = st.binary(max_size=200)
schemathesis.openapi.media_type("application/x-ndjson", st.one_of(lines, lines, junk))
schemathesis.openapi.media_type("text/csv", st.one_of(csv, csv, junk))
schemathesis.openapi.media_type("application/vnd.apache.parquet", st.one_of(junk, junk.map(lambda b: b"PAR1" + b + b"PAR1")))
schemathesis.openapi.media_type("application/vnd.apache.arrow.stream", st.one_of(junk, junk.map(lambda b: b"\\xff\\xff\\xff\\xff\\x10\\x00\\x00\\x00" + b)))


def raw(ctx, value):
    return {"data": value if isinstance(value, bytes) else str(value).encode()}


for name in ["application/x-ndjson", "text/csv", "application/vnd.apache.parquet", "application/vnd.apache.arrow.stream"]:
    schemathesis.serializer(name)(raw)
"""


def forward(port_socket, path):
    """Every connection to the port goes to the Unix socket."""
    def pump(source, sink):
        try:
            while piece := source.recv(65536):
                sink.sendall(piece)
        except OSError:
            pass
        try:
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def serve():
        while True:
            try:
                client, _ = port_socket.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(path)
            except OSError:
                client.close()
                continue
            for pair in [(client, server), (server, client)]:
                threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()


def hudifs(*args, stdin=None):
    done = subprocess.run([binary(), *map(str, args)], input=stdin, text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(f"hudifs {args[0]}: {done.stderr}")
    return done.stdout


def main():
    with Scratch() as work:
        lake = work / "lake"
        lake.mkdir()
        hudifs("create", lake / "trips", "--record-key", "id", "--partition-by", "city", "--ordering", "ts")
        rows = "\n".join(json.dumps({"id": str(n), "city": "oslo", "fare": n / 2, "ts": n}) for n in range(50))
        hudifs("upsert", "--format", "ndjson", "--table", lake / "trips", stdin=rows)
        (work / "schemathesis.toml").write_text(CONFIG)
        (work / "hooks.py").write_text(HOOKS)
        mount = Mount(lake, options=["--warehouse"])
        with mount as point, socket.socket() as port_socket:
            port_socket.bind(("127.0.0.1", 0))
            port_socket.listen(64)
            forward(port_socket, os.readlink(point / ".hudifs/control.sock"))
            base = f"http://127.0.0.1:{port_socket.getsockname()[1]}"
            command = [Path(sys.executable).with_name("schemathesis"), "--config-file", work / "schemathesis.toml", "run",
                       f"{base}/openapi.json", "--url", base, "--seed", SEED, "--max-time", str(SECONDS), "--continue-on-failure",
                       "--request-timeout", "30", "--warnings", "off", "--report", "ndjson", "--report-ndjson-path", work / "events.ndjson"]
            env = {**os.environ, "PYTHONPATH": str(work), "SCHEMATHESIS_HOOKS": "hooks", "NO_COLOR": "1"}
            done = subprocess.run(list(map(str, command)), cwd=work, env=env)
            alive = mount.daemon.poll() is None
            readable = alive and subprocess.run([binary(), "doctor", str(lake / "trips")], capture_output=True, text=True)
        failures = []
        if done.returncode:
            failures.append(f"schemathesis ended with {done.returncode}")
        if not alive:
            failures.append(f"the daemon died: {mount.text}")
        elif readable.returncode:
            failures.append(f"the table is not well afterwards: {readable.stdout}")
        if "panicked" in mount.text:
            failures.append(f"a panic: {mount.text}")
    for failure in failures:
        print(f"FAILED: {failure}")
    print(f"{1 - bool(failures)} passed, {int(bool(failures))} failed, 0 skipped")
    sys.exit(bool(failures))


main()
