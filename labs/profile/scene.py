"""The cases of the bench in steps: what is made ready first, and what is then recorded."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from labs.bench import node_to_node, relay
from labs.bench.arrival import count_of, wait_for
from labs.bench.node_to_node import DESTINATION, settings_of
from labs.bench.sample import Kind
from labs.bench.workshop import Workshop, payload, spend
from labs.rig.node import Link, Node

CASES = [node_to_node.CASE, relay.CASE, node_to_node.API_SEND, node_to_node.API_RECEIVE]


@dataclass
class Scene:
    """Nodes that are ready, and what is left to do."""

    nodes: dict[str, Node]
    act: Callable[[], object]


@contextmanager
def scene(workshop: Workshop, kind: Kind, bundles: int) -> Iterator[Scene]:
    """A case, ready."""
    with workshop.directory() as directory:
        file = payload(directory / "payload", kind.size)
        if kind.case == relay.CASE:
            yield from _relay(workshop, kind, bundles, directory, file)
        elif kind.case == node_to_node.CASE:
            yield from _pair(workshop, kind, bundles, directory, file)
        else:
            yield from _application(workshop, kind, bundles, directory, file)


def _pair(workshop: Workshop, kind: Kind, bundles: int, directory: Path, file: Path) -> Iterator[Scene]:
    with workshop.node(directory / "receiver", settings_of("ipn:2.0", kind)) as receiver:
        link = Link("receiver", receiver.address, "enabled = false")
        settings = settings_of("ipn:1.0", kind, [link], [("ipn:2.*", "receiver")])
        with workshop.node(directory / "sender", settings) as sender:
            spend(sender, "send", DESTINATION, str(file), "--count", str(bundles))

            def act() -> None:
                sender.link_up("receiver")
                wait_for(receiver, bundles)

            yield Scene({"sender": sender, "receiver": receiver}, act)


def _relay(workshop: Workshop, kind: Kind, bundles: int, directory: Path, file: Path) -> Iterator[Scene]:
    with ExitStack() as ends:
        generator, node, sink = relay.stand(workshop, directory, ends, kind)
        spend(generator, "send", relay.DESTINATION, str(file), "--count", str(bundles))
        had = count_of(sink)

        def act() -> None:
            generator.link_up("node")
            wait_for(sink, had + bundles)

        yield Scene({"generator": generator, "node": node, "sink": sink}, act)


def _application(workshop: Workshop, kind: Kind, bundles: int, directory: Path, file: Path) -> Iterator[Scene]:
    with workshop.node(directory / "node", settings_of("ipn:2.0", kind)) as node:
        send = ["send", DESTINATION, str(file), "--count", str(bundles)]
        if kind.case == node_to_node.API_SEND:
            yield Scene({"node": node}, lambda: spend(node, *send))
            return
        spend(node, *send)
        receive = ["recv", DESTINATION, "--stdout", "--count", str(bundles), "--timeout", "60s"]
        yield Scene({"node": node}, lambda: spend(node, *receive))
