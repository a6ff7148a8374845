"""A node and its commands where the system allows little: a log that cannot be written, few files, small files, a store that is gone."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from labs.rig.node import NodeFailed
from tests.workplace import Workplace

# Runs what follows with a limit and with standard error where a log cannot be written: name and octets, or files.
UNDER = """
import os, resource, sys
name, most, full = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if name:
    resource.setrlimit(getattr(resource, "RLIMIT_" + name), (most, most))
if full:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 2)
os.execv(sys.argv[4], sys.argv[4:])
"""

OPERATORS, BUNDLES = 200, 3_000


def under(limit: str = "", most: int = 0, *, full: bool = False) -> list[str]:
    """The beginning of a command that has a limit."""
    return [sys.executable, "-c", UNDER, limit, str(most), "full" if full else ""]


class Limits(Workplace):
    """One node."""

    def setUp(self) -> None:
        super().setUp()
        self.payload = self.directory / "payload"
        self.payload.write_bytes(b"7" * 1000)

    def refusal(self) -> str:
        """The last words of the node, which does not start."""
        with self.assertRaises(NodeFailed):
            self.receiver.start()
        return self.receiver.last_words()

    def test_a_log_that_cannot_be_written_harms_nothing(self) -> None:
        self.receiver.under = under(full=True)
        self.receiver.start()
        self.sender.start()
        self.sender.link_up("receiver")
        for _ in range(3):
            # Each of these writes to the log.
            self.sender.link_down("receiver")
            self.sender.link_up("receiver")
        self.assertEqual(self.sender.run("send", "ipn:2.9", str(self.payload)).returncode, 0)
        done = self.receiver.run("recv", "ipn:2.9", "--count", "1", "--stdout", "--timeout", "20s")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.receiver.run("send", "ipn:9.1", str(self.payload)).returncode, 0)
        [waiting] = json.loads(self.receiver.admin("/v1/bundles"))
        self.assertEqual(self.receiver.run("bundle", "drop", waiting["id"]).returncode, 0)
        self.assertEqual(self.receiver.stop(), 0)

    def test_a_command_whose_errors_cannot_be_written_ends_with_its_code(self) -> None:
        for words, code in [(["status", "--node", "/nowhere"], 1), (["send"], 2)]:
            argv = [*under(full=True), *self.receiver.command(*words)[:1], *words]
            done = subprocess.run(argv, capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, code, words)

    def test_few_open_files_and_small_ones_are_refused_with_a_hint(self) -> None:
        for files in (6, 21):
            self.receiver.under = under("NOFILE", files)
            said = self.refusal()
            self.assertIn(f"{files} files may be open at a time, and a node needs 32", said)
            self.assertIn("ulimit -n", said)
        self.receiver.under = under("FSIZE", 1 << 20)
        self.receiver.settings.quota = "100MB"
        said = self.refusal()
        self.assertIn("files may have 1048576 octets", said)
        self.assertIn("ulimit -f", said)

    def test_operators_that_come_together_are_all_answered(self) -> None:
        self.receiver.start()
        sent = self.receiver.run("send", "ipn:9.1", str(self.payload), "--count", str(BUNDLES))
        self.assertEqual(sent.returncode, 0, sent.stderr)
        argv = self.receiver.command("bundles", "--json")
        operators = [
            subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(OPERATORS)
        ]
        said = [operator.communicate(timeout=60)[1] for operator in operators]
        failed = [text for operator, text in zip(operators, said, strict=True) if operator.returncode != 0]
        self.assertEqual(failed[:1], [])

    def test_what_is_sent_into_a_store_that_was_removed_is_refused(self) -> None:
        self.receiver.start()
        self.assertEqual(self.receiver.run("send", "ipn:9.1", str(self.payload)).returncode, 0)
        shutil.rmtree(self.receiver.directory / "store")
        sent = self.receiver.run("send", "ipn:9.1", str(self.payload))
        self.assertEqual(sent.returncode, 1, sent.stderr)
        self.assertIn("the log was removed while it was in use", self.receiver.last_words(50))

    def test_a_file_that_says_that_it_is_empty_is_read(self) -> None:
        self.receiver.start()
        sent = self.receiver.run("send", "ipn:2.9", "/proc/version")
        self.assertEqual(sent.returncode, 0, sent.stderr)
        done = self.receiver.run("recv", "ipn:2.9", "--count", "1", "--stdout", "--timeout", "20s")
        self.assertEqual(done.stdout, Path("/proc/version").read_text())
