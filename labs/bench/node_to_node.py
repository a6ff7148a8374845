"""Two nodes: bundles wait at the first, the link opens, all of them cross; then an application takes them."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from labs.bench.arrival import count_of, wait_for
from labs.bench.sample import Kind, Sample
from labs.bench.workshop import Spent, Workshop, payload, spend
from labs.rig.node import Link, Node, Settings

CASE = "node-to-node"
API_SEND = "api-send"
API_RECEIVE = "api-receive"

QUOTA = "16GiB"
DESTINATION = "ipn:2.42"


# Bundles that cross before anything is measured: as many octets as any measurement moves, so that both logs are
# written in place from then on, as the yardstick's are.
WARM_SIZE, WARM_BUNDLES = 1_000_000, 800


def measure(workshop: Workshop, kind: Kind, bundles: int, applications: bool) -> list[Sample]:
    """One transfer between two nodes that stand; with `applications` also how fast `dhow send` and `dhow recv` were."""
    key = (CASE, kind.durability, kind.flush_delay_ms, kind.threads, kind.version)
    try:
        sender, receiver = workshop.standing(key, lambda directory, ends: stand(workshop, directory, ends, kind))
        samples = transfer(kind, bundles, sender, receiver)
    except BaseException:
        workshop.dismiss(key)
        raise
    return samples if applications else samples[1:2]


def stand(workshop: Workshop, directory: Path, ends: ExitStack, kind: Kind) -> list[Node]:
    """Sender and receiver, their logs written once."""
    receiver = ends.enter_context(workshop.node(directory / "receiver", settings_of("ipn:2.0", kind)))
    protocol = "tcpcl3" if kind.version == 6 else "tcpcl"
    link = Link("receiver", receiver.address, "enabled = false", protocol)
    settings = settings_of("ipn:1.0", kind, [link], [("ipn:2.*", "receiver")])
    sender = ends.enter_context(workshop.node(directory / "sender", settings))
    transfer(replace(kind, size=WARM_SIZE), WARM_BUNDLES, sender, receiver)
    return [sender, receiver]


def transfer(kind: Kind, bundles: int, sender: Node, receiver: Node) -> list[Sample]:
    """Into the first node, across, and out of the second, which leaves both empty: three samples."""
    file = payload(sender.directory / "payload", kind.size)
    for node in (sender, receiver):
        node.forget_peak_memory()
    before = sender.cpu_seconds()
    version = ["--version", str(kind.version)] if kind.version != 7 else []
    spent = spend(sender, "send", DESTINATION, str(file), "--count", str(bundles), *version)
    sent = of_application(API_SEND, kind, bundles, spent, sender, before)
    crossed = cross(kind, bundles, sender, receiver)
    sender.link_down("receiver")
    before = receiver.cpu_seconds()
    spent = spend(receiver, "recv", DESTINATION, "--stdout", "--count", str(bundles), "--timeout", "60s")
    return [sent, crossed, of_application(API_RECEIVE, kind, bundles, spent, receiver, before)]


def cross(kind: Kind, bundles: int, sender: Node, receiver: Node) -> Sample:
    """The link opens; the clock runs until the receiver has all."""
    nodes = {"sender": sender, "receiver": receiver}
    had = count_of(receiver)
    before = sum(node.cpu_seconds() for node in nodes.values())
    start = time.monotonic()
    sender.link_up("receiver")
    seconds = wait_for(receiver, had + bundles) - start
    cpu = sum(node.cpu_seconds() for node in nodes.values()) - before
    return Sample(kind, bundles, seconds, cpu, {name: node.peak_memory_octets() / 1e6 for name, node in nodes.items()})


def of_application(case: str, kind: Kind, bundles: int, spent: Spent, node: Node, cpu_before_s: float) -> Sample:
    """The sample of an application's command and its node; the processor time is that of both."""
    cpu = spent.cpu_s + node.cpu_seconds() - cpu_before_s
    return Sample(replace(kind, case=case), bundles, spent.seconds, cpu, {"node": node.peak_memory_octets() / 1e6})


def settings_of(
    node_id: str, kind: Kind, links: Sequence[Link] = (), routes: Sequence[tuple[str, str]] = ()
) -> Settings:
    """A node with the durability, flush delay and threads of a kind of measurement."""
    return Settings(
        node_id, links=list(links), routes=list(routes), durability=kind.durability, quota=QUOTA,
        store_policy=f'flush_delay = "{kind.flush_delay_ms}ms"' if kind.flush_delay_ms else "",
        node_policy=f"threads = {kind.threads}" if kind.threads > 1 else "")
