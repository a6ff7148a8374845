"""A link made by `dhow channel`: what crosses it arrives when its profile says, and it leaves nothing behind."""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from labs.rig.binary import dhow
from labs.rig.crew import Crew
from labs.rig.hosts import Emulated, Hosts
from labs.rig.network import namespaces_possible

OCTETS = 300_000
PATIENCE_S = 60.0

# The program in a namespace: one connection, all octets of it, their digest on standard output.
RECEIVE = """
import hashlib, socket, sys
with socket.create_server((sys.argv[1], 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    stream, _ = listener.accept()
    digest = hashlib.sha256()
    while octets := stream.recv(65536):
        digest.update(octets)
    print(digest.hexdigest(), flush=True)
"""
SEND = """
import socket, sys
octets = bytes(place * 7 % 251 for place in range(int(sys.argv[3])))
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as stream:
    stream.sendall(octets)
"""
ECHO = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
    here.bind((sys.argv[1], 0))
    print(here.getsockname()[1], flush=True)
    while True:
        octets, sender = here.recvfrom(65536)
        here.sendto(octets, sender)
"""
ASK = """
import socket, sys, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
    here.settimeout(float(sys.argv[3]))
    start = time.monotonic()
    here.sendto(b"are you there?", (sys.argv[1], int(sys.argv[2])))
    try:
        here.recvfrom(65536)
        print(time.monotonic() - start, flush=True)
    except TimeoutError:
        print("nothing", flush=True)
"""
# Datagrams at once, each with its number; the numbers in the order in which they come back, when all have.
ASK_MANY = """
import json, socket, sys
count, answers = int(sys.argv[3]), int(sys.argv[4])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
    here.settimeout(float(sys.argv[5]))
    for number in range(count):
        here.sendto(number.to_bytes(4, "big"), (sys.argv[1], int(sys.argv[2])))
    numbers = [int.from_bytes(here.recvfrom(65536)[0], "big") for _ in range(answers)]
    print(json.dumps(numbers), flush=True)
"""

# So many datagrams at once, to where nobody listens; the socket may hold all of them.
SEND_MANY = """
import socket, sys
SO_SNDBUFFORCE = 32
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
    here.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 16 << 20)
    for _ in range(int(sys.argv[2])):
        here.sendto(bytes(100), (sys.argv[1], 9))
"""
# As many datagrams as there is room for, for so long; and when those that came did, after the first.
FLOOD = """
import socket, sys, time
end = time.monotonic() + float(sys.argv[3])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
    while time.monotonic() < end:
        here.sendto(bytes(1472), (sys.argv[1], int(sys.argv[2])))
        time.sleep(0.0003)
"""
COUNT = """
import json, socket, sys, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
    here.bind((sys.argv[1], 0))
    print(here.getsockname()[1], flush=True)
    here.recv(2048)
    start, times = time.monotonic(), []
    while not times or times[-1] < float(sys.argv[2]):
        here.recv(2048)
        times.append(time.monotonic() - start)
    print(json.dumps(times), flush=True)
