"""Bundles on a directory that is carried between two nodes without a network, with programs and nodes that are killed at any moment.

The judge asks no node: it compares the files that were sent with those that were received.
"""

import contextlib
import hashlib
import json
import os
import random
import subprocess
import time
from pathlib import Path

from labs.rig.binary import dhow
from labs.rig.crew import Program
from labs.rig.node import Node, Settings
from tests.workplace import Workplace

# A step of a test takes no longer than this, seconds; a machine that is busy with something else included.
PATIENCE_S = 60.0

EXTERNAL = '[external]\nsocket = "external.sock"\n'

# Journeys of the directory, and bundles each way before them.
JOURNEYS = 100
BUNDLES = 120

OWN = "dhow-ferry"


def digest(octets: bytes) -> str:
    return hashlib.sha256(octets).hexdigest()


class Carried(Workplace):
    """Two nodes and a directory that is at the place of either, or on its way."""

    def setUp(self) -> None:
        super().setUp()
        binary = dhow("debug")
        self.sender = Node(self.crew, binary, self.directory / "one", Settings("ipn:1.0", more=EXTERNAL))
        self.receiver = Node(self.crew, binary, self.directory / "two", Settings("ipn:2.0", more=EXTERNAL))
        self.stick = self.directory / "stick"
        self.stick.mkdir()
        self.dice = random.Random(7)
        self.sent: dict[str, list[str]] = {}
        self.start()

    def send(self, node: Node, endpoint: str, *payloads: bytes) -> None:
        """One bundle of each, and the judge's note of it."""
        files = []
        for payload in payloads:
            path = self.directory / f"{digest(payload)}.payload"
            path.write_bytes(payload)
            files.append(str(path))
            self.sent.setdefault(endpoint, []).append(digest(payload))
        done = node.run("send", endpoint, *files, "--lifetime", "1d")
        self.assertEqual(done.returncode, 0, done.stderr)

    def received(self, node: Node, endpoint: str) -> None:
        """All that was sent to an endpoint is received, each once, and nothing else."""
        out = self.directory / f"{endpoint}.inbox"
        count = len(self.sent[endpoint])
        done = node.run(
            "recv", endpoint, "--count", str(count), "--out", str(out), "--timeout", "60s", timeout_s=90)
        self.assertEqual(done.returncode, 0, done.stderr)
        more = node.run("recv", endpoint, "--count", "1", "--out", str(out), "--timeout", "300ms")
        self.assertNotEqual(more.returncode, 0, "a bundle came twice")
        arrived = sorted(digest(path.read_bytes()) for path in out.rglob("*") if path.is_file())
        self.assertEqual(arrived, sorted(self.sent[endpoint]))

    def ferry(self, node: Node, place: Path, *words: str) -> Program:
        """A ferry that goes on."""
        return node.begin("ferry", str(place), "--interval", "50ms", "--json", *words)

    def once(self, node: Node, place: Path, *words: str, code: int = 0) -> list[dict]:
        """A ferry that exchanges all; its lines."""
        done = node.run("ferry", str(place), "--interval", "50ms", "--json", "--once", *words, timeout_s=60)
        self.assertEqual(done.returncode, code, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def event(self, ferry: Program, name: str) -> dict:
        """The next line of a ferry with this event."""
        while (line := json.loads(ferry.line(PATIENCE_S) or "null"))["event"] != name:
            pass
        return line

    def mount(self, options: str = "size=1m") -> None:
        """A new and empty file system at the stick's directory."""
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.stick)]
        mounted = subprocess.run(mount, capture_output=True, text=True, timeout=60, check=False)
        if mounted.returncode != 0:
            self.skipTest(f"no tmpfs can be mounted: {mounted.stderr.strip()}")
        self.addCleanup(self.unmount, check=False)

    def remount(self, how: str) -> None:
        """The file system at the stick's directory is read-only, or not any more."""
        subprocess.run(["mount", "-o", f"remount,{how}", str(self.stick)], check=True, timeout=60)

    def unmount(self, check: bool = True) -> None:
        """The stick is gone, and its directory is there."""
        subprocess.run(["umount", "-l", str(self.stick)], check=check, capture_output=True, timeout=60)

    def fill(self) -> Path:
        """A file of somebody else's that leaves no block free."""
        filler = self.stick / "photos"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4_096))
        self.assertEqual(os.statvfs(self.stick).f_bavail, 0)
        return filler

    def files(self, suffix: str) -> list[Path]:
        return sorted(self.stick.glob(f"{OWN}/*/*{suffix}"))

    def until(self, done) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def stored(self, node: Node) -> int:
        return node.show("status")["store"]["bundles"]


