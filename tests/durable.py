"""Acknowledged means durable: strace sees the sync before the acknowledgment. SIGKILL cannot show it, since the
page cache outlives the process."""

import re
import shutil
import subprocess
import unittest
from pathlib import Path

from labs.rig.binary import ROOT
from tests.workplace import Workplace

# The octet that begins an XFER_ACK (RFC 9174 5.2.3), as strace -x shows it.
XFER_ACK = "\\x02"

WRITES = ("write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg")
SYNCS = ("fsync", "fdatasync", "sync_file_range")

CALL = re.compile(r"^(?P<pid>\d+) +(?P<call>\w+)\((?P<rest>.*)$")
RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. (?P<call>\w+) resumed>(?P<rest>.*)$")


def strace_missing() -> str | None:
    """None where strace works; else why not."""
    if not shutil.which("strace"):
        return "no strace command"
    probe = subprocess.run(["strace", "-D", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    return None if probe.returncode == 0 else f"strace may not trace: {probe.stderr.strip()}"


def events(trace: Path, log: str) -> list[str]:
    """The trace as `written` (octets went to the store's log), `synced` (a sync of it ended) and
    `acknowledged` (an XFER_ACK went to a socket), in order."""
    found = []
    waiting: dict[str, str] = {}  # process to the file of the sync that it waits for
    for line in trace.read_text().splitlines():
        if match := CALL.match(line):
            call, rest = match["call"], match["rest"]
            if call in SYNCS and log in rest:
                if rest.endswith("<unfinished ...>"):
                    waiting[match["pid"]] = call
                elif rest.endswith("= 0"):
                    found.append("synced")
            elif call in WRITES and log in rest:
                found.append("written")
            elif call in WRITES and "<TCP:" in rest and f'"{XFER_ACK}' in rest:
                found.append("acknowledged")
        elif (match := RESUMED.match(line)) and waiting.pop(match["pid"], None) and line.endswith("= 0"):
            found.append("synced")
    return found


class Durable(Workplace):
    """The receiver runs under strace."""

    def receive_one(self, durability: str) -> list[str]:
        """The events of the receiver while one bundle arrives."""
        if reason := strace_missing():
            self.skipTest(reason)
        trace = self.directory / "trace"
        self.receiver.settings.durability = durability
        self.receiver.under = [
            "strace", "-D", "-f", "-yy", "-x", "-s", "1", "-o", str(trace),
            "-e", f"trace={','.join(WRITES + SYNCS)}"]
        self.start()
        sent = self.sender.run("send", "ipn:2.42", str(ROOT / "LICENSE"))
        self.assertEqual(sent.returncode, 0, sent.stderr)
        taken = self.receiver.run(
            "recv", "ipn:2.42", "--count", "1", "--out", str(self.directory / "inbox"), "--timeout", "20s")
        self.assertEqual(taken.returncode, 0, taken.stderr)
        self.receiver.stop()
        return events(trace, str(self.receiver.directory / "store"))

    def test_sync_ends_before_the_acknowledgment_leaves(self) -> None:
        seen = self.receive_one("sync")
        self.assertIn("acknowledged", seen)
        before = seen[: seen.index("acknowledged")]
        self.assertIn("written", before)
        last_write = len(before) - before[::-1].index("written")
        self.assertIn("synced", before[last_write:], f"no sync between the last write and the acknowledgment: {seen}")

    def test_without_sync_nothing_waits_for_the_disk(self) -> None:
        # The counter-proof: where the operator chose the page cache, the acknowledgment leaves without a sync.
        seen = self.receive_one("os")
        before = seen[: seen.index("acknowledged")]
        last_write = len(before) - before[::-1].index("written")
        self.assertNotIn("synced", before[last_write:])


if __name__ == "__main__":
    unittest.main()
