"""Reading through a mount of a real S3 server: speed against the raw client, and requests for a whole listing."""
import glob
import os
import re
import subprocess

import boto3
import tables

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))


def requests_made(mount):
    """Calls to the store by kind, as the daemon counts them."""
    with open(f"{mount}/.hudifs/metrics") as f:
        found = re.findall(r'^hudifs_storage_requests_total\{op="(\w+)"\} (\d+)', f.read(), re.M)
    return {op: int(count) for op, count in found if int(count)}


def run(work, small, Mount, row, interleaved):
    state = f"{work}/s3"
    out = subprocess.run([f"{ROOT}/scripts/servers/s3", "start", state, str(os.getpid())], stdout=subprocess.PIPE, text=True)
    if out.returncode == 3:
        print("SKIPPED: no S3 server can be had on this machine")
        return
    env = dict(line.split("=", 1) for line in out.stdout.splitlines() if "=" in line)
    os.environ.update(env)
    try:
        measure(work, small, Mount, row, env)
    finally:
        subprocess.run([f"{ROOT}/scripts/servers/s3", "stop", state])


def measure(work, small, Mount, row, env):
    base = f"{work}/s3rows"
    paths = tables.rows(base, 4, 2, 200_000 if small else 3_000_000)
    client = boto3.client("s3", endpoint_url=env["AWS_ENDPOINT_URL"], region_name=env.get("AWS_REGION", "us-east-1"),
                          aws_access_key_id=env["AWS_ACCESS_KEY_ID"], aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"])
    for folder, _, names in os.walk(base):
        for name in names:
            full = os.path.join(folder, name)
            client.upload_file(full, "hudifs", f"trips/{os.path.relpath(full, base)}")
    bench = max(glob.glob(f"{ROOT}/target/release/deps/s3-*[!.d]"), key=os.path.getmtime)
    with Mount("s3://hudifs/trips", "--memory-target", "128MiB") as m:
        before = requests_made(m.dir)
        subprocess.run(["ls", "-lR", m.dir], stdout=subprocess.DEVNULL, check=True)
        after = requests_made(m.dir)
        print("requests for ls -lR of", len(paths), "files:", {k: v - before.get(k, 0) for k, v in after.items() if v != before.get(k, 0)})
        for part in ("2", "8"):
            print(f"client with 8 requests of {part} MiB each in flight:")
            subprocess.run([bench, f"{m.dir}/{paths[0]}", "hudifs", f"trips/{paths[0]}", "8", part], check=True)
