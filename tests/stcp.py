"""The whole program over STCP, MTCP and encapsulation packets: two nodes that dial each other, peers that say nothing of themselves, and streams that are none."""

import json
import socket
import time

from labs.rig.node import Link, free_port
from labs.rig.stranger import head
from tests.udp import bundle, until
from tests.workplace import Exchange

# Bundles of one read and of many.
SIZES = [1, 23, 24, 255, 256, 5_000, 70_000, 1 << 20, 10_000_000]

PROTOCOLS = ["stcp", "stcp-draft", "mtcp", "encapsulation"]

# Octets that a node takes in one bundle, where a test bounds them.
MRU = 100_000

# Connections that a node takes from one address, where a test bounds them.
CONNECTIONS = 4


class Stcp(Exchange):
    """A sender and a receiver with links to each other."""

    def speak(self, protocol: str, node_policy: str = "") -> None:
        """Both speak this protocol, and dial."""
        ports: list[int] = []
        while len(set(ports)) < 2:
            ports = [free_port() for _ in range(2)]
        addresses = [f"127.0.0.1:{port}" for port in ports]
        self.address = ("127.0.0.1", ports[1])
        for node, own, other, peer in (
                (self.sender, *addresses, "ipn:2.0"), (self.receiver, *reversed(addresses), "ipn:1.0")):
            settings = node.settings
            settings.listen, settings.listen_protocol = own, protocol
            settings.node_policy = node_policy
            settings.links = [Link("other", other, f'peer = "{peer}"\n', protocol)]
            settings.routes = [(peer.replace(".0", ".*"), "other")]

    def cross(self, protocol: str) -> None:
        """Bundles of all sizes cross both ways."""
        self.start()
        self.send(self.sender, "ipn:2.42", *SIZES)
        self.send(self.receiver, "ipn:1.42", *SIZES)
        self.take(self.receiver, "ipn:2.42", *SIZES)
        self.take(self.sender, "ipn:1.42", *SIZES)
        for node in (self.sender, self.receiver):
            until(self, lambda node=node: node.metrics()["dhow_bundles_stored"] == 0)
            shown = node.show("links")
            [session], [link] = shown["sessions"], shown["links"]
            self.assertEqual((session["protocol"], session["secured"], link["state"]), (protocol, False, "up"))
            self.assertEqual(session["bundles_sent"], len(SIZES))
            self.assertIn(f" {protocol} ", node.run("links").stdout)
        self.assertEqual(self.sender.stop(), 0)
        self.assertEqual(self.receiver.stop(), 0)

    def test_bundles_of_all_sizes_cross_both_ways_in_each_framing(self) -> None:
        for protocol in PROTOCOLS:
            with self.subTest(protocol=protocol):
                self.speak(protocol)
                self.cross(protocol)

    def test_bundles_cross_where_sockets_are_on_threads_of_their_own(self) -> None:
        self.speak("mtcp", "threads = 3\n")
        self.cross("mtcp")

    def test_a_receiver_that_is_killed_loses_no_more_than_was_on_its_way(self) -> None:
        self.speak("stcp")
        self.start()
        self.send(self.sender, "ipn:2.42", 100)
        self.take(self.receiver, "ipn:2.42", 100)
        self.receiver.kill()
        until(self, lambda: self.sender.show("links")["links"][0]["state"] != "up")
        self.send(self.sender, "ipn:2.42", 200, 300_000)
        self.assertEqual(self.sender.metrics()["dhow_bundles_stored"], 2)
        self.receiver.start()
        self.take(self.receiver, "ipn:2.42", 200, 300_000)

    def test_what_is_kept_stays_until_it_expires(self) -> None:
        self.speak("mtcp")
        self.sender.settings.links[0].policy += 'on_sent = "keep"\n'
        self.start()
        self.send(self.sender, "ipn:2.42", 100, 200_000)
        self.take(self.receiver, "ipn:2.42", 100, 200_000)
        self.assertEqual(self.sender.metrics()["dhow_bundles_stored"], 2)

    def test_senders_are_dialled_back_nowhere_and_keepalives_come(self) -> None:
        self.speak("stcp")
        self.sender.settings.links[0].policy += 'keepalive = "1s"\n'
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = "127.0.0.1:%d" % server.getsockname()[1]
            self.sender.settings.links[0].address = address
            self.sender.start()
            connection, _ = server.accept()
            with connection:
                connection.settimeout(30)
                self.assertEqual(read(connection, 8), bytes(8))
                self.send(self.sender, "ipn:2.42", 5_000)
                length = int.from_bytes(next_head(connection), "big")
                octets = read(connection, length)
                self.assertIn(self.payload(5_000).read_bytes(), octets)
                until(self, lambda: self.sender.metrics()["dhow_bundles_stored"] == 0)
                # The accepting side says nothing in this protocol.
                connection.sendall(b"dtn!\x04\x00")
                self.assertEqual(rest(connection), b"")
        until(self, lambda: "may speak another convergence layer" in self.sender.last_words(100))

    def test_octets_in_any_pieces_are_bundles_of_strangers(self) -> None:
        for protocol in PROTOCOLS:
            with self.subTest(protocol=protocol):
                self.speak(protocol)
                self.receiver.start()
                stream = b""
                for number, octets in enumerate([5, 70_000, 300]):
                    stream += frame(protocol, bundle(int(time.time() * 1000) + number, self.payload(octets).read_bytes()))
                with socket.create_connection(self.address) as stranger:
                    for at in range(100):
                        stranger.sendall(stream[at:at + 1])
                    stranger.sendall(stream[100:])
                    self.take(self.receiver, "ipn:2.42", 5, 70_000, 300)
                self.assertEqual(self.receiver.show("links")["sessions"], [])
                self.assertEqual(self.receiver.metrics()["dhow_bundles_received_total"], 3)
                self.assertEqual(self.receiver.stop(), 0)

    def test_streams_that_are_none_end_alone(self) -> None:
        self.speak("mtcp")
        self.receiver.settings.listen_policy = f"transfer_mru = {MRU}\n"
        self.start()
        right = frame("mtcp", bundle(1, b"right"))
        for wrong in (b"\x5f\x41a\xff", b"dtn!\x04\x00", head(2, MRU + 1), head(2, 1 << 63), b"\x00\x00\x00\x2a"):
            with socket.create_connection(self.address) as stranger:
                stranger.settimeout(30)
                stranger.sendall(right + wrong + bytes(1_000))
                self.assertEqual(rest(stranger), b"")
        # A bundle that is no bundle is skipped; one that ends too early is abandoned.
        with socket.create_connection(self.address) as stranger:
            stranger.sendall(frame("mtcp", bytes(5_000)) + frame("mtcp", bundle(2, b"behind")))
            stranger.sendall(head(2, 5_000) + bundle(3, bytes(5_000))[:2_000])
        self.send(self.sender, "ipn:2.42", 1_000)
        taken = self.receiver.run(
            "recv", "ipn:2.42", "--count", "3", "--out", str(self.directory / "inbox"), "--timeout", "30s", "--json")
        self.assertEqual(taken.returncode, 0, taken.stderr)
        sizes = sorted(json.loads(line)["octets"] for line in taken.stdout.splitlines())
        self.assertEqual(sizes, [5, 6, 1_000])
        said = self.receiver.log.read_text()
        self.assertIn("begins no CBOR byte string", said)
        until(self, lambda: self.receiver.metrics()["dhow_bundles_stored"] == 0)
        self.assertEqual(self.receiver.stop(), 0)

    def test_idle_connections_push_out_none_that_delivers(self) -> None:
        for protocol in PROTOCOLS:
            with self.subTest(protocol=protocol):
                self.speak(protocol)
                self.receiver.settings.listen_policy = f"connections_per_address = {CONNECTIONS}\n"
                self.receiver.start()
                now = int(time.time() * 1000)
                first, second, third = (frame(protocol, bundle(now + number, self.payload(octets).read_bytes())) for number, octets in enumerate([5_000, 300, 7_000]))
                delivering = self.enterContext(socket.create_connection(self.address))
                # It is within a bundle, longer than others are there.
                delivering.sendall(first[:3_000])
                until(self, lambda: self.receiver.metrics()["dhow_socket_received_octets_total"] >= 3_000)
                self.crowd()
                delivering.sendall(first[3_000:])
                self.take(self.receiver, "ipn:2.42", 5_000)
                # Between two bundles it is idle, as are those that have brought nothing.
                self.crowd()
                delivering.sendall(second)
                self.take(self.receiver, "ipn:2.42", 300)
                # Of those that have brought something the one goes that is idle longest, and none within a bundle.
                delivering.sendall(third[:6_000])
                others = []
                for number in range(2 * CONNECTIONS):
                    octets = 20 + number
                    other = self.enterContext(socket.create_connection(self.address))
                    other.sendall(frame(protocol, bundle(now + 10 + number, self.payload(octets).read_bytes())))
                    self.take(self.receiver, "ipn:2.42", octets)
                    others.append(other)
                kept = CONNECTIONS - 1
                for other in others[:-kept]:
                    self.assertTrue(is_cut(other))
                delivering.sendall(third[6_000:])
                self.take(self.receiver, "ipn:2.42", 7_000)
                # The others are there still.
                for number, other in enumerate(others[-kept:]):
                    octets = 40 + number
                    other.sendall(frame(protocol, bundle(now + 30 + number, self.payload(octets).read_bytes())))
                    self.take(self.receiver, "ipn:2.42", octets)
                self.assertEqual(self.receiver.stop(), 0)

    def crowd(self) -> None:
        """More connections than one address may have, which bring nothing and stay open here."""
        crowd = [self.enterContext(socket.create_connection(self.address)) for _ in range(2 * CONNECTIONS)]
        for one in crowd[:CONNECTIONS + 1]:
            self.assertTrue(is_cut(one))

    def test_a_file_is_checked(self) -> None:
        self.speak("stcp")
        self.sender.settings.links[0].policy = ""
        (self.sender.directory / "node.toml").write_text(self.sender.settings.toml())
        path = str(self.sender.directory / "node.toml")
        refused = self.sender.run("node", "config", path)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("needs a 'peer'", refused.stderr)