class Ferry(Carried):
    """One thing at a time."""

    def test_a_bundle_stays_in_its_node_until_the_one_that_took_it_says_so(self) -> None:
        self.send(self.sender, "ipn:2.42", b"", b"small", os.urandom(3_000_000))
        written = self.once(self.sender, self.stick, "--for", "ipn:2.*")
        self.assertEqual([line["event"] for line in written].count("written"), 3)
        self.assertEqual((self.stored(self.sender), len(self.files(".bundle"))), (3, 3))
        listed = self.sender.run("ferry", "list", str(self.stick), "--json")
        lines = [json.loads(line) for line in listed.stdout.splitlines()]
        self.assertEqual({(line["destination"], line["writer"]) for line in lines}, {("ipn:2.42", "ipn:1.0")})
        self.assertEqual(self.sender.run("ferry", "check", str(self.stick)).returncode, 0)
        taken = self.once(self.receiver, self.stick)
        self.assertEqual([line["event"] for line in taken].count("taken"), 3)
        self.assertEqual((len(self.files(".bundle")), len(self.files(".ack"))), (0, 3))
        self.received(self.receiver, "ipn:2.42")
        self.assertEqual(self.stored(self.sender), 3)
        self.once(self.sender, self.stick, "--for", "ipn:2.*")
        self.until(lambda: self.stored(self.sender) == 0)
        self.assertEqual(self.files(""), self.files("node"))
        # The other way of ownership.
        self.send(self.sender, "ipn:2.43", b"only copy")
        self.once(self.sender, self.stick, "--for", "ipn:2.*", "--hand-over")
        self.until(lambda: self.stored(self.sender) == 0)
        self.once(self.receiver, self.stick)
        self.received(self.receiver, "ipn:2.43")

    def test_torn_files_and_files_of_others_are_left_and_said(self) -> None:
        self.send(self.sender, "ipn:2.42", os.urandom(200_000), b"whole")
        self.once(self.sender, self.stick, "--for", "ipn:2.*")
        large = max(self.files(".bundle"), key=lambda path: path.stat().st_size)
        octets = large.read_bytes()
        large.write_bytes(octets[:100_000] + bytes([octets[100_000] ^ 1]) + octets[100_001:])
        place = large.parent
        (place / "letter.txt").write_text("mine")
        os.mkfifo(place / (large.name.replace(large.name[:8], "00000000")))
        (place / (large.name.replace(large.name[:8], "11111111"))).symlink_to("/dev/zero")
        lines = self.once(self.receiver, self.stick, code=1)
        events = [line["event"] for line in lines]
        self.assertEqual((events.count("taken"), events.count("torn")), (1, 3), lines)
        self.assertEqual(self.receiver.run("ferry", "check", str(self.stick)).returncode, 1)
        self.assertTrue(large.exists() and (place / "letter.txt").read_text() == "mine")
        # Cut short, its writer sees it, and writes it again.
        large.write_bytes(octets[:100_000])
        self.once(self.sender, self.stick, "--for", "ipn:2.*", code=1)
        self.once(self.receiver, self.stick, code=1)
        self.received(self.receiver, "ipn:2.42")

    def test_a_second_ferry_of_the_node_and_a_stick_that_is_away_are_said(self) -> None:
        first = self.ferry(self.sender, self.stick)
        self.assertEqual(json.loads(first.line(PATIENCE_S) or "null")["event"], "here")
        done = self.sender.run("ferry", str(self.stick), "--once")
        self.assertEqual((done.returncode, "another ferry" in done.stderr), (1, True), done.stderr)
        done = self.sender.run("ferry", str(self.directory / "none"), "--once")
        self.assertEqual((done.returncode, "hint:" in done.stderr), (1, True), done.stderr)
        self.stick.rename(self.directory / "away")
        self.assertEqual(json.loads(first.line(PATIENCE_S) or "null")["event"], "away")
        (self.directory / "away").rename(self.stick)
        self.assertEqual(json.loads(first.line(PATIENCE_S) or "null")["event"], "here")
        self.assertEqual(first.stop(), 130)

    def test_a_stick_that_is_full_or_read_only_loses_nothing(self) -> None:
        self.mount("size=2m")
        self.send(self.sender, "ipn:2.42", *(os.urandom(700_000) for _ in range(6)), b"small")
        ferry = self.ferry(self.sender, self.stick, "--for", "ipn:2.*")
        self.event(ferry, "full")
        self.assertEqual(self.stored(self.sender), 7)
        # Taken from a stick that is read-only, bundles stay there.
        self.assertEqual(ferry.stop(), 130)
        self.assertEqual(self.files(".part"), [])
        carried = len(self.files(".bundle"))
        self.assertGreater(carried, 0)
        self.remount("ro")
        events = [line["event"] for line in self.once(self.receiver, self.stick)]
        self.assertEqual((events.count("taken"), len(self.files(".bundle"))), (carried, carried))
        self.remount("rw")
        ferries = [self.ferry(self.sender, self.stick, "--for", "ipn:2.*"), self.ferry(self.receiver, self.stick)]
        self.until(lambda: self.stored(self.sender) == 0)
        self.assertEqual([it.stop() for it in ferries], [130, 130])
        self.received(self.receiver, "ipn:2.42")

    def test_only_copies_go_to_sticks_and_not_to_their_mount_point(self) -> None:
        self.mount()
        ferry = self.ferry(self.sender, self.stick, "--for", "ipn:2.*", "--hand-over")
        self.event(ferry, "here")
        self.unmount()
        self.event(ferry, "away")
        self.send(self.sender, "ipn:2.42", b"only copy")
        time.sleep(0.4)
        self.assertEqual((ferry.rest(), list(self.stick.iterdir()), self.stored(self.sender)), ([], [], 1))
        self.mount()
        self.event(ferry, "written")
        self.until(lambda: self.stored(self.sender) == 0)
        self.assertEqual((len(self.files(".bundle")), ferry.stop()), (1, 130))

    def test_a_directory_is_begun_with_only_copies_if_it_is_a_mount_point_or_its_owner_says_so(self) -> None:
        for words in (["--hand-over"], ["--mounted"]):
            done = self.sender.run("ferry", str(self.stick), "--once", "--for", "ipn:2.*", *words)
            self.assertEqual((done.returncode, "nothing is mounted" in done.stderr), (1, True), done.stderr)
            self.assertIn("hint:", done.stderr)
        self.assertEqual(list(self.stick.iterdir()), [])
        (self.stick / OWN).mkdir()
        ferry = self.ferry(self.sender, self.stick, "--hand-over")
        self.event(ferry, "here")
        self.assertEqual(ferry.stop(), 130)

    def test_a_writer_leaves_room_for_acknowledgments(self) -> None:
        self.mount()
        self.send(self.sender, "ipn:2.42", *(b"%d" % number for number in range(260)))
        ferry = self.ferry(self.sender, self.stick, "--for", "ipn:2.*")
        self.event(ferry, "full")
        self.assertEqual(ferry.stop(), 130)
        self.assertGreaterEqual(os.statvfs(self.stick).f_bavail, 64)
        self.assertGreater(len(self.files(".bundle")), 150)

    def test_acknowledgments_of_a_full_stick_take_the_room_of_their_bundles(self) -> None:
        self.mount()
        ferry = self.ferry(self.sender, self.stick, "--for", "ipn:2.*")
        self.send(self.sender, "ipn:2.42", b"one", b"two", b"three")
        self.until(lambda: len(self.files(".bundle")) == 3)
        filler = self.fill()
        taker = self.ferry(self.receiver, self.stick, "--for", "ipn:1.*")
        self.until(lambda: self.stored(self.sender) == 0)
        self.assertEqual(self.files(".bundle"), [])
        # A stick that has room again is written.
        self.send(self.receiver, "ipn:1.42", b"back")
        filler.unlink()
        self.event(taker, "written")
        self.until(lambda: self.stored(self.receiver) == 3)
        self.assertEqual([ferry.stop(), taker.stop()], [130, 130])
        self.received(self.sender, "ipn:1.42")

    def test_a_stick_without_room_ends_with_something_left_behind(self) -> None:
        self.mount()
        self.fill()
        self.send(self.sender, "ipn:2.42", b"here")
        done = self.sender.run("ferry", str(self.stick), "--once", "--for", "ipn:2.*", timeout_s=20)
        self.assertEqual((done.returncode, "is full" in done.stderr), (1, True), done.stderr)
        (self.stick / "photos").unlink()
        self.send(self.sender, "ipn:2.42", bytes(2_000_000))
        done = self.sender.run("ferry", str(self.stick), "--once", "--for", "ipn:2.*", timeout_s=20)
        self.assertEqual((done.returncode, "stay free for acknowledgments" in done.stderr), (1, True), done.stderr)
        self.assertEqual((len(self.files(".bundle")), self.stored(self.sender)), (1, 2))

    def test_a_stick_that_was_read_only_is_written_once_it_is_not(self) -> None:
        self.mount()
        ferry = self.ferry(self.sender, self.stick, "--for", "ipn:2.*")
        self.event(ferry, "here")
        self.until(lambda: self.files("node"))
        self.remount("ro")
        self.send(self.sender, "ipn:2.42", b"left")
        time.sleep(0.3)
        self.assertEqual(self.files(".bundle"), [])
        self.remount("rw")
        self.event(ferry, "written")
        self.assertEqual(ferry.stop(), 130)
        # One on which no ferry was is waited for.
        self.mount("ro")
        ferry = self.ferry(self.sender, self.stick)
        time.sleep(0.2)
        self.remount("rw")
        self.event(ferry, "here")
        self.assertEqual(ferry.stop(), 130)

    def test_a_stick_that_is_read_only_ends_with_something_left_behind(self) -> None:
        self.mount()
        self.event(begun := self.ferry(self.sender, self.stick), "here")
        self.assertEqual(begun.stop(), 130)
        self.remount("ro")
        self.send(self.sender, "ipn:2.42", b"left behind")
        done = self.sender.run("ferry", str(self.stick), "--once", "--for", "ipn:2.*", timeout_s=20)
        self.assertEqual((done.returncode, "is read-only" in done.stderr), (1, True), done.stderr)
        self.assertIn("1 or more bundles", done.stderr)

    def test_acknowledgments_for_which_nobody_waits_are_removed(self) -> None:
        (self.stick / OWN).mkdir()
        ferries = [self.ferry(self.sender, self.stick, "--for", "ipn:2.*", "--hand-over"), self.ferry(self.receiver, self.stick)]
        self.send(self.sender, "ipn:2.42", b"one", b"two")
        for _ in range(2):
            self.event(ferries[1], "taken")
        self.until(lambda: not self.files(".bundle") and not self.files(".ack"))
        self.assertEqual((self.stored(self.sender), [it.stop() for it in ferries]), (0, [130, 130]))

    def test_a_node_without_an_external_socket_and_a_stick_for_the_node_itself_are_said(self) -> None:
        socket = str(self.directory / "none.sock")
        done = self.sender.run("ferry", str(self.stick), "--once", "--external", socket, timeout_s=20)
        self.assertEqual((done.returncode, socket in done.stderr, "[external]" in done.stderr), (1, True, True), done.stderr)
        done = self.sender.run("ferry", str(self.stick), "--once", "--peer", "ipn:1.0", timeout_s=20)
        self.assertEqual((done.returncode, "itself" in done.stderr), (2, True), done.stderr)
        ferry = self.ferry(self.sender, self.stick, "--external", socket)
        self.event(ferry, "here")
        time.sleep(0.3)
        self.assertEqual((ferry.rest(), ferry.stop()), ([], 130))


