"""perf attached to a process: what it counted, and in which functions the samples fell."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

EVENTS = ["cycles", "instructions", "task-clock", "context-switches", "page-faults"]

# A prime, so that samples do not keep step with a timer.
SAMPLES_PER_S = 1997

# Seconds within which perf attaches or ends.
PATIENCE_S = 30.0


class CannotRecord(Exception):
    """perf is missing or not allowed; says why."""


def perf_missing() -> str | None:
    """None when perf is there; else why not."""
    return None if shutil.which("perf") else "no perf command (Debian: apt-get install linux-perf)"


class Recording:
    """`perf stat` and `perf record` on one process, from the making of the value to `end`."""

    def __init__(self, name: str, pid: int, directory: Path) -> None:
        self.name = name
        self.samples = directory / f"{name}.perf"
        self.totals = directory / f"{name}.stat"
        self.log = directory / f"{name}.log"
        target = ["--pid", str(pid)]
        self._programs = [
            self._start("stat", *target, "--event", ",".join(EVENTS), "-x", ";", "--output", str(self.totals)),
            self._start("record", *target, "--freq", str(SAMPLES_PER_S), "--output", str(self.samples)),
        ]
        # perf makes its file once it has attached.
        end = time.monotonic() + PATIENCE_S
        while not self.samples.exists():
            if self._programs[-1].poll() is not None or time.monotonic() > end:
                self.close()
                raise CannotRecord(f"perf record: {self.log.read_text(errors='replace').strip()[-400:]}")
            time.sleep(0.01)

    def _start(self, *words: str) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as log:
            return subprocess.Popen(["perf", *words], stdout=log, stderr=log, start_new_session=True)

    def close(self) -> None:
        """Ends perf; what it recorded is kept."""
        for program in self._programs:
            if program.poll() is None:
                program.send_signal(signal.SIGINT)
        for program in self._programs:
            try:
                program.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()

    def counted(self) -> dict[str, float]:
        """Totals by event; what the machine does not count is missing. Task clock in milliseconds."""
        counts = {}
        for line in self.totals.read_text().splitlines():
            value, _, event = (*line.split(";"), "", "", "")[:3]
            if event and value and not value.startswith("<"):
                counts[event.partition(":")[0]] = float(value)
        return counts

    def hottest(self, functions: int) -> list[tuple[float, str, str]]:
        """Functions by their own share of the samples: percent, object, name."""
        command = ["perf", "report", "--input", str(self.samples), "--stdio", "--no-children", "--call-graph", "none",
                   "--sort", "dso,symbol", "--field-separator", ";", "--quiet"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, env=os.environ | {"PAGER": "cat"})
        if done.returncode != 0:
            raise CannotRecord(f"perf report: {done.stderr.strip()[-400:]}")
        found = []
        for line in done.stdout.splitlines():
            share, _, rest = line.strip().partition(";")
            place, _, symbol = rest.partition(";")
            if symbol and not line.startswith("#"):
                found.append((float(share.strip().rstrip("%")), place.strip(), symbol.partition(";")[0].strip()))
        return found[:functions]
