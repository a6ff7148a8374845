"""Peers that stop reading, read an octet a second, come in thousands, cut everything small or announce what never
comes, and a disk that stalls: the node keeps its memory bounded, and whoever behaves gets through beside them."""

import contextlib
import os
import resource
import socket
import struct
import subprocess
import threading
from collections.abc import Callable

from labs.rig.node import Node
from tests.workplace import Workplace

# TCPCLv4 (RFC 9174): message types, and flags of XFER_SEGMENT.
XFER_SEGMENT, XFER_ACK, XFER_REFUSE, KEEPALIVE, SESS_TERM, MSG_REJECT, SESS_INIT = 1, 2, 3, 4, 5, 6, 7
END, START = 1, 2

# The address of hostile peers, so that they are told apart.
ELSEWHERE = "127.0.0.66"

# Connections that are opened at once.
CONNECTIONS = 10_000

# Resident memory that a node may gain under attack, octets: queues of 32 MiB in and out, receive buffers, and sessions.
GAIN_OCTETS = 160 << 20

# The bundles of a well-behaved node beside each attack.
BUNDLES, OCTETS = 200, 50_000

# Seconds for which a peer pushes against a stalled disk.
STALL_S = 3.0

# Seconds that anything may take on a machine that does much else.
PATIENCE_S = 120.0


class Peer:
    """Speaks just enough TCPCLv4 to do harm."""

    def __init__(self, address: str, node_id: str = "ipn:66.0", source: str = ELSEWHERE) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S, source_address=(source, 0))
        name = node_id.encode()
        init = struct.pack(">BHQQH", SESS_INIT, 0, 1 << 30, 1 << 62, len(name)) + name + struct.pack(">I", 0)
        self.socket.sendall(b"dtn!\x04\x00" + init)
        self._take(6)
        _, _, _, _, length = struct.unpack(">BHQQH", self._take(21))
        self._take(length)
        (extensions,) = struct.unpack(">I", self._take(4))
        self._take(extensions)
        self.transfers = 0

    def _take(self, octets: int) -> bytes:
        taken = b""
        while len(taken) < octets:
            more = self.socket.recv(octets - len(taken))
            if not more:
                raise ConnectionError("the node ended the session")
            taken += more
        return taken

    def answer(self) -> tuple[int, int]:
        """The next answer to a transfer: message type, and octets acknowledged or the reason."""
        while True:
            (kind,) = self._take(1)
            if kind == XFER_ACK:
                _, _, octets = struct.unpack(">BQQ", self._take(17))
                return kind, octets
            if kind == XFER_REFUSE:
                reason, _ = struct.unpack(">BQ", self._take(9))
                return kind, reason
            if kind != KEEPALIVE:
                raise ConnectionError(f"message {kind}")

    def segment(self, octets: bytes, flags: int, length: int | None = None) -> bytes:
        """One XFER_SEGMENT; with START it begins a transfer of `length` octets, if that is told."""
        head = struct.pack(">BBQ", XFER_SEGMENT, flags, self.transfers)
        if flags & START:
            # RFC 9174 5.2.5.1: the Transfer Length extension, critical.
            item = b"" if length is None else struct.pack(">BHHQ", 1, 1, 8, length)
            head += struct.pack(">I", len(item)) + item
        return head + struct.pack(">Q", len(octets)) + octets

    def close(self) -> None:
        """Gone without a word."""
        self.socket.close()


