"""Starts `writer.py` and talks with it."""
import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "fixtures"))
import hudi  # noqa: E402


class Spark:
    """A Spark process for the time of a `with` block. `spark.answer("t")` calls `Writer.answer("t")` over there."""

    def __init__(self, release, home):
        read_end, write_end = os.pipe()
        self.log = tempfile.TemporaryFile("w+")
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            [hudi.tool("spark_python"), str(HERE / "writer.py"), str(write_end), release, str(home)],
            stdin=subprocess.PIPE, stdout=self.log, stderr=self.log, text=True, pass_fds=[write_end], env=environment, cwd=home, start_new_session=True,
        )
        os.close(write_end)
        self.replies = os.fdopen(read_end)
        self.reply(180)

    def reply(self, seconds):
        if not select.select([self.replies], [], [], seconds)[0]:
            raise TimeoutError(f"Spark says nothing for {seconds} s: {self.tail()}")
        line = self.replies.readline()
        if not line:
            raise RuntimeError(f"Spark is gone: {self.tail()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer.get("value")

    def __getattr__(self, name):
        def call(*args, **named):
            self.process.stdin.write(json.dumps({"call": name, "args": args, "named": named}) + "\n")
            self.process.stdin.flush()
            return self.reply(240)

        return call

    def tail(self):
        self.log.seek(0)
        return self.log.read()[-2000:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            # A session of its own: the Python and the JVM below it, and nothing else.
            os.killpg(self.process.pid, 9)
            self.process.wait(10)
        self.replies.close()
