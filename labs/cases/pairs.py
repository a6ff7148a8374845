"""Two nodes of one kind over loopback, each in a control group of its own, and what they move in some seconds.

Applications (whatever fills the sending node) run outside the groups: it is the nodes that are small.
"""

import contextlib
import json
import os
import queue
import subprocess
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from labs.cases.case import Workplace
from labs.cases.traffic import received, stored
from labs.interop import installation
from labs.rig.binary import target_directory
from labs.rig.cgroup import Group
from labs.rig.crew import Crew
from labs.rig.node import Link, Node, NodeFailed, Settings, free_port

# Settings of a machine with so little memory, beside the defaults (docs/small-devices.md).
STORE = 'queue = "4MiB"\nsegment = "4MiB"\nquota_bundles = 50_000'
POLICY = 'window = "4MiB"'

# Seconds in which a node must start: a tenth of a processor is slow at that too.
START_S = 60.0

SERVICE = 42


class Unable(Exception):
    """This pair cannot move bundles of this size; says why."""


class Pair(ABC):
    """Two nodes of one kind."""

    name: str
    durable: bool

    def __init__(self, place: Workplace, groups: tuple[Group, Group], directory: Path) -> None:
        self.place = place
        self.groups = groups
        self.directory = directory
        directory.mkdir(parents=True)

    @staticmethod
    @abstractmethod
    def missing() -> str | None:
        """None where this kind is installed; else why not."""

    @abstractmethod
    def rate(self, crew: Crew, size: int, seconds: float) -> float:
        """Bundles of so many octets that arrived per second. Raises Unable."""

    def count_for(self, seconds: float, count: Callable[[], int], keep_busy: Callable[[], None]) -> float:
        """Arrivals a second between the first that is seen and the end of the time."""
        end = time.monotonic() + START_S
        while (first := count()) == 0:
            keep_busy()
            if time.monotonic() > end:
                raise Unable("nothing arrived")
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            keep_busy()
        last, elapsed = count(), time.monotonic() - start
        if last == first:
            raise Unable("nothing more arrived")
        return (last - first) / elapsed


