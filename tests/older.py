"""The whole program over TCPCLv3: two nodes, and peers that speak one version alone."""

import contextlib
import hashlib
import json
import socket
import time
from pathlib import Path

from labs.rig.binary import ROOT
from labs.rig.capture import Capture, judge_missing
from labs.rig.node import Node
from labs.rig.relay import Relay
from tests.workplace import Workplace

# Bundles of one segment and of many.
SIZES = [1, 300, 70_000, (1 << 20) + 1, 10_000_000]

# A bundle that takes seconds at the rate, and is cut half way.
CUT_OCTETS = 4_000_000
RATE_OCTETS_PER_S = 1_000_000

PATIENCE_S = 30.0
POLL_S = 0.05

# LENGTH messages of version 3; and a remark of less weight in the same frames.
NOT_KNOWN_TO_TSHARK = {"Message type is unknown", "XFER_SEGMENT has no related XFER_ACK"}

# Contact headers up to the version (RFC 7242 4.1, RFC 9174 4.2).
VERSION_3 = b"dtn!\x03"
VERSION_4 = b"dtn!\x04"

# A contact header that offers acknowledgments alone, as ION's does.
GREETING_3 = VERSION_3 + b"\x01\x00\x0f\x07ipn:2.0"


class Older(Workplace):
    """A sender that dials a receiver, or a test, with a protocol of its choice."""

    def dial(self, protocol: str, address: str | None = None) -> None:
        """The sender's link."""
        [link] = self.sender.settings.links
        link.protocol = protocol
        link.address = address or link.address

    def payload(self, octets: int) -> Path:
        """A file of so many octets."""
        text = (ROOT / "LICENSE").read_bytes()
        path = self.directory / f"{octets}.payload"
        path.write_bytes((text * (octets // len(text) + 1))[:octets])
        return path

    def cross(self, source: Node, target: Node, node: str) -> None:
        """A bundle of each size."""
        files = [self.payload(octets) for octets in SIZES]
        sent = source.run("send", f"{node}.42", *map(str, files))
        self.assertEqual(sent.returncode, 0, sent.stderr)
        taken = target.run(
            "recv", f"{node}.42", "--count", str(len(SIZES)), "--out", str(self.directory / f"{node}.inbox"),
            "--timeout", "60s", "--sha256", "--json", timeout_s=90)
        self.assertEqual(taken.returncode, 0, taken.stderr)
        arrived = sorted(json.loads(line)["sha256"] for line in taken.stdout.splitlines())
        self.assertEqual(arrived, sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files))

    def test_bundles_of_all_sizes_cross_both_ways(self) -> None:
        for protocol, spoken in (("tcpcl3", "tcpcl3"), ("auto", "tcpcl")):
            with self.subTest(protocol=protocol):
                self.dial(protocol)
                self.start()
                self.cross(self.sender, self.receiver, "ipn:2")
                self.cross(self.receiver, self.sender, "ipn:1")
                [session] = self.receiver.show("links")["sessions"]
                self.assertEqual(session["protocol"], spoken)
                self.assertEqual(self.sender.stop(), 0)
                self.assertEqual(self.receiver.stop(), 0)

    def test_tshark_finds_no_fault_in_a_session(self) -> None:
        if reason := judge_missing():
            self.skipTest(reason)
        capture = Capture(self.crew, self.directory / "session.pcapng", [self.port])
        self.dial("tcpcl3")
        self.start()
        self.cross(self.sender, self.receiver, "ipn:2")
        pinged = self.sender.run("ping", "ipn:2.7", "--count", "2", "--interval", "50ms")
        self.assertEqual(pinged.returncode, 0, pinged.stderr)
        self.sender.stop()
        self.receiver.stop()
        capture.stop()
        verdict = capture.verdict()
        told = {word for fault in verdict.faults for word in fault.split("\t")[3].split(",")}
        self.assertLessEqual(told, NOT_KNOWN_TO_TSHARK)
        self.assertGreaterEqual(verdict.bundles, len(SIZES))

    def test_bundle_goes_on_behind_what_was_acknowledged_when_its_contact_was_cut(self) -> None:
        self.receiver.start()
        relay = Relay(("127.0.0.1", self.port))
        self.addCleanup(relay.close)
        relay.limit(RATE_OCTETS_PER_S)
        self.dial("tcpcl3", relay.address)
        self.sender.start()
        file = self.payload(CUT_OCTETS)
        self.assertEqual(self.sender.run("send", "ipn:2.42", str(file)).returncode, 0)
        self.until(lambda: relay.passed_octets > CUT_OCTETS / 2)
        relay.cut()
        self.until(lambda: self.receiver.metrics()["dhow_fragments_kept_total"] == 1)
        relay.join()
        taken = self.receiver.run(
            "recv", "ipn:2.42", "--count", "1", "--out", str(self.directory / "inbox"), "--timeout", "60s", "--json")
        self.assertEqual(taken.returncode, 0, taken.stderr)
        [record] = [json.loads(line) for line in taken.stdout.splitlines()]
        self.assertEqual(Path(record["path"]).read_bytes(), file.read_bytes())
        self.assertEqual(self.sender.metrics()["dhow_bundles_resumed_total"], 1)

    def until(self, holds) -> None:
        """Waits for something to become true."""
        end = time.monotonic() + PATIENCE_S
        while not holds():
            self.assertLess(time.monotonic(), end, "it never came so far")
            time.sleep(POLL_S)

    def test_listener_answers_the_version_that_it_is_spoken_to_in(self) -> None:
        self.receiver.start()
        for said, answer in ((VERSION_3 + b"\x07\x00\x1e\x07ipn:7.0", VERSION_3), (VERSION_4 + b"\x00", VERSION_4)):
            with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as stream:
                stream.sendall(said)
                self.assertEqual(read(stream, len(answer)), answer)

    def listen(self, protocol: str) -> socket.socket:
        """A neighbour of the sender's."""
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(PATIENCE_S)
        self.addCleanup(listener.close)
        host, port = listener.getsockname()
        self.dial(protocol, f"{host}:{port}")
        self.sender.start()
        return listener

    def test_operator_is_told_that_a_peer_speaks_version_3(self) -> None:
        listener = self.listen("tcpcl")
        with listener.accept()[0] as stream:
            stream.sendall(GREETING_3)
            self.until(lambda: "tcpcl3" in str(self.sender.show("links")["links"][0]["last_error"]))

    def test_peer_of_version_3_is_dialled_again_in_its_own(self) -> None:
        listener = self.listen("auto")
        for expected in (VERSION_4, VERSION_3, VERSION_3):
            stream, _ = listener.accept()
            with stream:
                stream.settimeout(PATIENCE_S)
                self.assertEqual(read(stream, len(expected)), expected)
                stream.sendall(GREETING_3)
                if expected == VERSION_3:
                    read(stream, len(b"\x0f\x00\x1e\x07ipn:1.0"))
                else:
                    # Octets of our contact header that it has not read reset the connection.
                    with contextlib.suppress(ConnectionResetError):
                        self.assertEqual(stream.recv(100)[1:], b"", "nothing follows but the flags of version 4")


def read(stream: socket.socket, octets: int) -> bytes:
    """So many octets, or all there are."""
    found = b""
    while len(found) < octets and (more := stream.recv(octets - len(found))):
        found += more
    return found
