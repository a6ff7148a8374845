"""The measurements: the steps of one round, in their order; every round does them all, so that runs interleave."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from labs.bench import latency, narrow, node_to_node, peers, rawtcp, relay, yardstick
from labs.bench.latency import Latency
from labs.bench.sample import Kind, Sample, size_name
from labs.bench.workshop import Workshop
from labs.rig.network import namespaces_possible

# Payload octets of a bundle, and how many bundles make a measurement: half a second to two between floor and goal, and
# eight hundred megabytes at most in each store, so that they fit into what a node keeps in memory.
SIZES = {
    100: 800_000, 1_000: 300_000, 2_000: 250_000, 10_000: 80_000,
    50_000: 16_000, 100_000: 8_000, 1_000_000: 800, 16_000_000: 50,
}
QUICK_SIZES = [1_000, 10_000, 100_000, 1_000_000]
PEER_SIZES = [1_000, 10_000, 100_000]

FLUSH_DELAY_MS = 5

# Sizes at which two threads, and flushes that wait for the end of the contact, are shown beside one thread that syncs.
VARIANT_SIZES = [1_000, 10_000, 100_000, 1_000_000]
VARIANTS = [("sync", 2), ("contact", 1)]

# Sizes at which version 6 of the Bundle Protocol over TCPCLv3 stands beside version 7 over TCPCLv4.
VERSION_6_SIZES = [1_000, 1_000_000]

CASES = ["node-to-node", "delayed", "variants", "version-6", "relay", "narrow", "ping", "peers"]


@dataclass
class Results:
    """Everything that was measured, in the order of time."""

    samples: list[Sample] = field(default_factory=list)
    latencies: list[Latency] = field(default_factory=list)
    raw: list[float] = field(default_factory=list)  # iperf3 over loopback, Mbit/s
    raw_narrow: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what was left out, and why
    failures: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Notes something once."""
        if text not in self.notes:
            self.notes.append(text)


@dataclass
class Step:
    """One measurement of a round."""

    name: str
    take: Callable[[], None]


@dataclass
class Plan:
    """The request on the command line."""

    workshop: Workshop
    results: Results
    cases: list[str]
    sizes: list[int]
    durabilities: list[str]
    scale: float = 1.0  # times the number of bundles

    def count(self, size: int) -> int:
        """The number of bundles of a size."""
        usual = SIZES.get(size, max(1, min(500_000, 800_000_000 // max(size, 1))))
        return max(2, int(usual * self.scale))

    def round(self) -> list[Step]:
        """The steps of one round."""
        steps: list[Step] = []
        for size in self.sizes:
            steps.append(Step("iperf3", self._raw))
            for durability in self.durabilities:
                if "node-to-node" in self.cases:
                    kind = Kind(node_to_node.CASE, size, durability)
                    steps += self._pair(kind, applications=durability == "sync")
            if "delayed" in self.cases:
                kind = Kind(node_to_node.CASE, size, "sync", FLUSH_DELAY_MS)
                steps += self._pair(kind, applications=False)
            if "variants" in self.cases and size in VARIANT_SIZES:
                for durability, threads in VARIANTS:
                    kind = Kind(node_to_node.CASE, size, durability, threads=threads)
                    steps.append(self._nodes(kind, applications=False))
            if "version-6" in self.cases and size in VERSION_6_SIZES:
                steps.append(self._nodes(Kind(node_to_node.CASE, size, "sync", version=6), applications=False))
            if "relay" in self.cases:
                steps.append(self._relay(Kind(relay.CASE, size, "sync")))
        if "narrow" in self.cases:
            steps += self._narrow()
        if "ping" in self.cases:
            steps.append(Step("ping", lambda: self.results.latencies.extend(latency.measure(self.workshop))))
        if "peers" in self.cases:
            steps += self._peers()
        return steps

    def _raw(self) -> None:
        self.results.raw.append(rawtcp.mbit_per_s(self.workshop.crew))

    def _keep(self, samples: list[Sample]) -> None:
        self.results.samples.extend(samples)

    def _pair(self, kind: Kind, applications: bool) -> Iterator[Step]:
        """The yardstick, then the nodes, with the same size and durability."""
        name = f"{size_name(kind.size)}, {kind.terms}: yardstick"
        yield Step(name, lambda: self._keep([yardstick.measure(self.workshop, kind, self.scale)]))
        yield self._nodes(kind, applications)

    def _nodes(self, kind: Kind, applications: bool) -> Step:
        def take() -> None:
            self._keep(node_to_node.measure(self.workshop, kind, self.count(kind.size), applications))

        return Step(f"{size_name(kind.size)}, {kind.terms}: node to node", take)

    def _relay(self, kind: Kind) -> Step:
        def take() -> None:
            self._keep(relay.measure(self.workshop, kind, self.count(kind.size)))

        return Step(f"{size_name(kind.size)}: relay", take)

    def _narrow(self) -> Iterator[Step]:
        if reason := namespaces_possible():
            self.results.note(f"24 Mbit/s link left out: {reason}")
            return
        yield Step("24 Mbit/s: iperf3", lambda: self.results.raw_narrow.append(narrow.raw(self.workshop)))
        for size in narrow.SIZES:
            yield Step(
                f"24 Mbit/s, {size_name(size)}: yardstick",
                lambda size=size: self._keep(narrow.yardstick(self.workshop, size, self.scale)))
            yield Step(
                f"24 Mbit/s, {size_name(size)}: node to node",
                lambda size=size: self._keep(narrow.measure(self.workshop, size, self.scale)))

    def _peers(self) -> Iterator[Step]:
        for peer in peers.PEERS:
            if peer.binary() is None:
                self.results.note(f"{peer.name} left out: not installed (make interop installs it)")
                continue
            for size in PEER_SIZES:
                yield Step(f"{size_name(size)}: {peer.name}", lambda peer=peer, size=size: self._peer(peer, size))

    def _peer(self, peer: type[peers.PairOfPeers], size: int) -> None:
        try:
            self._keep([peer.measure(self.workshop, size, self.scale)])
        except peers.Unable as error:
            self.results.note(f"{peer.name} at {size_name(size)}: {error}")
