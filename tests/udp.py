"""The whole program over UDP: two nodes, a receiver that dies, and strangers that say anything."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from labs.rig.binary import dhow
from labs.rig.capture import Capture, judge_missing
from labs.rig.crew import Crew
from labs.rig.network import Namespaces, namespaces_possible
from labs.rig.node import Link, Node, Settings, free_port
from labs.rig.stranger import crc16, head
from tests.workplace import Exchange

# Bundles of one datagram and of many, and one of several transfers (4 MiB).
SIZES = [0, 1, 100, 1_232, 5_000, 70_000, 1 << 20, 10_000_000]

# A rate that needs no patience, and one at which two seconds pass.
RATE = "80Mbit"
SLOW_RATE, SLOW_OCTETS_PER_S = "8Mbit", 1_000_000

# Octets that leave at once after a rest (docs/udpcl.md).
BURST_OCTETS = 65_507

# Strangers that a node listens to at a time (crates/daemon/src/datagrams/peers.rs).
STRANGERS_MAX = 256

PATIENCE_S = 30.0
POLL_S = 0.05


class Udp(Exchange):
    """A sender and a receiver with links over UDP to each other."""

    def setUp(self) -> None:
        super().setUp()
        ports: list[int] = []
        while len(set(ports)) < 2:
            ports = [free_port(socket.SOCK_DGRAM) for _ in range(2)]
        addresses = [f"127.0.0.1:{port}" for port in ports]
        self.address = ("127.0.0.1", ports[1])
        self.ports = ports
        for node, own, other, peer in (
                (self.sender, *addresses, "ipn:2.0"), (self.receiver, *reversed(addresses), "ipn:1.0")):
            settings = node.settings
            settings.listen, settings.listen_protocol = own, "udp"
            settings.links = [Link("other", other, f'peer = "{peer}"\nrate = "{RATE}"\n', "udp")]
            settings.routes = [(peer.replace(".0", ".*"), "other")]

    def test_bundles_of_all_sizes_cross_both_ways(self) -> None:
        self.start()
        self.send(self.sender, "ipn:2.42", *SIZES)
        self.send(self.receiver, "ipn:1.42", *SIZES)
        self.take(self.receiver, "ipn:2.42", *SIZES)
        self.take(self.sender, "ipn:1.42", *SIZES)
        for node in (self.sender, self.receiver):
            shown = node.show("links")
            [session], [link] = shown["sessions"], shown["links"]
            self.assertEqual((session["protocol"], session["secured"], link["state"]), ("udp", False, "up"))
            datagrams = session["datagrams"]
            self.assertGreater(min(datagrams["sent"], datagrams["received"]), sum(SIZES) // 1_232)
            self.assertGreater(min(datagrams["sent_octets"], datagrams["received_octets"]), sum(SIZES))
            self.assertEqual(datagrams["faults"], 0)
            told = node.metrics()
            self.assertEqual(told["dhow_datagrams_sent_total"], datagrams["sent"])
            self.assertEqual(told["dhow_datagrams_refused_total"], 0)
            self.assertEqual(told["dhow_strangers_total"], 0)
            self.assertIn("DATAGRAMS WITH", node.run("links").stdout)
        self.assertEqual(self.sender.stop(), 0)
        self.assertEqual(self.receiver.stop(), 0)

    def test_rate_is_kept(self) -> None:
        [link] = self.sender.settings.links
        link.policy = link.policy.replace(RATE, SLOW_RATE)
        self.start()
        began = time.monotonic()
        self.send(self.sender, "ipn:2.42", 2_000_000)
        self.take(self.receiver, "ipn:2.42", 2_000_000)
        self.assertGreater(time.monotonic() - began, (2_000_000 - BURST_OCTETS) / SLOW_OCTETS_PER_S)

    def test_bundles_to_a_receiver_that_is_away_are_lost_and_later_ones_arrive(self) -> None:
        self.start()
        self.send(self.sender, "ipn:2.42", 100)
        self.take(self.receiver, "ipn:2.42", 100)
        self.receiver.kill()
        self.send(self.sender, "ipn:2.42", 200, 300_000)
        until(self, lambda: self.sender.metrics()["dhow_bundles_stored"] == 0)
        self.receiver.start()
        self.send(self.sender, "ipn:2.42", 300, 70_000)
        self.take(self.receiver, "ipn:2.42", 300, 70_000)
        [link] = self.sender.show("links")["links"]
        self.assertEqual((link["state"], link["failures"]), ("up", 0))

    def test_bundles_wait_for_a_link_that_is_down(self) -> None:
        self.start()
        self.sender.link_down("other")
        until(self, lambda: self.sender.show("links")["links"][0]["state"] == "down")
        self.send(self.sender, "ipn:2.42", 100, 70_000)
        self.assertEqual(self.sender.metrics()["dhow_bundles_stored"], 2)
        self.sender.link_up("other")
        self.take(self.receiver, "ipn:2.42", 100, 70_000)

    def test_long_datagrams_are_few(self) -> None:
        [link] = self.sender.settings.links
        link.policy += "mtu = 65507\n"
        self.start()
        self.send(self.sender, "ipn:2.42", 200_000)
        self.take(self.receiver, "ipn:2.42", 200_000)
        [session] = self.receiver.show("links")["sessions"]
        self.assertLess(session["datagrams"]["received"], 8)

    def test_fragments_are_a_datagram_each_for_peers_of_rfc_7122(self) -> None:
        [link] = self.sender.settings.links
        link.policy += 'fragment = "1kB"\n'
        self.start()
        self.send(self.sender, "ipn:2.42", 5_000)
        self.take(self.receiver, "ipn:2.42", 5_000)
        told = self.receiver.metrics()
        self.assertEqual((told["dhow_datagrams_received_total"], told["dhow_bundles_received_total"]), (5, 5))

    def test_strangers_bring_bundles_and_garbage_ends_nothing(self) -> None:
        self.start()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            # RFC 7122: a bundle and nothing else, as ION and DTNME send it.
            stranger.sendto(bundle(1, b"small"), self.address)
            # The draft: a transfer in segments, the last of which comes first.
            whole = bundle(2, self.payload(5_000).read_bytes())
            for offset in reversed(range(0, len(whole), 1_000)):
                stranger.sendto(segment(7, len(whole), offset, whole[offset:offset + 1_000]), self.address)
            for first in range(256):
                stranger.sendto(bytes([first]) + b"\xff" * 20, self.address)
                stranger.sendto(bytes([first]), self.address)
            stranger.sendto(b"", self.address)
            # The bundle that is no bundle and a transfer that never ends.
            stranger.sendto(bundle(3, b"cut")[:-4], self.address)
            stranger.sendto(segment(8, 1 << 20, 500_000, bytes(1_000)), self.address)
            until(self, lambda: self.receiver.metrics()["dhow_datagram_faults_total"] > 400)
        taken = self.receiver.run(
            "recv", "ipn:2.42", "--count", "2", "--out", str(self.directory / "inbox"), "--timeout", "30s", "--json")
        self.assertEqual(taken.returncode, 0, taken.stderr)
        records = [json.loads(line) for line in taken.stdout.splitlines()]
        self.assertEqual(sorted(record["octets"] for record in records), [5, 5_000])
        told = self.receiver.metrics()
        self.assertEqual(told["dhow_bundles_created_total"], 0)
        self.assertEqual((told["dhow_bundles_received_total"], told["dhow_strangers_total"]), (2, 1))
        self.assertEqual(self.receiver.show("status")["datagrams"]["strangers_known"], 1)
        # No route leads to the stranger.
        shown = self.receiver.show("links")
        self.assertEqual([session["peer"] for session in shown["sessions"]], ["ipn:1.0"])
        self.send(self.sender, "ipn:2.43", 1_000)
        self.take(self.receiver, "ipn:2.43", 1_000)
        self.assertEqual(self.receiver.stop(), 0)

    def test_strangers_are_so_many_at_most_and_the_last_one_is_heard(self) -> None:
        self.start()
        with contextlib.ExitStack() as open_sockets:
            for number in range(STRANGERS_MAX + 44):
                stranger = open_sockets.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                # The beginning of a transfer is missing.
                stranger.sendto(segment(number, 1 << 20, 60_000, bytes(10_000)), self.address)
            stranger.sendto(bundle(1, b"last"), self.address)
            until(self, lambda: self.receiver.metrics()["dhow_bundles_stored"] == 1)
        told = self.receiver.metrics()
        self.assertEqual(told["dhow_strangers_cut_total"], told["dhow_strangers_total"] - STRANGERS_MAX)
        self.send(self.sender, "ipn:2.43", 1_000)
        self.take(self.receiver, "ipn:2.43", 1_000)
        self.assertEqual(self.receiver.stop(), 0)

    def test_tshark_finds_bundles_in_datagrams(self) -> None:
        if reason := judge_missing():
            self.skipTest(reason)
        sizes = [0, 1, 100, 1_000]
        capture = Capture(self.crew, self.directory / "datagrams.pcapng", self.ports, transport="udp")
        self.start()
        self.send(self.sender, "ipn:2.42", *sizes)
        self.take(self.receiver, "ipn:2.42", *sizes)
        capture.stop()
        verdict = capture.verdict()
        self.assertEqual(verdict.faults, [])
        self.assertEqual(verdict.bundles, len(sizes))


class UdpPath(unittest.TestCase):
    """Two nodes in network namespaces, with links over UDP to each other."""

    def setUp(self) -> None:
        if reason := namespaces_possible():
            self.skipTest(f"no network namespaces: {reason}")
        self.directory = Path(tempfile.mkdtemp(prefix="dhow-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.crew = Crew()
        self.network = Namespaces(["one", "two"], 0, 4_556)
        self.addCleanup(self.network.close)
        self.addCleanup(self.crew.close)
        self.sender, self.receiver = (
            Node(self.crew, dhow("debug"), self.directory / name, Settings(
                f"ipn:{own + 1}.0", self.network.listen(own), "udp",
                [Link("other", self.network.dial(own, 1 - own), f'peer = "ipn:{2 - own}.0"\nmtu = 1472\n', "udp")],
                [("ipn:2.*", "other")][own:]), self.network.namespace(own))
            for own, name in enumerate(["sender", "receiver"]))

    def start(self) -> None:
        """Both nodes."""
        self.receiver.start()
        self.sender.start()

    def ip(self, host: int, *words: str) -> None:
        """The system's `ip` on a host."""
        subprocess.run(["ip", "-n", str(self.network.namespace(host)), *words], check=True, capture_output=True)

    def send(self, octets: int, count: int = 1) -> None:
        """Bundles of that size."""
        file = self.directory / "payload"
        file.write_bytes(bytes(octets))
        sent = self.sender.run("send", "ipn:2.42", str(file), "--count", str(count))
        self.assertEqual(sent.returncode, 0, sent.stderr)

    def take(self, octets: int, count: int = 1) -> None:
        """So many of that size."""
        taken = self.receiver.run(
            "recv", "ipn:2.42", "--count", str(count), "--out", str(self.directory / "inbox"), "--timeout", "30s", "--json")
        self.assertEqual(taken.returncode, 0, taken.stderr)
        self.assertEqual({json.loads(line)["octets"] for line in taken.stdout.splitlines()}, {octets})

    def state(self) -> str:
        """The state of the sender's link."""
        return self.sender.show("links")["links"][0]["state"]

    def test_bundles_wait_while_nothing_leads_to_the_peer(self) -> None:
        self.start()
        self.send(5_000)
        self.take(5_000)
        # The peer's end alone leaves a route without a carrier; both leave no route.
        for down in ([(1, "left")], [(0, "right"), (1, "left")]):
            with self.subTest(down=down):
                for host, device in down:
                    self.ip(host, "link", "set", device, "down")
                until(self, lambda: self.state() == "absent")
                self.send(5_000, 3)
                self.assertEqual(self.sender.metrics()["dhow_bundles_stored"], 3)
                for host, device in reversed(down):
                    self.ip(host, "link", "set", device, "up")
                self.take(5_000, 3)
                self.assertEqual(self.sender.metrics()["dhow_bundles_stored"], 0)

    def test_a_transfer_that_comes_as_the_link_does_is_the_peers(self) -> None:
        # The receiver sees its end of the link and the first half at once, and the second half after it.
        self.start()
        self.sender.stop()
        whole = bundle(1, bytes(2_000))
        halves = [segment(7, len(whole), offset, whole[offset:offset + 1_100]) for offset in (0, 1_100)]
        self.ip(1, "link", "set", "left", "down")
        until(self, lambda: self.receiver.show("links")["links"][0]["state"] == "absent")
        os.kill(self.receiver.pid, signal.SIGSTOP)
        self.ip(1, "link", "set", "left", "up")
        self.utter(halves[0])
        os.kill(self.receiver.pid, signal.SIGCONT)
        until(self, lambda: self.receiver.show("links")["links"][0]["state"] == "up")
        self.utter(halves[1])
        self.take(2_000)
        told = self.receiver.metrics()
        self.assertEqual((told["dhow_strangers_total"], told["dhow_datagrams_received_total"]), (0, 2))

    def utter(self, datagram: bytes) -> None:
        """A datagram from the sender's address."""
        own, peer = (self.network.dial(*way).rpartition(":") for way in ((1, 0), (0, 1)))
        program = (
            "import socket, sys; it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); it.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); "
            f"it.bind(('{own[0]}', {own[2]})); it.sendto(bytes.fromhex('{datagram.hex()}'), ('{peer[0]}', {peer[2]}))")
        subprocess.run(["ip", "netns", "exec", str(self.network.namespace(0)), sys.executable, "-c", program], check=True, timeout=PATIENCE_S)

    def test_datagrams_are_as_long_as_the_path_takes(self) -> None:
        for host, device in ((0, "right"), (1, "left")):
            self.ip(host, "link", "set", device, "mtu", "900")
        self.start()
        for mtu in (900, 600, 1_500):
            self.ip(0, "link", "set", "right", "mtu", str(mtu))
            self.ip(1, "link", "set", "left", "mtu", "1500")
            longest = min(mtu, 1_500) - 28
            # The node looks when the system says that something changed, or a second later.
            until(self, lambda longest=longest: self.longest() == longest)
        self.assertEqual(self.sender.metrics()["dhow_datagrams_refused_total"], 0)

    def longest(self) -> int:
        """Octets of the longest datagram of a bundle that leaves now, about."""
        before = self.sender.show("links")["sessions"][0]["datagrams"]
        self.send(100_000)
        self.take(100_000)
        after = self.sender.show("links")["sessions"][0]["datagrams"]
        sent = after["sent"] - before["sent"]
        octets = after["sent_octets"] - before["sent_octets"]
        # All but the last are as long.
        return next((size for size in (572, 872, 1_472) if -(-octets // size) == sent), 0)


def until(test: unittest.TestCase, holds) -> None:
    """Waits for something to become true."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        test.assertLess(time.monotonic(), end, "it never came so far")
        time.sleep(POLL_S)


def bundle(number: int, payload: bytes) -> bytes:
    """A bundle from ipn:66.1 to ipn:2.42."""
    def ipn(node: int, service: int) -> bytes:
        return b"\x82\x02\x82" + head(0, node) + head(0, service)

    stamp = b"\x82" + head(0, int(time.time() * 1000) - 946_684_800_000) + head(0, number)
    primary = b"\x89\x07\x00\x01" + ipn(2, 42) + ipn(66, 1) + ipn(66, 1) + stamp + head(0, 60_000) + b"\x42"
    primary += crc16(primary + b"\x00\x00")
    return b"\x9f" + primary + b"\x85\x01\x01\x00\x00" + head(2, len(payload)) + payload + b"\xff"


def segment(transfer: int, length: int, offset: int, octets: bytes) -> bytes:
    """A map with one Transfer item (draft-ietf-dtn-udpcl-04 3.5.2)."""
    numbers = head(0, transfer) + head(0, length) + head(0, offset)
    return b"\xa1\x02\x84" + numbers + head(2, len(octets)) + octets
