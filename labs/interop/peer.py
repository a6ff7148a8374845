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

# Seconds that one bundle may take.
PATIENCE_S = 30.0


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
    def rows(cls) -> list[tuple[str, float]]:
        """The directions that are tried, and what is lost there."""
        return [(f"{direction}{f', {lost:.0%} lost' if lost else ''}", lost)
                for lost in cls.losses for direction in ("from dhow", "to dhow")]

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
        payload = wait_for(self.received, "it did not arrive at the peer")
        if payload == file.read_bytes():
            return
        while self.received() is not None:
            pass  # other fragments must not be taken for the next file
        if self.transfer_max and file.stat().st_size + HEADER_OCTETS > self.transfer_max:
            raise Unable(f"it announces transfers of {self.transfer_max} octets at most and does not join fragments")
        raise Unable(f"{len(payload)} octets arrived, and not those that were sent")

    def to_dhow(self, file: Path) -> None:
        """One bundle from the peer to dhow. Raises Unable."""
        inbox = self.directory / "inbox"
        self.send(file)
        done = self.node.run(
            "recv", f"ipn:1.{SERVICE}", "--count", "1", "--out", str(inbox), "--timeout", f"{PATIENCE_S:.0f}s",
            timeout_s=PATIENCE_S + 30)
        if done.returncode != 0:
            raise Unable("it did not arrive at dhow")
        arrived = list(inbox.iterdir())
        payloads = [path.read_bytes() for path in arrived]
        for path in arrived:
            path.unlink()
        if payloads != [file.read_bytes()]:
            raise Unable(f"{len(payloads)} bundles arrived, and not what was sent")


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


def wait_for(ask: Callable[[], bytes | None], failure: str) -> bytes:
    """Asks until there is an answer."""
    end = time.monotonic() + PATIENCE_S
    while (answer := ask()) is None:
        if time.monotonic() > end:
            raise Unable(failure)
        time.sleep(0.05)
    return answer


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no reason given")