class Hostile(Workplace):
    """Each attack on the receiver, and what the sender gets through beside it."""

    def setUp(self) -> None:
        super().setUp()
        self.receiver.settings.quota = "256MiB"

    def bundle(self, destination: str, octets: int) -> bytes:
        """A bundle of the hostile node."""
        payload, made = self.directory / "payload", self.directory / "made"
        payload.write_bytes(bytes(octets))
        words = ["bundle", "make", "ipn:66.1", destination, str(payload), "--out", str(made)]
        subprocess.run([str(self.sender.binary), *words], check=True, capture_output=True)
        return made.read_bytes()

    def behave(self) -> None:
        """Many bundles go from the sender to the receiver's application, and all of them arrive."""
        payload = self.directory / "good"
        payload.write_bytes(os.urandom(OCTETS))
        inbox, log = self.directory / "inbox", self.directory / "recv.log"
        words = ["recv", "ipn:2.42", "--count", str(BUNDLES), "--out", str(inbox), "--timeout", f"{PATIENCE_S:.0f}s"]
        receiving = self.receiver.begin(*words, log=log)
        sent = self.sender.run("send", "ipn:2.42", str(payload), "--count", str(BUNDLES), timeout_s=PATIENCE_S)
        self.assertEqual(sent.returncode, 0, sent.stderr)
        self.assertEqual(receiving.process.wait(PATIENCE_S + 30), 0, log.read_text())

    def attacked(self, attack: Callable[[], None]) -> None:
        """Memory stays bounded while the attack is on and well-behaved transfers pass."""
        before = self.receiver.memory_octets()
        attack()
        self.behave()
        gained = self.receiver.peak_memory_octets() - before
        self.assertLess(gained, GAIN_OCTETS, f"{gained >> 20} MiB were gained")

    def flood(self, node: Node, destination: str, count: int, octets: int) -> None:
        """Puts bundles for a hostile node into `node`."""
        payload = self.directory / "flood"
        payload.write_bytes(bytes(octets))
        sent = node.run("send", destination, str(payload), "--count", str(count), timeout_s=PATIENCE_S)
        self.assertEqual(sent.returncode, 0, sent.stderr)

    def test_a_peer_that_stops_reading_holds_up_nobody_else(self) -> None:
        self.start()
        peer = Peer(self.receiver.address)
        self.addCleanup(peer.close)
        self.attacked(lambda: self.flood(self.receiver, "ipn:66.1", 60, 1_000_000))

    def test_a_peer_that_reads_an_octet_a_second_holds_up_nobody_else(self) -> None:
        self.start()
        peer = Peer(self.receiver.address)
        over = threading.Event()

        def trickle() -> None:
            with contextlib.suppress(OSError):
                while not over.wait(1.0) and peer.socket.recv(1):
                    pass

        reading = threading.Thread(target=trickle, daemon=True)
        reading.start()
        self.addCleanup(peer.close)
        self.addCleanup(over.set)
        self.attacked(lambda: self.flood(self.receiver, "ipn:66.1", 60, 1_000_000))

    def test_ten_thousand_connections_keep_nobody_else_out(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = CONNECTIONS + 500
        if hard != resource.RLIM_INFINITY and hard < wanted:
            self.skipTest(f"{wanted} open files are needed, {hard} allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        # The node must do with what a plain shell gives.
        self.receiver.under = ["prlimit", "--nofile=1024:524288"] if hard >= 524_288 else []
        self.receiver.start()
        host, _, port = self.receiver.address.rpartition(":")
        crowd: list[socket.socket] = []
        self.addCleanup(lambda: [connection.close() for connection in crowd])

        def crowd_in() -> None:
            for number in range(CONNECTIONS):
                connection = socket.socket()
                connection.bind((ELSEWHERE, 0))
                connection.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    connection.connect((host, int(port)))
                crowd.append(connection)

        # The sender comes when the crowd is there already.
        crowd_in()
        self.sender.start()
        self.attacked(lambda: None)
        # And so does an application.
        self.assertEqual(self.receiver.run("status").returncode, 0)

    def test_segments_of_one_octet_cost_their_sender_alone(self) -> None:
        self.start()
        bundle = self.bundle("ipn:2.66", 100_000)
        peers = [Peer(self.receiver.address, f"ipn:{66 + number}.0") for number in range(3)]
        over = threading.Event()

        def nibble(peer: Peer) -> None:
            with contextlib.suppress(OSError):
                while not over.is_set():
                    stream = b"".join(
                        peer.segment(bundle[place:place + 1], START * (place == 0) | END * (place == len(bundle) - 1))
                        for place in range(len(bundle)))
                    peer.transfers += 1
                    peer.socket.sendall(stream)

        def listen(peer: Peer) -> None:
            with contextlib.suppress(OSError):
                while peer.socket.recv(1 << 20):
                    pass

        def attack() -> None:
            for peer in peers:
                self.addCleanup(peer.close)
                for work in (nibble, listen):
                    threading.Thread(target=work, args=(peer,), daemon=True).start()

        self.addCleanup(over.set)
        self.attacked(attack)

    def test_a_transfer_of_two_to_the_63_octets_is_refused(self) -> None:
        self.start()
        peer = Peer(self.receiver.address)
        self.addCleanup(peer.close)

        def announce() -> None:
            peer.socket.sendall(peer.segment(self.bundle("ipn:2.66", 1_000), START, 1 << 63))
            kind, reason = peer.answer()
            # RFC 9174 4.6, 5.2.4: beyond the Transfer MRU, no resources.
            self.assertEqual((kind, reason), (XFER_REFUSE, 2))

        self.attacked(announce)

    def test_a_payload_that_is_announced_and_never_comes_reserves_nothing(self) -> None:
        self.start()
        peer = Peer(self.receiver.address)
        self.addCleanup(peer.close)

        def announce() -> None:
            octets = self.bundle("ipn:2.66", 100_000)
            head, _, payload = octets.partition(b"\x5a" + struct.pack(">I", 100_000))
            self.assertTrue(payload)
            # The payload's head says so much of the store's 256 MiB that no bundle more would have room beside it.
            announced = head + b"\x5a" + struct.pack(">I", (256 << 20) - 40_000) + payload[:1_000]
            peer.socket.sendall(peer.segment(announced, START))

        self.attacked(announce)
        self.assertEqual(self.receiver.metrics()["dhow_bundles_refused_total"], 0)

    def test_a_disk_that_stalls_for_ten_seconds_delays_acknowledgments_and_loses_nothing(self) -> None:
        self.receiver.settings.store_policy = 'flush_delay = "10s"'
        self.start()
        peer = Peer(self.receiver.address)
        self.addCleanup(peer.close)
        bundle = self.bundle("ipn:2.66", 1_000_000)
        before = self.receiver.memory_octets()

        def push() -> None:
            with contextlib.suppress(OSError):
                for number in range(100):
                    peer.socket.sendall(peer.segment(bundle, START | END))
                    peer.transfers += 1

        pushing = threading.Thread(target=push, daemon=True)
        pushing.start()
        # The sender keeps each bundle until it is acknowledged.
        payload = str(self.directory / "payload")
        sent = self.sender.run("send", "ipn:2.42", payload, "--count", "20", timeout_s=PATIENCE_S)
        self.assertEqual(sent.returncode, 0, sent.stderr)
        # It can push no more than the queue takes: the socket is not read while the disk stalls.
        pushing.join(STALL_S)
        self.assertLess(self.receiver.peak_memory_octets() - before, GAIN_OCTETS)
        # The receiver dies with a flush under way, and comes back on a disk that works.
        self.receiver.kill()
        self.receiver.settings.store_policy = ""
        self.receiver.start()
        inbox = self.directory / "inbox"
        words = ["recv", "ipn:2.42", "--count", "20", "--out", str(inbox), "--timeout", f"{PATIENCE_S:.0f}s"]
        taken = self.receiver.run(*words, timeout_s=PATIENCE_S + 30)
        self.assertEqual(taken.returncode, 0, taken.stderr)
