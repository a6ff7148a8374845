"""The abilities of every peer: start beside a dhow node, send a file to it, show received files."""

import os
import shutil
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from labs.rig.crew import Crew
from labs.rig.node import Link, Node, Settings, free_port

# The service at which both sides receive.
SERVICE = 42

# The octets that a bundle adds to its payload at least.
HEADER_OCTETS = 60

# Seconds that one bundle may take, beside those for its octets.
PATIENCE_S = 30.0

# The pace below which a bundle is late, octets a second.
SLOWEST = 400_000


class Unable(Exception):
    """A transfer did not happen; says why in a few words."""


class Skipped(Exception):
    """A peer is not on this machine; says which program is missing."""


class Peer(ABC):
    """An independent node beside one dhow node, joined by a convergence layer over loopback."""

    name: str
    node_number: int
    reading = "strict"  # how dhow must read this peer
    protocol = "tcpcl"  # of the link to it
    transport = socket.SOCK_STREAM  # that the layer needs
    spoken = "tcpcl"  # the judge's name of the layer; none of one whose judge is not asked
    losses: tuple[float, ...] = (0.0,)  # parts of the datagrams that are lost in each direction; all sizes are tried with each
    more_losses: tuple[float, ...] = ()  # that take longer
    send_options: tuple[str, ...] = ()  # of `dhow send`
    strip_checksum = False  # whether dhow must leave out the checksums of payload blocks
    resume = True  # whether it takes sessions with extensions that it does not know (RFC 9174 4.8)
    transfer_max: int | None = None  # largest transfer that it announces, octets, where it cannot join fragments

    def __init__(self, crew: Crew, dhow: Path, directory: Path) -> None:
        self.crew = crew
        self.directory = directory
        directory.mkdir(parents=True)
        self.port = free_port(self.transport)
        self.dhow_port = free_port(self.transport)
        # Payloads that did not come in time, there and here: they may come beside those of later transfers, once.
        self.late_there: list[bytes] = []
        self.late_here: list[bytes] = []
        self.node = Node(crew, dhow, directory / "dhow", self.settings())

    def settings(self) -> Settings:
        """The dhow node's."""
        policy = "\n".join(self.needs()) or 'reading = "strict"'
        return Settings(
            "ipn:1.0", f"127.0.0.1:{self.dhow_port}",
            links=[Link("peer", f"127.0.0.1:{self.port}", policy, self.protocol)],
            routes=[(f"ipn:{self.node_number}.*", "peer")],
            listen_policy=policy)

    @classmethod
    def rows(cls, full: bool) -> list[tuple[str, float]]:
        """The directions that are tried, and what is lost there."""
        return [(f"{direction}{f', {lost:.0%} lost' if lost else ''}", lost)
                for lost in sorted(cls.losses + (cls.more_losses if full else ())) for direction in ("from dhow", "to dhow")]

    def lose(self, lost: float) -> None:
        """Lets a part of the datagrams be lost from now on, in each direction."""
        assert not lost, "nothing is lost over TCP"

    @classmethod
    def needs(cls) -> list[str]:
        """Settings that dhow needs of its link and listener for this peer."""
        lenient = [f'reading = "{cls.reading}"'] if cls.reading != "strict" else []
        return lenient + (["strip_checksum = true"] if cls.strip_checksum else []) + ([] if cls.resume else ["resume = false"])

    @property
    def destination(self) -> str:
        """The peer's endpoint."""
        return f"ipn:{self.node_number}.{SERVICE}"

    @property
    def own_frames(self) -> str:
        """Wireshark's filter for what dhow sent."""
        return f"tcp.srcport == {self.dhow_port} || tcp.dstport == {self.port}"

    @abstractmethod
    def start(self) -> None:
        """Starts the peer; the dhow node runs already."""

    @abstractmethod
    def send(self, file: Path) -> None:
        """Makes the peer send a file to the dhow node."""

    @abstractmethod
    def received(self) -> bytes | None:
        """The payload that the peer received last, once; None while there is none."""

    def from_dhow(self, file: Path) -> None:
        """One bundle from dhow to the peer. Raises Unable."""
        done = self.node.run("send", *self.send_options, self.destination, str(file))
        if done.returncode != 0:
            raise Unable(f"dhow send: {last_line(done.stderr)}")
        sent = file.read_bytes()
        try:
            payload = wait_for(self.received, "it did not arrive at the peer", patience_s(file))
            while payload != sent and payload in self.late_there:
                self.late_there.remove(payload)
                payload = wait_for(self.received, "it did not arrive at the peer", patience_s(file))
        except Unable:
            self.late_there.append(sent)
            raise
        if payload == sent:
            return
        while self.received() is not None:
            pass  # other fragments must not be taken for the next file
        if self.transfer_max and file.stat().st_size + HEADER_OCTETS > self.transfer_max:
            raise Unable(f"it announces transfers of {self.transfer_max} octets at most and does not join fragments")
        raise Unable(f"{len(payload)} octets arrived, and not those that were sent")

    def to_dhow(self, file: Path) -> None:
        """One bundle from the peer to dhow. Raises Unable."""
        sent = file.read_bytes()
        self.send(file)
        payload = self.arrived(file)
        while payload != sent and payload in self.late_here:
            self.late_here.remove(payload)
            payload = self.arrived(file)
        if payload != sent:
            raise Unable(f"{len(payload)} octets arrived, and not those that were sent")

    def arrived(self, file: Path) -> bytes:
        """The payload of the next bundle at dhow, while that of a file is waited for. Raises Unable."""
        inbox = self.directory / "inbox"
        patience = patience_s(file)
        done = self.node.run(
            "recv", f"ipn:1.{SERVICE}", "--count", "1", "--out", str(inbox), "--timeout", f"{patience:.0f}s",
            timeout_s=patience + 30)
        if done.returncode != 0:
            self.late_here.append(file.read_bytes())
            raise Unable("it did not arrive at dhow")
        [path] = inbox.iterdir()
        payload = path.read_bytes()
        path.unlink()
        return payload


