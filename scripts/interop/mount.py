"""A hudifs mount for the time of a `with` block: mounted under a fresh directory, unmounted on every way out."""
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]


def binary():
    """HUDIFS, or the newer of this checkout's release and debug builds."""
    named = os.environ.get("HUDIFS")
    built = [p for p in ([Path(named)] if named else [REPO / "target/release/hudifs", REPO / "target/debug/hudifs"]) if os.access(p, os.X_OK)]
    if not built:
        raise SystemExit("no hudifs binary: cargo build --release, or set HUDIFS")
    return str(max(built, key=lambda p: p.stat().st_mtime))


class Mount:
    def __init__(self, table, point=None, options=()):
        self.table, self.options = table, list(options)
        self.point = Path(point or tempfile.mkdtemp(prefix="hudifs-mnt-"))
        self.own = point is None

    def __enter__(self):
        self.point.mkdir(parents=True, exist_ok=True)
        program = binary()
        self.log = Path(tempfile.mkstemp(prefix="hudifs-log-")[1])
        command = [program, "mount", "--foreground", *self.options, str(self.table), str(self.point)]
        self.daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log.open("w"), stderr=subprocess.STDOUT)
        end = time.monotonic() + 30
        while not os.path.ismount(self.point):
            if self.daemon.poll() is not None or time.monotonic() > end:
                self.__exit__(None, None, None)
                raise RuntimeError(f"no mount: {self.log_text()}")
            time.sleep(0.02)
        return self.point

    def __exit__(self, *_):
        if os.path.ismount(self.point):
            subprocess.run(["umount", str(self.point)], stderr=subprocess.DEVNULL)
        try:
            self.daemon.wait(10)
        except subprocess.TimeoutExpired:
            self.daemon.terminate()
            try:
                self.daemon.wait(10)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait(10)
        if os.path.ismount(self.point):
            subprocess.run(["umount", "-l", str(self.point)], stderr=subprocess.DEVNULL)
        self.text = self.log_text()
        self.log.unlink(missing_ok=True)
        if self.own:
            try:
                self.point.rmdir()
            except OSError:
                pass

    def log_text(self):
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else self.text


class Scratch:
    """A directory for the time of a `with` block."""

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="hudifs-interop-"))
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)
