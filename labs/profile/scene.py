"""The cases of the bench in steps: what is made ready first, and what is then recorded."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from labs.bench import node_to_node, relay
from labs.bench.arrival import wait_for
from labs.bench.node_to_node import DESTINATION, settings_of
from labs.bench.sample import Kind
from labs.bench.workshop import Workshop, payload, spend
from labs.rig.node import Link

CASES = [node_to_node.CASE, relay.CASE, node_to_node.API_SEND, node_to_node.API_RECEIVE]


@dataclass
class Scene:
    """Processes that are ready, and what is left to do."""

    pids: dict[str, int]
    act: Callable[[], float]  # seconds that it took


@contextmanager
def scene(workshop: Workshop, kind: Kind, bundles: int) -> Iterator[Scene]:
    """A case, ready."""
    with workshop.directory() as directory:
        file = payload(directory / "payload", kind.size)
        if kind.case == relay.CASE:
            yield from _relay(workshop, kind, bundles, directory)
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

            def act() -> float:
                start = time.monotonic()
                sender.link_up("receiver")
                return wait_for(receiver, bundles) - start

            yield Scene({"sender": sender.pid, "receiver": receiver.pid}, act)


def _relay(workshop: Workshop, kind: Kind, bundles: int, directory: Path) -> Iterator[Scene]:
    with ExitStack() as ends:
        way = relay.stand(workshop, directory, ends, kind)
        pids = {"generator": way.generator.pid, "node": way.node.pid, "sink": way.sink.pid}
        yield Scene(pids, lambda: relay.transfer(kind, bundles, way).seconds)


def _application(workshop: Workshop, kind: Kind, bundles: int, directory: Path, file: Path) -> Iterator[Scene]:
    with workshop.node(directory / "node", settings_of("ipn:2.0", kind)) as node:
        send = ["send", DESTINATION, str(file), "--count", str(bundles)]
        if kind.case == node_to_node.API_SEND:
            yield Scene({"node": node.pid}, lambda: spend(node, *send).seconds)
            return
        spend(node, *send)
        receive = ["recv", DESTINATION, "--stdout", "--count", str(bundles), "--timeout", "60s"]
        yield Scene({"node": node.pid}, lambda: spend(node, *receive).seconds)
