"""Generator, node, sink: a stream of bundles passes through a durable node; both others keep theirs in memory."""

import time
from dataclasses import replace

from labs.bench.arrival import wait_for
from labs.bench.node_to_node import settings_of
from labs.bench.sample import Kind, Sample
from labs.bench.workshop import Workshop, payload, spend
from labs.rig.node import Link

CASE = "relay"


def measure(workshop: Workshop, kind: Kind, bundles: int) -> list[Sample]:
    """Bundles wait at the generator, its link opens, the clock runs until all have arrived at the sink."""
    with workshop.directory() as directory:
        memory = replace(kind, durability="memory", flush_delay_ms=0)
        with workshop.node(directory / "sink", settings_of("ipn:3.0", memory)) as sink:
            middle = settings_of("ipn:2.0", kind, [Link("sink", sink.address)], [("ipn:3.*", "sink")])
            with workshop.node(directory / "node", middle) as node:
                link = Link("node", node.address, "enabled = false")
                first = settings_of("ipn:1.0", memory, [link], [("ipn:3.*", "node")])
                with workshop.node(directory / "generator", first) as generator:
                    file = payload(directory / "payload", kind.size)
                    spend(generator, "send", "ipn:3.42", str(file), "--count", str(bundles))
                    nodes = {"generator": generator, "node": node, "sink": sink}
                    before = sum(node.cpu_seconds() for node in nodes.values())
                    start = time.monotonic()
                    generator.link_up("node")
                    seconds = wait_for(sink, bundles) - start
                    cpu = sum(node.cpu_seconds() for node in nodes.values()) - before
                    # Generator and sink hold all bundles in memory because they are asked to.
                    peaks = {"node": node.peak_memory_octets() / 1e6}
                    return [Sample(kind, bundles, seconds, cpu, peaks)]