class DhowPair(Pair):
    """Two dhow nodes, `sync`."""

    name = "dhow, sync"
    durable = True

    # Bundles that wait at the sender, at least: enough that it never runs dry, few enough that they fit its memory.
    BATCH_MIN, BATCH_MAX, BATCH_OCTETS = 16, 10_000, 32_000_000

    @staticmethod
    def missing() -> str | None:
        return None

    def rate(self, crew: Crew, size: int, seconds: float) -> float:
        receiver = Node(crew, self.place.dhow, self.directory / "receiver", Settings(
            "ipn:2.0", store_policy=STORE, listen_policy=POLICY))
        receiver.under = self.groups[1].enter()
        receiver.start(START_S)
        sender = Node(crew, self.place.dhow, self.directory / "sender", Settings(
            "ipn:1.0", links=[Link("receiver", receiver.address, POLICY)], routes=[("ipn:2.*", "receiver")],
            store_policy=STORE, listen_policy=POLICY))
        sender.under = self.groups[0].enter()
        sender.start(START_S)
        batch = max(self.BATCH_MIN, min(self.BATCH_MAX, self.BATCH_OCTETS // size))

        def keep_busy() -> None:
            if stored(sender) < batch:
                self.place.run(sender, "send", f"ipn:2.{SERVICE}", str(self.place.payload(size)), "--count", str(batch))
            else:
                time.sleep(0.05)

        try:
            return self.count_for(seconds, lambda: received(receiver), keep_busy)
        except NodeFailed as failure:
            raise Unable(str(failure)) from None


class HardyPair(Pair):
    """Two nodes of the Hardy libraries; they keep bundles in memory as the peer program is built."""

    name = f"Hardy ({installation.HARDY_VERSION})"
    durable = False

    # Lines given to the node and not answered yet.
    AHEAD = 32

    @staticmethod
    def missing() -> str | None:
        built = installation.room() / "hardy-build" / "release" / "hardy-peer"
        return None if built.exists() else "not installed (make interop)"

    def rate(self, crew: Crew, size: int, seconds: float) -> float:
        programs = []
        ports = free_port(), free_port()
        binary = str(installation.room() / "hardy-build" / "release" / "hardy-peer")
        for number, (group, port) in enumerate(zip(self.groups, ports, strict=True), 1):
            inbox = self.directory / f"inbox-{number}"
            inbox.mkdir()
            programs.append(crew.start(
                [*group.enter(), binary, f"ipn:{number}.0", f"127.0.0.1:{port}", str(SERVICE), str(inbox)],
                log=self.directory / "hardy.log", typed=True))
            if programs[-1].line(START_S) != "ready":
                raise Unable("it did not start")
        sender, receiver = programs
        sender.type(f"connect 127.0.0.1:{ports[1]}")
        if sender.line(START_S) != "connected":
            raise Unable("it did not connect")
        file = self.place.payload(size)
        open_lines, arrived = 0, 0

        def count() -> int:
            nonlocal arrived
            for line in receiver.rest():
                word, path = line.split()[:2]
                if word == "received":
                    arrived += 1
                    Path(path).unlink(missing_ok=True)
            return arrived

        def keep_busy() -> None:
            nonlocal open_lines
            while open_lines < self.AHEAD:
                sender.type(f"send ipn:2.{SERVICE} {file}")
                open_lines += 1
            with contextlib.suppress(queue.Empty):
                line = sender.line(0.05)
                if line is None or line.startswith("failed"):
                    raise Unable(line or "it ended")
                open_lines -= 1
            count()

        return self.count_for(seconds, count, keep_busy)


class Dtn7Pair(Pair):
    """Two dtnd of dtn7-rs, bundles in memory as it is by default, filled over HTTP."""

    name = f"dtn7-rs {installation.DTN7_VERSION}"
    durable = False

    @staticmethod
    def missing() -> str | None:
        built = installation.room() / "dtn7" / "bin" / "dtnd"
        return None if built.exists() else "not installed (make interop)"

    def rate(self, crew: Crew, size: int, seconds: float) -> float:
        binary = str(installation.room() / "dtn7" / "bin" / "dtnd")
        ports = free_port(), free_port()
        webs = free_port(), free_port()
        for number, group in enumerate(self.groups):
            work = self.directory / f"dtnd-{number}"
            work.mkdir()
            other = 1 - number
            crew.start([
                *group.enter(), binary, "-4", "--disable_nd", "-i", "0", "-n", str(number + 1), "-e", str(SERVICE),
                "-w", str(webs[number]), "-W", str(work), "-C", f"tcp:port={ports[number]}:bind=127.0.0.1",
                "-s", f"tcp://127.0.0.1:{ports[other]}/{other + 1}"], log=self.directory / "dtnd.log")
        for web in webs:
            self._wait_for(web)
        body = self.place.payload(size).read_bytes()

        def count() -> int:
            statistics = json.loads(self._ask(webs[1], "status/info"))
            return int(statistics["incoming"])

        def keep_busy() -> None:
            self._ask(webs[0], f"send?dst=ipn:2.{SERVICE}&lifetime=1h", body)

        return self.count_for(seconds, count, keep_busy)

    @staticmethod
    def _ask(web: int, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(f"http://127.0.0.1:{web}/{path}", data=body)
        try:
            with urllib.request.urlopen(request, timeout=START_S) as answer:
                return answer.read()
        except (urllib.error.URLError, OSError) as error:
            raise Unable(f"its HTTP interface fails: {error}") from None

    def _wait_for(self, web: int) -> None:
        end = time.monotonic() + START_S
        while True:
            try:
                self._ask(web, "status/nodeid")
                return
            except Unable:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)


class YardstickPair(Pair):
    """TCP plus a log with group commit (labs/yardstick), `sync`: no node at all."""

    name = "yardstick: TCP and log, sync"
    durable = True

    # Frames of the first, short measurement, from which the number for the real one follows.
    FRAMES_FIRST = 20

    @staticmethod
    def missing() -> str | None:
        return None if yardstick().is_file() else "not built (cargo build --release -p dhow-yardstick)"

    def rate(self, crew: Crew, size: int, seconds: float) -> float:
        frames, elapsed = self.FRAMES_FIRST, 0.0
        # Frames that fit into the first slices of processor time say nothing of the tenth: longer and longer.
        for turn in range(8):
            elapsed = self.seconds(crew, size, frames, turn)
            if elapsed > seconds / 2:
                break
            frames = int(frames * min(30.0, seconds / elapsed))
        return frames / elapsed

    def seconds(self, crew: Crew, size: int, frames: int, turn: int) -> float:
        """The time that so many frames take."""
        shared = ["--mode", "sync", "--log-mib", "16"]
        receiver = crew.start([
            *self.groups[1].enter(), str(yardstick()), "receive", *shared, "--queue-mib", "4",
            "--log", str(self.directory / f"received-{turn}.log")], log=self.directory / "yardstick.log")
        address = receiver.line(START_S)
        if address is None:
            raise Unable("its receiver did not start")
        done = subprocess.run(
            [*self.groups[0].enter(), str(yardstick()), "send", said_address(address), *shared, "--size", str(size),
             "--count", str(frames), "--window-mib", "4", "--log", str(self.directory / f"sent-{turn}.log")],
            capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            raise Unable(done.stderr.strip())
        return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def said_address(line: str) -> str:
    """The address in what the yardstick's receiver says first, plain or as JSON."""
    return json.loads(line)["address"] if line.startswith("{") else line.strip()


def yardstick() -> Path:
    """The yardstick's binary."""
    return Path(os.environ.get("DHOW_YARDSTICK", target_directory() / "release" / "yardstick")).resolve()
