"""tshark, which knows nothing of us, dissects a session between two nodes."""

from labs.rig.binary import ROOT
from labs.rig.capture import Capture, judge_missing
from tests.workplace import Workplace

# Sizes around the segment size, so that transfers of one and of many segments pass.
SIZES = [0, 1, 1_000, 70_000, 1 << 20, (1 << 20) + 1, 3_000_000]


class Wire(Workplace):
    """Octets on the wire are TCPCLv4 and BPv7 to others too."""

    more = '[reports]\ngenerate = ["reception", "forward", "delivery", "deletion"]\n'

    def payloads(self) -> list[str]:
        """A file of each size."""
        text = (ROOT / "LICENSE").read_bytes()
        files = []
        for size in SIZES:
            path = self.directory / str(size)
            path.write_bytes((text * (size // len(text) + 1))[:size])
            files.append(str(path))
        return files

    def test_tshark_finds_no_fault_in_a_session(self) -> None:
        if reason := judge_missing():
            self.skipTest(reason)
        capture = Capture(self.crew, self.directory / "session.pcapng", [self.port])
        self.start()
        sent = self.sender.run("send", "ipn:2.42", *self.payloads(), "--report", "delivery,reception")
        self.assertEqual(sent.returncode, 0, sent.stderr)
        taken = self.receiver.run(
            "recv", "ipn:2.42", "--count", str(len(SIZES)), "--out", str(self.directory / "inbox"), "--timeout", "20s")
        self.assertEqual(taken.returncode, 0, taken.stderr)
        pinged = self.sender.run("ping", "ipn:2.7", "--count", "2", "--interval", "50ms")
        self.assertEqual(pinged.returncode, 0, pinged.stderr)
        self.sender.stop()
        self.receiver.stop()
        capture.stop()
        verdict = capture.verdict()
        self.assertEqual(verdict.faults, [])
        # Each of our bundles at least; pings, echoes and reports come on top, unless the capture's last
        # block came too late.
        self.assertGreaterEqual(verdict.bundles, len(SIZES))
        self.assertGreater(verdict.messages, verdict.bundles)
