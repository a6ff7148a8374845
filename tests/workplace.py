"""The workplace of a whole-program test: a directory, a crew, nodes whose last words are shown when it fails."""

import hashlib
import json
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

from labs.rig.binary import dhow
from labs.rig.crew import Crew
from labs.rig.node import Link, Node, Settings, free_port


class Workplace(unittest.TestCase):
    """A sender, ipn:1.0, that dials a receiver, ipn:2.0; neither runs yet."""

    more = ""  # further tables of both nodes, as TOML

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="dhow-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.addCleanup(self._tell)
        self.crew = Crew()
        self.addCleanup(self.crew.close)
        self.port = free_port()
        address = f"127.0.0.1:{self.port}"
        binary = dhow("debug")
        self.receiver = Node(
            self.crew, binary, self.directory / "receiver", Settings("ipn:2.0", address, more=self.more))
        self.sender = Node(self.crew, binary, self.directory / "sender", Settings(
            "ipn:1.0", links=[Link("receiver", address)], routes=[("ipn:2.*", "receiver")], more=self.more))

    def start(self) -> None:
        """Both nodes."""
        self.receiver.start()
        self.sender.start()

    def _tell(self) -> None:
        """After a failure: what the nodes said last."""
        outcome = getattr(self, "_outcome", None)
        if outcome is None or outcome.success:
            return
        for node in (self.sender, self.receiver):
            print(f"--- {node.settings.node_id} said last:\n{node.last_words(30)}", file=sys.stderr)


class Exchange(Workplace):
    """A workplace where bundles are told apart by their sizes."""

    def payload(self, octets: int) -> Path:
        """A file of so many octets."""
        path = self.directory / f"{octets}.payload"
        path.write_bytes(b"".join(hashlib.sha256(b"%d" % at).digest() for at in range(octets // 32 + 1))[:octets])
        return path

    def send(self, source: Node, to: str, *sizes: int) -> None:
        """A bundle of each size."""
        sent = source.run("send", to, *[str(self.payload(octets)) for octets in sizes])
        self.assertEqual(sent.returncode, 0, sent.stderr)

    def take(self, target: Node, endpoint: str, *sizes: int) -> None:
        """Bundles of these sizes, and no others."""
        taken = target.run(
            "recv", endpoint, "--count", str(len(sizes)), "--out", str(self.directory / f"{endpoint}.inbox"),
            "--timeout", "60s", "--sha256", "--json", timeout_s=90)
        self.assertEqual(taken.returncode, 0, taken.stderr)
        arrived = sorted(json.loads(line)["sha256"] for line in taken.stdout.splitlines())
        expected = sorted(hashlib.sha256(self.payload(octets).read_bytes()).hexdigest() for octets in sizes)
        self.assertEqual(arrived, expected)
