"""What every peer can do: start beside a dhow node, send a file to it, show what it received."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from labs.rig.crew import Crew
from labs.rig.node import Link, Node, Settings, free_port

# The service at which both sides receive.
SERVICE = 42

# What a bundle adds to its payload at least.
HEADER_OCTETS = 60

# Seconds that one bundle may take.
PATIENCE_S = 30.0


class Unable(Exception):
    """A transfer did not happen; says why in a few words."""


class Peer(ABC):
    """An independent node beside one dhow node, joined by TCPCL over loopback."""

    name: str
    node_number: int
    reading = "strict"  # how dhow must read this peer
    protocol = "tcpcl"  # of the link to it
    send_options: tuple[str, ...] = ()  # of `dhow send`
    strip_checksum = False  # whether dhow must leave out the checksums of payload blocks
    resume = True  # whether it takes sessions with extensions that it does not know (RFC 9174 4.8)
    transfer_max: int | None = None  # largest transfer that it announces, octets, where it cannot join fragments

    def __init__(self, crew: Crew, dhow: Path, directory: Path) -> None:
        self.crew = crew
        self.directory = directory
        directory.mkdir(parents=True)
        self.port = free_port()
        self.dhow_port = free_port()
        policy = "\n".join(self.needs()) or 'reading = "strict"'
        self.node = Node(crew, dhow, directory / "dhow", Settings(
            "ipn:1.0", f"127.0.0.1:{self.dhow_port}",
            links=[Link("peer", f"127.0.0.1:{self.port}", policy, self.protocol)],
            routes=[(f"ipn:{self.node_number}.*", "peer")],
            listen_policy=policy))

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
