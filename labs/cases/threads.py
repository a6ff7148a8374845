"""One thread and two, side by side: what sockets on threads of their own bring, size by size.

Two nodes over loopback, `sync`, four sessions between them. Bundles wait while the link is closed; the clock runs
from its opening until all are durable at the receiver. `threads` of both nodes is 1 or 2, in turns.
"""

import time
from statistics import median

from labs.bench.arrival import wait_for
from labs.cases.case import Outcome, Workplace
from labs.cases.traffic import received, wait_empty
from labs.rig.node import Link, Node, Settings
from labs.rig.terminal import Bar, octets

# Bundles of each size in one transfer.
SIZES = {1_000: 200_000, 10_000: 50_000, 100_000: 8_000, 1_000_000: 800}
QUICK_SIZES = {1_000: 20_000, 100_000: 1_000}
ROUNDS, QUICK_ROUNDS = 5, 2
SESSIONS = 4
THREADS = (1, 2)

# Of what one thread moves, the least that two must, also where there are no cores for them.
LEAST = 0.5


def pair(place: Workplace, threads: int) -> tuple[Node, Node]:
    """Two nodes with so many threads each."""
    policy = f"threads = {threads}"
    receiver = Node(place.crew, place.dhow, place.directory / f"receiver-{threads}", Settings(
        "ipn:2.0", node_policy=policy, quota="8GiB"))
    receiver.start()
    link = Link("receiver", receiver.address, f"enabled = false\nsessions = {SESSIONS}")
    sender = Node(place.crew, place.dhow, place.directory / f"sender-{threads}", Settings(
        "ipn:1.0", links=[link], routes=[("ipn:2.*", "receiver")], node_policy=policy, quota="8GiB"))
    sender.start()
    return sender, receiver


def transfer(place: Workplace, nodes: tuple[Node, Node], size: int, bundles: int) -> tuple[float, float]:
    """Bundles a second, and processor microseconds of both nodes per bundle."""
    sender, receiver = nodes
    before = received(receiver)
    place.run(sender, "send", "ipn:2.42", str(place.payload(size)), "--count", str(bundles))
    cpu = sender.cpu_seconds() + receiver.cpu_seconds()
    start = time.monotonic()
    sender.link_up("receiver")
    elapsed = wait_for(receiver, before + bundles) - start
    cpu = sender.cpu_seconds() + receiver.cpu_seconds() - cpu
    wait_empty(sender)
    place.run(sender, "link", "down", "receiver")
    place.drain(receiver, "ipn:2.42", bundles)
    return bundles / elapsed, cpu / bundles * 1e6


def measure(place: Workplace) -> Outcome:
    """Turns, and the medians side by side."""
    sizes, rounds = (QUICK_SIZES, QUICK_ROUNDS) if place.quick else (SIZES, ROUNDS)
    pairs = {threads: pair(place, threads) for threads in THREADS}
    samples: dict[tuple[int, int], list[tuple[float, float]]] = {}
    bar = Bar(len(sizes) * len(THREADS) * rounds, "transfers")
    for _ in range(rounds):
        for size, bundles in sizes.items():
            for threads, nodes in pairs.items():
                sample = transfer(place, nodes, size, bundles)
                samples.setdefault((size, threads), []).append(sample)
                bar.show(sum(map(len, samples.values())), 0, f"{octets(size)}, {threads}: {sample[0]:,.0f} bundles/s")
    bar.clear()
    rates = {key: median(rate for rate, _ in of) for key, of in samples.items()}
    costs = {key: median(cost for _, cost in of) for key, of in samples.items()}
    ratios = {size: rates[size, 2] / rates[size, 1] for size in sizes}
    return Outcome(
        f"with 1 thread and with 2 all bundles arrive, and a second never costs more than {1 - LEAST:.0%} of the rate",
        all(ratio >= LEAST for ratio in ratios.values()),
        ["size", "1 thread, bundles/s", "2 threads, bundles/s", "2 ÷ 1", "1 thread, CPU µs/bundle", "2 threads"],
        [[octets(size), f"{rates[size, 1]:,.0f}", f"{rates[size, 2]:,.0f}", f"{ratios[size]:.2f}",
          f"{costs[size, 1]:.1f}", f"{costs[size, 2]:.1f}"] for size in sizes],
        {"sessions": SESSIONS, "rows": [
            {"size_octets": size, "threads": threads, "bundles_per_s": [rate for rate, _ in of],
             "cpu_us_per_bundle": [cost for _, cost in of]} for (size, threads), of in samples.items()]},
        [f"medians of {rounds}; {SESSIONS} sessions between the nodes, sync; each node's store has a thread beside"],
    )
