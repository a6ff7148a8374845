"""Generator, node, sink: a stream of bundles passes through a durable node. The generator keeps its own in memory, the sink counts
what comes and lets it go: its perf service takes bundles."""

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from labs.bench.arrival import count_of, wait_for
from labs.bench.node_to_node import settings_of
from labs.bench.sample import Kind, Sample
from labs.bench.workshop import Workshop, payload, spend
from labs.rig.node import Link, Node

CASE = "relay"

DESTINATION = "ipn:3.5201"

# As many as fill what a node keeps in memory of its log (1 GiB at most): memory that a system has not given out before
# costs a process more than all else.
WARM_SIZE, WARM_BUNDLES = 1_000_000, 1_200


def measure(workshop: Workshop, kind: Kind, bundles: int) -> list[Sample]:
    """Bundles wait at the generator, its link opens, the clock runs until all have arrived at the sink."""
    try:
        nodes = workshop.standing(CASE, lambda directory, ends: stand(workshop, directory, ends, kind))
        return [transfer(kind, bundles, *nodes)]
    except BaseException:
        workshop.dismiss(CASE)
        raise


def stand(workshop: Workshop, directory: Path, ends: ExitStack, kind: Kind) -> list[Node]:
    """Generator, node and sink, their logs written once."""
    memory = replace(kind, durability="memory", flush_delay_ms=0)
    sink = ends.enter_context(workshop.node(directory / "sink", settings_of("ipn:3.0", memory)))
    middle = settings_of("ipn:2.0", kind, [Link("sink", sink.address)], [("ipn:3.*", "sink")])
    node = ends.enter_context(workshop.node(directory / "node", middle))
    link = Link("node", node.address, "enabled = false")
    first = settings_of("ipn:1.0", memory, [link], [("ipn:3.*", "node")])
    generator = ends.enter_context(workshop.node(directory / "generator", first))
    transfer(replace(kind, size=WARM_SIZE), WARM_BUNDLES, generator, node, sink)
    return [generator, node, sink]


def transfer(kind: Kind, bundles: int, generator: Node, node: Node, sink: Node) -> Sample:
    """From the generator through the node to the sink."""
    file = payload(generator.directory / "payload", kind.size)
    spend(generator, "send", DESTINATION, str(file), "--count", str(bundles))
    node.forget_peak_memory()
    nodes = [generator, node, sink]
    had = count_of(sink)
    before = sum(node.cpu_seconds() for node in nodes)
    start = time.monotonic()
    generator.link_up("node")
    seconds = wait_for(sink, had + bundles) - start
    cpu = sum(node.cpu_seconds() for node in nodes) - before
    # The generator holds all bundles in memory because it is asked to.
    peaks = {"node": node.peak_memory_octets() / 1e6}
    generator.link_down("node")
    return Sample(kind, bundles, seconds, cpu, peaks)
