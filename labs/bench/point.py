"""One measurement: bundles of one size wait at the sender, the link opens, the clock runs until all have arrived."""

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from labs.rig.crew import Crew
from labs.rig.node import Link, Node, NodeFailed, Settings

# How often the receiver is asked what it has; each question costs it a little.
POLL_S = 0.02

# Seconds without progress after which a measurement is given up.
STALL_S = 20.0


@dataclass
class Point:
    """What one measurement came to."""

    durability: str
    size: int
    bundles: int
    enqueue_s: float
    transfer_s: float
    sender_cpu_s: float
    receiver_cpu_s: float

    @property
    def bundles_per_s(self) -> float:
        """Bundles from node to node."""
        return self.bundles / self.transfer_s

    @property
    def mbit_per_s(self) -> float:
        """Payload from node to node."""
        return self.bundles_per_s * self.size * 8 / 1e6

    @property
    def enqueued_per_s(self) -> float:
        """Bundles from `dhow send` into the sender."""
        return self.bundles / self.enqueue_s


def cpu_seconds(node: Node) -> float:
    """Processor time of the node so far."""
    assert node.program
    fields = Path(f"/proc/{node.program.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def received(node: Node) -> int:
    """Bundles that the node has received and stored."""
    return int(node.metrics().get("dhow_bundles_received_total", 0))


def measure(crew: Crew, binary: Path, room: Path, durability: str, size: int, bundles: int) -> Point:
    """Two fresh nodes, one transfer."""
    directory = Path(tempfile.mkdtemp(prefix="dhow-bench-", dir=room))
    quota = "16GiB"
    receiver = Node(crew, binary, directory / "receiver", Settings("ipn:2.0", durability=durability, quota=quota))
    try:
        receiver.start()
        link = Link("receiver", receiver.address, "enabled = false")
        sender = Node(crew, binary, directory / "sender", Settings(
            "ipn:1.0", links=[link], routes=[("ipn:2.*", "receiver")], durability=durability, quota=quota))
        sender.start()
        payload = directory / "payload"
        payload.write_bytes(bytes(range(256)) * (size // 256) + bytes(size % 256))

        start = time.monotonic()
        done = sender.run("send", "ipn:2.42", str(payload), "--count", str(bundles), timeout_s=600)
        enqueue_s = time.monotonic() - start
        if done.returncode != 0:
            raise NodeFailed(f"dhow send: {done.stderr.strip()}")

        before = cpu_seconds(sender), cpu_seconds(receiver)
        start = time.monotonic()
        if (opened := sender.run("link", "up", "receiver")).returncode != 0:
            raise NodeFailed(f"dhow link up: {opened.stderr.strip()}")
        wait_for(receiver, bundles)
        transfer_s = time.monotonic() - start
        return Point(
            durability, size, bundles, enqueue_s, transfer_s,
            cpu_seconds(sender) - before[0], cpu_seconds(receiver) - before[1])
    finally:
        receiver.kill()
        if "sender" in locals():
            sender.kill()
        shutil.rmtree(directory, ignore_errors=True)


def wait_for(node: Node, bundles: int) -> None:
    """Until the node has received so many bundles."""
    last, since = -1, time.monotonic()
    while (count := received(node)) < bundles:
        if count != last:
            last, since = count, time.monotonic()
        elif time.monotonic() - since > STALL_S:
            raise NodeFailed(f"stalled with {count} of {bundles} bundles\n{node.last_words()}")
        time.sleep(POLL_S)
