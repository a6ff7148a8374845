"""LTP in encapsulation packets over TCP and Unix sockets: two nodes, and an onlooker that reads the streams by the standard alone."""

import json
import socket
import struct
import subprocess
import threading
import time
import unittest

from labs.rig.binary import dhow
from labs.rig.crew import Program
from labs.rig.node import Link, free_port
from tests.udp import until
from tests.workplace import Exchange

SIZES = [1, 1_400, 70_000, 1 << 20]


class Onlooker:
    """A connection that passes through, and the packets in it (CCSDS 133.1-B-3 4.1.2)."""

    def __init__(self, to: tuple[str, int]) -> None:
        self.to, self.streams = to, [bytearray(), bytearray()]
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        self.connections: list[socket.socket] = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.to)
            except OSError:
                return
            # Those before have ended, within a packet perhaps.
            self.streams = [bytearray(), bytearray()]
            self.connections += [near, far]
            for number, (source, sink) in enumerate([(near, far), (far, near)]):
                threading.Thread(target=self.carry, args=(source, sink, self.streams[number]), daemon=True).start()

    def carry(self, source: socket.socket, sink: socket.socket, seen: bytearray) -> None:
        try:
            while octets := source.recv(65_536):
                seen += octets
                sink.sendall(octets)
        except OSError:
            pass
        for end in (source, sink):
            end.close()

    def packets(self, number: int) -> list[bytes]:
        """The contents of all whole packets of a direction."""
        rest, contents = bytes(self.streams[number]), []
        while rest:
            version, protocol, kind = rest[0] >> 5, rest[0] >> 2 & 7, rest[0] & 3
            assert (version, protocol) == (7, 1), rest[:8].hex()
            header, form = {1: (2, ">xB"), 2: (4, ">xxH"), 3: (8, ">xxxxI")}[kind]
            if len(rest) < header:
                break
            [octets] = struct.unpack(form, rest[:header])
            if len(rest) < octets:
                break
            contents.append(rest[header:octets])
            rest = rest[octets:]
        return contents

    def close(self) -> None:
        for it in [self.listener, *self.connections]:
            it.close()


class Encapsulation(Exchange):
    """Two nodes whose links over LTP lead into streams."""

    def setUp(self) -> None:
        super().setUp()
        ports: list[int] = []
        while len(set(ports)) < 4:
            ports = [free_port(socket.SOCK_DGRAM) for _ in range(4)]
        self.own, self.joints = ports[:2], ports[2:]
        for node, port, way, peer in (
                (self.sender, self.own[0], self.joints[0], "ipn:2.0"), (self.receiver, self.own[1], self.joints[1], "ipn:1.0")):
            settings = node.settings
            settings.listen, settings.listen_protocol = f"127.0.0.1:{port}", "ltp"
            policy = f'peer = "{peer}"\nrate = "40Mbit"\nlight_time = "1ms"\n'
            settings.links = [Link("other", f"127.0.0.1:{way}", policy, "ltp")]
            settings.routes = [(peer.replace(".0", ".*"), "other")]

    def joint(self, number: int, *streams: str) -> Program:
        """The joint of the sender (0) or of the receiver (1); it listens when this returns."""
        command = [dhow("debug"), "ltp", "encapsulate", "--listen", f"127.0.0.1:{self.joints[number]}", "--to",
                   f"127.0.0.1:{self.own[number]}", *streams, "--json"]
        program = self.crew.start([str(it) for it in command], log=self.directory / f"joint-{number}.log")
        self.assertIn("listening", program.line(10) or (self.directory / f"joint-{number}.log").read_text())
        return program

    def exchange(self, *sizes: int) -> None:
        self.send(self.sender, "ipn:2.42", *sizes)
        self.send(self.receiver, "ipn:1.42", *sizes)
        self.take(self.receiver, "ipn:2.42", *sizes)
        self.take(self.sender, "ipn:1.42", *sizes)

    def test_bundles_cross_a_stream_of_tcp_that_ends_and_begins_again(self) -> None:
        port = free_port()
        onlooker = Onlooker(("127.0.0.1", port))
        self.addCleanup(onlooker.close)
        far = self.joint(1, f"tcp-listen:127.0.0.1:{port}")
        near = self.joint(0, f"tcp:127.0.0.1:{onlooker.port}")
        self.start()
        self.exchange(*SIZES)
        for number in range(2):
            packets = onlooker.packets(number)
            self.assertGreater(len(packets), 100)
            # Segments of LTP: version 0; each fits into a datagram of the link.
            self.assertEqual({packet[0] >> 4 for packet in packets}, {0})
            self.assertLessEqual(max(map(len, packets)), 1_400)
        self.send(self.sender, "ipn:2.42", 3_000_000)
        time.sleep(0.3)
        far.kill()
        self.crew.dismiss(far)
        self.joint(1, f"tcp-listen:127.0.0.1:{port}")
        self.take(self.receiver, "ipn:2.42", 3_000_000)
        self.assertEqual(near.stop(), 130)
        said = [json.loads(line) for line in near.rest()]
        states = [it["state"] for it in said if "state" in it]
        self.assertEqual(states[:3], ["up", "down", "up"], said)
        self.assertGreater(said[-1]["packets_out"], 1_000)

    def test_each_direction_may_have_a_unix_socket_of_its_own(self) -> None:
        into, out = (f"{self.directory}/{name}.sock" for name in ("in", "out"))
        # As HDTN has them: a receiver listens at one, and a sender connects to the other.
        self.joint(0, f"unix:{into}", "--to-senders", f"unix-listen:{out}")
        self.joint(1, f"unix:{out}", "--to-senders", f"unix-listen:{into}")
        self.start()
        self.exchange(*SIZES)
        until(self, lambda: self.sender.metrics()["dhow_bundles_stored"] == 0)

    def test_strangers_are_not_heard_and_other_octets_end_a_stream(self) -> None:
        port = free_port()
        joint = self.joint(0, f"tcp-listen:127.0.0.1:{port}")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.bind(("127.0.0.2", 0))
            stranger.sendto(b"\x00\x01\x01\x01\x00\x01\x00", ("127.0.0.1", self.joints[0]))
        for octets, why in ((b"\x80", "0x80 begins no encapsulation packet"), (b"\xf1\x03\x00", "protocol 4, which is not 1")):
            with socket.create_connection(("127.0.0.1", port)) as peer:
                peer.sendall(octets)
                self.assertEqual(peer.recv(1), b"")
            self.assertEqual(json.loads(joint.line(10) or "")["state"], "up")
            self.assertIn(why, json.loads(joint.line(10) or "")["reason"])
        self.assertEqual(joint.stop(), 130)
        [total] = [json.loads(line) for line in joint.rest()]
        self.assertEqual((total["ignored"], total["packets_in"]), (1, 0))
        for stream in ("tcp:", "tcp:4700", "udp:127.0.0.1:1", "unix:"):
            done = subprocess.run([dhow("debug"), "ltp", "encapsulate", "--listen", "127.0.0.1:0", stream],
                                  capture_output=True, text=True, timeout=30, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("unix-listen:PATH are", done.stderr)


if __name__ == "__main__":
    unittest.main()
