"""A node that holds a million bundles takes, keeps and forwards one more as cheaply as an empty one.

Two trios of nodes over loopback: a source, a relay, a sink; source and sink keep nothing on disk, the relays are
durable, and one of them holds a million bundles for somebody who never comes. The trios take turns, so that whatever
else the machine does meets both; processor time per bundle of the relay is what is compared.
"""

import time
from dataclasses import dataclass
from statistics import median

from labs.bench.arrival import wait_for
from labs.cases.case import Outcome, Workplace
from labs.cases.traffic import received, stored, wait_empty
from labs.rig.node import Link, Node, Settings
from labs.rig.terminal import Bar, say

HELD, BUNDLES, ROUNDS = 1_000_000, 50_000, 7
QUICK_HELD, QUICK_BUNDLES, QUICK_ROUNDS = 100_000, 10_000, 3
HELD_OCTETS, BUNDLE_OCTETS = 100, 1_000

# The share by which a bundle may cost more in the full node.
MORE = 0.10


@dataclass
class Trio:
    """A source, a relay, a sink."""

    name: str
    source: Node
    relay: Node
    sink: Node
    held: int = 0

    def pass_bundles(self, place: Workplace, bundles: int) -> tuple[float, float]:
        """Bundles a second from the source to the sink, and processor microseconds per bundle of the relay."""
        before = received(self.sink)
        place.run(self.source, "send", "ipn:3.42", str(place.payload(BUNDLE_OCTETS)), "--count", str(bundles))
        cpu = self.relay.cpu_seconds()
        start = time.monotonic()
        self.source.link_up("next")
        elapsed = wait_for(self.sink, before + bundles) - start
        wait_empty(self.relay, left=self.held)
        cpu = self.relay.cpu_seconds() - cpu
        place.run(self.source, "link", "down", "next")
        place.drain(self.sink, "ipn:3.42", bundles)
        return bundles / elapsed, cpu / bundles * 1e6


def trio(place: Workplace, name: str) -> Trio:
    """Three nodes; the source's link is closed."""
    nodes: list[Node] = []
    for number in (3, 2, 1):
        policy = "enabled = false" if number == 1 else ""
        links = [Link("next", nodes[0].address, policy)] if nodes else []
        node = Node(place.crew, place.dhow, place.directory / f"{name}-{number}", Settings(
            f"ipn:{number}.0", links=links, routes=[("ipn:3.*", "next")] if links else [],
            durability="sync" if number == 2 else "memory", quota="8GiB" if number == 2 else "1GiB"))
        node.start()
        nodes.insert(0, node)
    return Trio(name, *nodes)


def measure(place: Workplace) -> Outcome:
    """Turns, and the medians side by side."""
    held, bundles, rounds = (
        (QUICK_HELD, QUICK_BUNDLES, QUICK_ROUNDS) if place.quick else (HELD, BUNDLES, ROUNDS))
    empty, full = trio(place, "empty"), trio(place, "full")
    say(f"storing {held:,} bundles of {HELD_OCTETS} B for nobody")
    place.run(full.relay, "send", "ipn:9.1", str(place.payload(HELD_OCTETS)), "--count", str(held), "--lifetime", "7d",
              timeout_s=1_800)
    full.held = stored(full.relay)
    for each in (empty, full):
        each.pass_bundles(place, bundles)  # stores and tables grow to their size
    samples: dict[str, list[tuple[float, float]]] = {"empty": [], "full": []}
    bar = Bar(2 * rounds, "transfers")
    for number in range(rounds):
        for turn, each in enumerate((empty, full) if number % 2 == 0 else (full, empty)):
            samples[each.name].append(each.pass_bundles(place, bundles))
            bar.show(2 * number + turn + 1, 0, f"{each.name}: {samples[each.name][-1][1]:.1f} µs/bundle")
    bar.clear()
    rates = {name: [rate for rate, _ in of] for name, of in samples.items()}
    costs = {name: [cost for _, cost in of] for name, of in samples.items()}
    # Neighbours in time are compared, so that a machine that grows busier meets both.
    ratios = [mine / other for mine, other in zip(costs["full"], costs["empty"], strict=True)]
    more = median(ratios) - 1
    memory = {each.name: each.relay.memory_octets() for each in (empty, full)}
    return Outcome(
        f"a relay that holds {held:,} bundles spends at most {MORE:.0%} more on a bundle than an empty one",
        more <= MORE and full.held >= held,
        ["relay", "holds", "CPU µs/bundle", "lowest", "highest", "bundles/s", "memory, MB"],
        [[name, f"{stored_of:,}", f"{median(costs[name]):.1f}", f"{min(costs[name]):.1f}", f"{max(costs[name]):.1f}",
          f"{median(rates[name]):,.0f}", f"{memory[name] / 1e6:.0f}"]
         for name, stored_of in (("empty", 0), ("full", full.held))]
        + [["full ÷ empty, in turn", "", f"{1 + more:.3f}", f"{min(ratios):.3f}", f"{max(ratios):.3f}",
            f"{median(rates['full']) / median(rates['empty']):.3f}", ""]],
        {"held": full.held, "bundles": bundles, "octets": BUNDLE_OCTETS, "cpu_us_per_bundle": costs,
         "bundles_per_s": rates, "more": more, "memory_octets": memory},
        [f"medians of {rounds}, taken in turns; bundles of {BUNDLE_OCTETS} B pass through"],
    )
