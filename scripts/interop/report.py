"""One line a check, and the closing line that `scripts/test` reads."""
import os
import sys
import time


class Report:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.began = time.monotonic()

    def check(self, what, got, want, note=""):
        good = got == want
        self.passed += good
        self.failed += not good
        tail = f" {note}" if note else ""
        print(f"ok   {what}{tail}" if good else f"FAIL {what}{tail}: got {got}, want {want}", flush=True)
        return good

    def fail(self, what, error):
        self.failed += 1
        print(f"FAIL {what}: {str(error)[:900]}", flush=True)

    def skip(self, what, why):
        self.skipped += 1
        line = f"SKIPPED: {what}: {why}"
        print(line, flush=True)
        if os.environ.get("HUDIFS_SKIPPED_FILE"):
            with open(os.environ["HUDIFS_SKIPPED_FILE"], "a") as out:
                print(line, file=out)

    def close(self):
        print(f"took {time.monotonic() - self.began:.0f} s")
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        sys.exit(1 if self.failed else 0)