class OnPath(Peer):
    """A peer that no registry has: tried where its programs are on the PATH, else skipped."""

    programs: tuple[str, ...] = ()  # which it needs; the first one is the daemon
    says = ""  # a word of the first program's version or help, where another system has a program of that name

    @classmethod
    def look(cls) -> None:
        """Raises Skipped where a program is missing."""
        for program in cls.programs:
            if shutil.which(program) is None:
                raise Skipped(f"{program} is not on the PATH")
        if cls.says:
            asked = subprocess.run([cls.programs[0], "--version"], capture_output=True, text=True, timeout=10, check=False)
            if cls.says not in asked.stdout + asked.stderr:
                raise Skipped(f"{cls.programs[0]} on the PATH is not that of {cls.says}")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a program of the peer to its end."""
        return subprocess.run(list(words), capture_output=True, text=True, timeout=PATIENCE_S + 10, check=False)

    def expect_listener(self, port: int, name: str) -> None:
        """Waits until somebody listens. Raises Unable."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.1)
        raise Unable(f"{name} did not start")


def oldest_whole(inbox: Path, pattern: str = "*") -> bytes | None:
    """The content of the first file of a directory, once it is whole, which is taken away; None where there is none."""
    for path in sorted(inbox.glob(pattern)):
        size = -1
        while size != os.stat(path).st_size:  # it may still be written
            size = os.stat(path).st_size
            time.sleep(0.1)
        payload = path.read_bytes()
        path.unlink()
        return payload
    return None


def patience_s(file: Path) -> float:
    """Seconds that a bundle with the octets of a file may take."""
    return PATIENCE_S + file.stat().st_size / SLOWEST


def wait_for(ask: Callable[[], bytes | None], failure: str, patience: float) -> bytes:
    """Asks until there is an answer."""
    end = time.monotonic() + patience
    while (answer := ask()) is None:
        if time.monotonic() > end:
            raise Unable(failure)
        time.sleep(0.05)
    return answer


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no reason given")
