"""tshark, which knows nothing of us, dissects a session between two nodes."""

import shutil
import tempfile
import unittest
from pathlib import Path

from labs.rig.binary import ROOT, dhow
from labs.rig.capture import Capture, judge_missing
from labs.rig.crew import Crew
from labs.rig.node import Link, Node, Settings, free_port

# Sizes around the segment size, so that transfers of one and of many segments pass.
SIZES = [0, 1, 1_000, 70_000, 1 << 20, (1 << 20) + 1, 3_000_000]


class Wire(unittest.TestCase):
    """What goes over the wire is TCPCLv4 and BPv7 to others too."""

    def test_tshark_finds_no_fault_in_a_session(self) -> None:
        if reason := judge_missing():
            self.skipTest(reason)
        directory = Path(tempfile.mkdtemp(prefix="dhow-wire-"))
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        crew = self.enterContext(Crew())
        port = free_port()
        reports = '[reports]\ngenerate = ["reception", "forwarding", "delivery", "deletion"]\n'
        receiver = Node(crew, dhow("debug"), directory / "receiver", Settings(
            "ipn:2.0", f"127.0.0.1:{port}", more=reports))
        sender = Node(crew, dhow("debug"), directory / "sender", Settings(
            "ipn:1.0", links=[Link("receiver", f"127.0.0.1:{port}")], routes=[("ipn:2.*", "receiver")], more=reports))
        capture = Capture(crew, directory / "session.pcapng", [port])
        receiver.start()
        sender.start()
        files = []
        for size in SIZES:
            files.append(str(directory / str(size)))
            Path(files[-1]).write_bytes((ROOT / "LICENSE").read_bytes() * (size // 11_000 + 1))
            with open(files[-1], "r+b") as file:
                file.truncate(size)
        sent = sender.run("send", "ipn:2.42", *files, "--report", "delivery,reception")
        self.assertEqual(sent.returncode, 0, sent.stderr)
        taken = receiver.run("recv", "ipn:2.42", "--count", str(len(SIZES)), "--out", str(directory / "inbox"),
                             "--timeout", "20s")
        self.assertEqual(taken.returncode, 0, taken.stderr)
        self.assertEqual(sender.run("ping", "ipn:2.7", "--count", "2", "--interval", "50ms").returncode, 0)
        sender.stop()
        receiver.stop()
        capture.stop()
        verdict = capture.verdict()
        self.assertEqual(verdict.faults, [])
        # Each of our bundles, pings and echoes; reports come on top.
        self.assertGreaterEqual(verdict.bundles, len(SIZES) + 4)
        self.assertGreater(verdict.messages, verdict.bundles)