"""


class Channel(unittest.TestCase):
    """Two namespaces and a link between them."""

    def setUp(self) -> None:
        if reason := namespaces_possible():
            self.skipTest(reason)
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.directory = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="dhow-channel-")))
        self.hosts = self.stack.enter_context(Hosts("east", "west"))
        self.crew = self.stack.enter_context(Crew())

    def link(self, *options: str) -> Emulated:
        """A link between the two."""
        return self.hosts.emulated(
            self.crew, dhow("debug"), 0, 1, *options, log=self.directory / "channel.log")

    def wait_said(self, words: str) -> None:
        """Until the link has said so on standard error."""
        end = time.monotonic() + PATIENCE_S
        while words not in (self.directory / "channel.log").read_text():
            self.assertLess(time.monotonic(), end, f"the link never says '{words}'")
            time.sleep(0.01)

    def ask(self, link: Emulated, patience_s: float) -> str | None:
        """A datagram from east to west and back: the seconds it took, or `nothing`."""
        echo = self.crew.start(["python3", "-c", ECHO, link.right.address], namespace=link.right.namespace)
        port = echo.line(PATIENCE_S)
        asking = self.crew.start(
            ["python3", "-c", ASK, link.right.address, str(port), str(patience_s)], namespace=link.left.namespace)
        return asking.line(PATIENCE_S)

    def ask_many(self, link: Emulated, count: int, answers: int) -> list[int]:
        """Numbered datagrams from east to west and back: in which order so many answers came."""
        echo = self.crew.start(["python3", "-c", ECHO, link.right.address], namespace=link.right.namespace)
        port = echo.line(PATIENCE_S)
        asking = self.crew.start(
            ["python3", "-c", ASK_MANY, link.right.address, str(port), str(count), str(answers), str(PATIENCE_S)],
            namespace=link.left.namespace)
        return json.loads(str(asking.line(PATIENCE_S)))

    def test_octets_cross_a_link_that_loses_packets_and_none_is_changed(self) -> None:
        link = self.link("--rate", "100Mbit", "--delay", "5ms", "--loss", "0.01", "--seed", "7")
        receiver = self.crew.start(
            ["python3", "-c", RECEIVE, link.right.address], namespace=link.right.namespace)
        port = receiver.line(PATIENCE_S)
        self.crew.start(
            ["python3", "-c", SEND, link.right.address, str(port), str(OCTETS)], namespace=link.left.namespace)
        expected = hashlib.sha256(bytes(place * 7 % 251 for place in range(OCTETS))).hexdigest()
        self.assertEqual(receiver.line(PATIENCE_S), expected)
        counted = link.stop()
        self.assertGreaterEqual(counted["rightward"]["delivered_octets"], OCTETS)
        self.assertGreater(counted["rightward"]["lost"] + counted["leftward"]["lost"], 0)

    def test_nothing_arrives_before_the_delays_of_both_ways_are_over(self) -> None:
        link = self.link("--rate", "1Gbit", "--delay", "50ms")
        took = self.ask(link, PATIENCE_S)
        self.assertGreaterEqual(float(str(took)), 0.1)

    def test_every_packet_comes_twice_each_way_where_all_are_doubled(self) -> None:
        link = self.link("--rate", "100Mbit", "--duplicate", "100%")
        self.assertEqual(self.ask_many(link, 2, 8), [0] * 4 + [1] * 4)
        counted = link.stop()
        for way, packets in (("rightward", 2), ("leftward", 4)):
            self.assertGreaterEqual(counted[way]["duplicated"], packets)
            self.assertEqual(counted[way]["delivered"], 2 * counted[way]["duplicated"])

    def test_packets_overtake_those_that_are_held_up_and_none_with_jitter_alone(self) -> None:
        for options, is_in_order in (
                (("--jitter", "5ms"), True),
                (("--reorder", "0.1", "--reorder-by", "20ms"), False)):
            with self.subTest(options=options):
                link = self.link("--rate", "100Mbit", "--delay", "5ms", *options)
                numbers = self.ask_many(link, 200, 200)
                self.assertEqual(sorted(numbers), list(range(200)))
                self.assertEqual(numbers == sorted(numbers), is_in_order)
                counted = link.stop()
                self.assertEqual(counted["rightward"]["reordered"] == 0, is_in_order)

    def test_packets_that_come_while_the_emulator_has_no_processor_are_not_lost(self) -> None:
        link = self.link("--rate", "1Gbit", "--queue", "16MB")
        os.kill(link.program.pid, signal.SIGSTOP)
        sending = self.crew.start(
            ["python3", "-c", SEND_MANY, link.right.address, "4000"], namespace=link.left.namespace)
        self.assertEqual(sending.wait(PATIENCE_S), 0)
        os.kill(link.program.pid, signal.SIGCONT)
        # The last packet came behind all of them.
        self.assertNotEqual(self.ask(link, PATIENCE_S), "nothing")
        self.assertGreaterEqual(link.stop()["rightward"]["delivered"], 4001)

    def test_packets_leave_as_the_trace_of_a_rate_says(self) -> None:
        # Half a second with a packet a millisecond, and half a second with one in fifty.
        trace = self.directory / "cell.trace"
        trace.write_text("".join(f"{at}\n" for at in (*range(1, 501), *range(550, 1001, 50))))
        link = self.link("--rate-trace", str(trace), "--queue", "4kB")
        counting = self.crew.start(
            ["python3", "-c", COUNT, link.right.address, "2.0"], namespace=link.right.namespace)
        port = counting.line(PATIENCE_S)
        self.crew.start(
            ["python3", "-c", FLOOD, link.right.address, str(port), "4"], namespace=link.left.namespace)
        times = json.loads(str(counting.line(PATIENCE_S)))
        in_tenths = sorted(sum(1 for time in times if place <= time * 10 < place + 1) for place in range(20))
        # Two of the tenths may be of both kinds; a busy machine takes some of the many, and adds none.
        slow, fast = in_tenths[:8], in_tenths[-8:]
        self.assertLessEqual(max(slow), 4)
        self.assertGreaterEqual(min(slow), 1)
        self.assertLessEqual(sum(fast), 8 * 110)
        self.assertGreaterEqual(sum(fast), 8 * 50)

    def test_nothing_crosses_while_the_contact_is_down_and_the_interfaces_stay_up(self) -> None:
        link = self.link("--rate", "1Gbit")
        link.cut()
        self.wait_said("contact ends")
        self.assertEqual(self.ask(link, 0.3), "nothing")
        shown = subprocess.run(
            ["ip", "-n", link.left.namespace, "-json", "link", "show", link.left.device],
            capture_output=True, text=True, check=True)
        self.assertIn("UP", json.loads(shown.stdout)[0]["flags"])
        link.join()
        self.wait_said("contact begins")
        self.assertNotEqual(self.ask(link, PATIENCE_S), "nothing")
        self.assertGreater(link.stop()["rightward"]["cut"], 0)

    def test_an_interrupted_link_ends_with_130_and_takes_its_interfaces_along(self) -> None:
        link = self.link("--rate", "1Gbit")
        link.program.process.send_signal(signal.SIGINT)
        self.assertEqual(link.program.wait(PATIENCE_S), 130)
        shown = subprocess.run(
            ["ip", "-n", link.left.namespace, "link", "show", link.left.device],
            capture_output=True, text=True, check=False)
        self.assertNotEqual(shown.returncode, 0)

    def test_a_namespace_that_is_not_there_is_said_with_how_to_make_it(self) -> None:
        done = subprocess.run(
            [str(dhow("debug")), "channel", "--left", "absent:d0/10.9.0.1/30", "--right",
             f"{self.hosts.names[1]}:d0/10.9.0.2/30", "--rate", "1Mbit"],
            capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("cannot run the link: network namespace 'absent' is not there", done.stderr)
        self.assertIn("hint: ip netns add absent", done.stderr)
