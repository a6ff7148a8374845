"""64 MB over two equal hops take little longer than over one: the relay forwards while the bundle still arrives.

Three hosts in network namespaces, joined by veth pairs of the same rate (tbf). The same bundle is sent to the middle
host and to the far one, in turns; the time runs from the link's opening until the bundle is durable at its
destination. Raw TCP over one hop is the yardstick.
"""

import time
from statistics import median

from labs.bench.arrival import wait_for
from labs.cases.case import Outcome, Skipped, Workplace
from labs.cases.long_path import raw_mbit_s
from labs.cases.traffic import received, wait_empty
from labs.rig.hosts import Hosts
from labs.rig.network import namespaces_possible
from labs.rig.node import Link, Node, Settings
from labs.rig.terminal import Bar

RATE_OCTETS_PER_S = 25_000_000
OCTETS, ROUNDS = 64_000_000, 5
QUICK_ROUNDS = 1
RAW_SECONDS = 3
PORT = 4556

# Times one hop that two hops may take.
MOST = 1.1


def measure(place: Workplace) -> Outcome:
    """One hop and two, in turns."""
    if reason := namespaces_possible():
        raise Skipped(reason)
    rounds = QUICK_ROUNDS if place.quick else ROUNDS
    with Hosts("near", "middle", "far") as hosts:
        links = [hosts.veth(0, 1), hosts.veth(1, 2)]
        for link in links:
            link.limit(RATE_OCTETS_PER_S)
        nodes = []
        for number in range(3):
            ahead = links[number] if number < 2 else None
            policy = "enabled = false" if number == 0 else ""
            nodes.append(Node(place.crew, place.dhow, place.directory / hosts.names[number], Settings(
                f"ipn:{number + 1}.0", listen=f"0.0.0.0:{PORT}",
                links=[Link("next", f"{ahead.right.address}:{PORT}", policy)] if ahead else [],
                routes=[(f"ipn:{to}.*", "next") for to in range(number + 2, 4)]), namespace=hosts.names[number]))
        for node in reversed(nodes):
            node.start()
        hops: dict[int, list[float]] = {1: [], 2: []}
        raw = raw_mbit_s(place, links[0], RAW_SECONDS)
        bar = Bar(2 * rounds, "transfers")
        for number in range(rounds):
            for turn, count in enumerate((1, 2)):
                hops[count].append(seconds(place, nodes, count))
                bar.show(2 * number + turn + 1, 0, f"{count} hop: {hops[count][-1]:.2f} s")
        bar.clear()
    one, two = median(hops[1]), median(hops[2])
    raw_s = OCTETS * 8 / raw / 1e6
    return Outcome(
        f"a bundle of 64 MB takes at most {MOST} times as long over two equal hops as over one",
        two <= MOST * one,
        ["path", "seconds", "lowest", "highest", "× one hop"],
        [["raw TCP, one hop", f"{raw_s:.2f}", "", "", f"{raw_s / one:.2f}"],
         ["one hop", f"{one:.2f}", f"{min(hops[1]):.2f}", f"{max(hops[1]):.2f}", "1.00"],
         ["two hops", f"{two:.2f}", f"{min(hops[2]):.2f}", f"{max(hops[2]):.2f}", f"{two / one:.2f}"]],
        {"octets": OCTETS, "rate_octets_per_s": RATE_OCTETS_PER_S, "one_hop_s": hops[1], "two_hops_s": hops[2],
         "raw_tcp_one_hop_s": raw_s, "ratio": two / one},
        [f"medians of {rounds}; each hop {RATE_OCTETS_PER_S * 8 / 1e6:.0f} Mbit/s"],
    )


def seconds(place: Workplace, nodes: list[Node], hops: int) -> float:
    """From the first link's opening until the bundle is durable so many hops away."""
    target = nodes[hops]
    before = received(target)
    endpoint = f"{target.settings.node_id.removesuffix('.0')}.42"
    place.run(nodes[0], "send", endpoint, str(place.payload(OCTETS)))
    start = time.monotonic()
    nodes[0].link_up("next")
    elapsed = wait_for(target, before + 1) - start
    for node in nodes[:hops]:
        wait_empty(node)
    place.run(nodes[0], "link", "down", "next")
    place.drain(target, endpoint, 1)
    return elapsed