def frame(protocol: str, octets: bytes) -> bytes:
    """A bundle in its frame."""
    length = len(octets)
    if protocol == "stcp":
        return length.to_bytes(4, "big") + octets
    if protocol == "encapsulation":
        # The longest header (CCSDS 133.1-B-3 4.1.2).
        return b"\xf3\x00\x00\x00" + (length + 8).to_bytes(4, "big") + octets
    mtcp = head(2, length) + octets
    return mtcp if protocol == "mtcp" else b"\x82" + head(0, length) + mtcp


def is_cut(connection: socket.socket) -> bool:
    """Whether the other end closes a connection, which it may have a while for."""
    connection.settimeout(30)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def read(connection: socket.socket, count: int) -> bytes:
    """So many octets."""
    octets = b""
    while len(octets) < count:
        more = connection.recv(count - len(octets))
        if not more:
            break
        octets += more
    return octets


def next_head(connection: socket.socket) -> bytes:
    """The next length that is no keep-alive."""
    while (octets := read(connection, 4)) == bytes(4):
        pass
    return octets


def rest(connection: socket.socket) -> bytes:
    """All that comes before the end, which may be a reset."""
    octets = b""
    try:
        while more := connection.recv(4096):
            octets += more
    except ConnectionResetError:
        pass
    return octets
