"""Generator, node, sink: a stream of bundles passes through a durable node. The generator makes bundles as fast as the node takes them,
the sink checks what comes and lets it go (labs/stream): what is measured is the node between them."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from labs.bench.ends import End, end_of
from labs.bench.node_to_node import settings_of
from labs.bench.sample import Kind, Sample
from labs.bench.workshop import Workshop
from labs.rig.node import Link, Node

CASE = "relay"

# As many as fill what a node keeps in memory of its log (1 GiB at most): memory that a system has not given out before
# costs a process more than all else.
WARM_SIZE, WARM_BUNDLES = 1_000_000, 1_200


@dataclass
class Relay:
    """A node and the two ends of a stream through it."""

    generator: End
    node: Node
    sink: End

    def kill(self) -> None:
        """Ends the generator, the node and the sink."""
        for end in (self.generator, self.sink):
            end.end()
        self.node.kill()


def measure(workshop: Workshop, kind: Kind, bundles: int) -> list[Sample]:
    """The generator is told to begin; the clock runs until all bundles have arrived at the sink."""
    try:
        [relay] = workshop.standing(CASE, lambda directory, ends: [stand(workshop, directory, ends, kind)])
        return [transfer(kind, bundles, relay)]
    except BaseException:
        workshop.dismiss(CASE)
        raise


def stand(workshop: Workshop, directory: Path, ends: ExitStack, kind: Kind) -> Relay:
    """Generator, node and sink with their sessions, the node's log written once."""

    def end(name: str, *words: str) -> End:
        return end_of(workshop.crew, workshop.stream, directory / name, ends, [name, *words])

    sink = end("sink", "--node", "ipn:3.0")
    settings = settings_of("ipn:2.0", kind, [Link("sink", sink.said())], [("ipn:3.*", "sink")])
    node = ends.enter_context(workshop.node(directory / "node", settings))
    generator = end("generate", node.address, "--from", "ipn:1.1", "--to", "ipn:3.1")
    for each in (sink, generator):
        each.said()
    relay = Relay(generator, node, sink)
    transfer(replace(kind, size=WARM_SIZE), WARM_BUNDLES, relay)
    return relay


def transfer(kind: Kind, bundles: int, relay: Relay) -> Sample:
    """From the generator through the node to the sink."""
    node = relay.node
    node.forget_peak_memory()
    parts = [relay.generator, node, relay.sink]
    before = sum(part.cpu_seconds() for part in parts)
    taken = relay.sink.order(bundles)
    start = time.monotonic()
    acknowledged = relay.generator.order(bundles, kind.size)
    # The generator first: should it fail, its own sentence is told.
    acknowledged()
    taken_in = time.monotonic() - start
    seconds = taken()["ended"] - start
    cpu = sum(part.cpu_seconds() for part in parts) - before
    backlog = max(0.0, 1 - taken_in / seconds)
    return Sample(kind, bundles, seconds, cpu, {"node": node.peak_memory_octets() / 1e6}, backlog)