class Journeys(Carried):
    """A directory that is carried a hundred times, with kills at any moment."""

    def test_every_bundle_arrives_once_whatever_is_killed_on_the_way(self) -> None:
        ends = [(self.sender, self.directory / "at-one", "ipn:2.*"), (self.receiver, self.directory / "at-two", "ipn:1.*")]
        ferries = [self.ferry(node, place, "--for", to) for node, place, to in ends]
        self.stick.rename(ends[0][1])
        where = 0
        for journey in range(JOURNEYS):
            for node, to in ((self.sender, "ipn:2.42"), (self.receiver, "ipn:1.42")):
                if journey % 5 == 0:
                    sizes = [self.dice.choice([0, 10, 5_000, 100_000]) for _ in range(BUNDLES * 5 // JOURNEYS)]
                    self.send(node, to, *(self.dice.randbytes(size) + journey.to_bytes(2) + bytes([at]) for at, size in enumerate(sizes)))
            time.sleep(self.dice.uniform(0, 0.15))
            victim = self.dice.randrange(12)
            if victim < 2:
                ferries[victim].kill()
                node, place, to = ends[victim]
                ferries[victim] = self.ferry(node, place, "--for", to)
            elif victim == 2:
                node = ends[self.dice.randrange(2)][0]
                node.kill()
                node.start()
            ends[where][1].rename(ends[1 - where][1])
            where = 1 - where
        # Calm: it goes to and fro until both nodes have let go of all.
        def calm() -> bool:
            nonlocal where
            if self.stored(self.sender) == len(self.sent["ipn:1.42"]) and self.stored(self.receiver) == len(self.sent["ipn:2.42"]):
                return True
            time.sleep(0.7)
            ends[where][1].rename(ends[1 - where][1])
            where = 1 - where
            return False

        self.until(calm)
        self.assertEqual([ferry.stop() for ferry in ferries], [130, 130])
        self.received(self.receiver, "ipn:2.42")
        self.received(self.sender, "ipn:1.42")
