"""Trino with its Hive connector on a local location, and its file metastore: a real server for the time of the tests.

Trino reaches local files as `local:///…` below one folder, so the mount points are made below that folder too.
"""
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fixtures"))
import engines  # noqa: E402
import hudi  # noqa: E402

OPENS = ("java.base/java.nio", "java.base/java.lang", "java.base/java.util")


class Trino:
    def __init__(self, work):
        home, java = Path(hudi.tool("trino")), hudi.tool("java25")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        etc = work / "trino"
        (etc / "catalog").mkdir(parents=True)
        (work / "catalog").mkdir()
        (etc / "config.properties").write_text(
            f"coordinator=true\nnode-scheduler.include-coordinator=true\nhttp-server.http.port={port}\n"
            f"discovery.uri={self.url}\nquery.max-memory=512MB\nquery.max-memory-per-node=512MB\nmemory.heap-headroom-per-node=128MB\n"
            f"node.environment=test\nplugin.dir={home}/plugin\ncatalog.config-dir={etc}/catalog\n"
            "catalog.management=static\n")
        (etc / "catalog/hive.properties").write_text(
            "connector.name=hive\nhive.metastore=file\nhive.metastore.catalog.dir=local:///catalog\nfs.native-local.enabled=true\n"
            f"local.location={work}\nhive.parquet.use-column-names=true\nhive.security=allow-all\n")
        (etc / "log.properties").write_text("io.trino=WARN\n")
        command = [
            java, "-Xmx1536m", "-XX:+UseG1GC", "-XX:+EnableDynamicAgentLoading", "-XX:TieredStopAtLevel=1", *[f"--add-opens={p}=ALL-UNNAMED" for p in OPENS],
            "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow", 
            f"-Dconfig={etc}/config.properties", f"-Dlog.levels-file={etc}/log.properties", "-cp", f"{home}/lib/*", "io.trino.server.TrinoServer",
        ]
        self.log = (work / "trino.log").open("w+")
        self.server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd=etc)
        try:
            self.wait_ready(240)
        except BaseException:
            self.stop()
            raise

    def wait_ready(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.server.poll() is not None:
                self.log.seek(0)
                raise RuntimeError(f"Trino does not start: {self.log.read()[-1500:]}")
            try:
                if self.sql("select 1") == [[1]]:
                    self.sql("create schema if not exists hive.d")
                    return
            except (OSError, RuntimeError):
                time.sleep(0.5)
        raise TimeoutError(f"Trino was not ready in {seconds} s")

    def sql(self, text):
        headers = {"X-Trino-User": "hudifs"}
        request = urllib.request.Request(f"{self.url}/v1/statement", text.encode(), headers)
        rows, end = [], time.monotonic() + 120
        while True:
            with urllib.request.urlopen(request, timeout=30) as answer:
                page = json.load(answer)
            if "error" in page:
                raise RuntimeError(page["error"]["message"])
            rows += page.get("data", [])
            if "nextUri" not in page:
                return rows
            if time.monotonic() > end:
                raise TimeoutError(f"Trino is still busy with {text}")
            request = urllib.request.Request(page["nextUri"], headers=headers)

    def create(self, name):
        self.sql(f"drop table if exists hive.d.{name}")
        self.sql(
            f"create table hive.d.{name} (id integer, name varchar, ts bigint, price double, amount decimal(10,2), \"day\" date, flag boolean, part varchar) "
            f"with (external_location = 'local:///mnt/{name}', format = 'PARQUET', partitioned_by = array['part'])")

    def answer(self, name):
        self.sql(f"call hive.system.sync_partition_metadata('d', '{name}', 'FULL')")
        rows = self.sql(f"select count(*), count(distinct id), sum(id), sum(ts), cast(sum(amount) as varchar) from hive.d.{name}")
        return engines.normal(*rows[0])

    def stop(self):
        self.server.terminate()
        try:
            self.server.wait(20)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait(10)
        self.log.close()


if __name__ == "__main__":
    from mount import Scratch
    with Scratch() as work:
        os.makedirs(work / "mnt")
        trino = Trino(work)
        print(trino.sql("select version()"), trino.sql("show catalogs"))
        trino.stop()
