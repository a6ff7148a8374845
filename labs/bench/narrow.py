"""Two nodes on a link of 24 Mbit/s, between network namespaces: what size costs where the link is the limit."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from labs.bench import rawtcp
from labs.bench.arrival import wait_for
from labs.bench.node_to_node import DESTINATION, QUOTA
from labs.bench.sample import Kind, Sample
from labs.bench.workshop import Workshop, payload, spend
from labs.rig.network import Namespaces
from labs.rig.node import Link, NodeFailed, Settings

CASE = "node-to-node-24mbit"
YARDSTICK = "yardstick-24mbit"

OCTETS_PER_S = 24e6 / 8
SECONDS = 6.0
PORT = 4556

SIZES = [2_000, 50_000]


@contextmanager
def link() -> Iterator[Namespaces]:
    """The link, removed at the end."""
    path = Namespaces(["left", "right"], 0, PORT)
    try:
        path.limit(OCTETS_PER_S)
        yield path
    finally:
        path.close()


def bundles_of(size: int, scale: float) -> int:
    """The number of bundles of a size that make a measurement."""
    return max(10, int(OCTETS_PER_S * SECONDS * scale / size))


def measure(workshop: Workshop, size: int, scale: float) -> list[Sample]:
    """Bundles wait, the link opens, the clock runs until all have arrived."""
    kind, bundles = Kind(CASE, size, "sync"), bundles_of(size, scale)
    with link() as path, workshop.directory() as directory:
        right = Settings("ipn:2.0", path.listen(1), quota=QUOTA)
        with workshop.node(directory / "right", right, path.namespace(1)) as receiver:
            left = Settings(
                "ipn:1.0", path.listen(0), links=[Link("right", path.dial(0, 1), "enabled = false")],
                routes=[("ipn:2.*", "right")], quota=QUOTA)
            with workshop.node(directory / "left", left, path.namespace(0)) as sender:
                file = payload(directory / "payload", size)
                spend(sender, "send", DESTINATION, str(file), "--count", str(bundles))
                before = sender.cpu_seconds() + receiver.cpu_seconds()
                start = time.monotonic()
                sender.link_up("right")
                seconds = wait_for(receiver, bundles) - start
                cpu = sender.cpu_seconds() + receiver.cpu_seconds() - before
                peaks = {"sender": sender.peak_memory_octets() / 1e6, "receiver": receiver.peak_memory_octets() / 1e6}
                return [Sample(kind, bundles, seconds, cpu, peaks)]


def yardstick(workshop: Workshop, size: int, scale: float) -> list[Sample]:
    """The yardstick over the same link."""
    frames = bundles_of(size, scale)
    with link() as path, workshop.directory() as directory:
        words = [str(workshop.yardstick)]
        receiver = workshop.crew.start(
            [*words, "receive", "--listen", f"0.0.0.0:{PORT}", "--log-mib", "16", "--log", str(directory / "received")],
            namespace=path.namespace(1))
        receiver.line(30)
        done = subprocess.run(
            ["ip", "netns", "exec", path.names[0], *words, "send", path.dial(0, 1), "--size", str(size),
             "--count", str(frames), "--log-mib", "16", "--log", str(directory / "sent")],
            capture_output=True, text=True, timeout=120, check=False)
        workshop.crew.dismiss(receiver)
        if done.returncode != 0:
            raise NodeFailed(done.stderr.strip())
        told = json.loads(done.stdout)
        return [Sample(Kind(YARDSTICK, size, "sync"), frames, told["seconds"], told["cpu_s"])]


def raw(workshop: Workshop) -> float:
    """One iperf3 stream over the same link."""
    with link() as path:
        address = path.dial(0, 1).rsplit(":", 1)[0]
        return rawtcp.mbit_per_s(workshop.crew, address, (path.namespace(0), path.namespace(1)), seconds=2)
