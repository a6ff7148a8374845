"""A tenth of one core and 64 MB: what Dhow moves, and the peers that are installed, bundle size by size.

Two nodes of each kind over loopback, each in a control group of its own with those limits; applications outside. A
sender that never runs dry fills the first, and what arrives at the second during some seconds is counted. The
yardstick (TCP and a log, labs/yardstick) runs under the same limits. Peers keep bundles in memory; Dhow syncs.
"""

import os
from contextlib import ExitStack

from labs.cases.case import Outcome, Skipped, Workplace
from labs.cases.pairs import DhowPair, Dtn7Pair, HardyPair, Pair, Unable, YardstickPair
from labs.rig import cgroup
from labs.rig.cgroup import Group
from labs.rig.crew import Crew
from labs.rig.terminal import Bar, octets, say

MEMORY_OCTETS = 64_000_000
CPU_SHARE = 0.10

SIZES = [100, 1_000, 10_000, 100_000, 1_000_000]
QUICK_SIZES = [1_000, 100_000]
SECONDS, QUICK_SECONDS = 10.0, 4.0

KINDS: list[type[Pair]] = [YardstickPair, DhowPair, HardyPair, Dtn7Pair]


def rate(place: Workplace, kind: type[Pair], size: int, seconds: float) -> float:
    """Bundles a second of one pair that is made for this and gone afterwards. Raises Unable."""
    with ExitStack() as stack:
        near, far = (
            stack.enter_context(Group(f"dhow-{os.getpid()}-{side}", MEMORY_OCTETS, CPU_SHARE)) for side in ("a", "b"))
        crew = stack.enter_context(Crew())
        pair = kind(place, (near, far), place.directory / f"{kind.__name__}-{size}")
        try:
            found = pair.rate(crew, size, seconds)
        except Unable as reason:
            if near.kills() + far.kills():
                raise Unable("a node was killed: it needs more memory") from reason
            raise
        if near.kills() + far.kills():
            raise Unable("a node was killed: it needs more memory")
        return found


def measure(place: Workplace) -> Outcome:
    """The table: size by kind."""
    if reason := cgroup.impossible("memory", "cpu"):
        raise Skipped(reason)
    sizes, seconds = (QUICK_SIZES, QUICK_SECONDS) if place.quick else (SIZES, SECONDS)
    notes = [f"{kind.name}: {reason}" for kind in KINDS if (reason := kind.missing())]
    kinds = [kind for kind in KINDS if not kind.missing()]
    rates: dict[str, dict[int, float]] = {kind.name: {} for kind in kinds}
    bar = Bar(len(sizes) * len(kinds), "measurements")
    for row, size in enumerate(sizes):
        for column, kind in enumerate(kinds):
            bar.show(row * len(kinds) + column, 0, f"{kind.name} at {octets(size)}")
            try:
                rates[kind.name][size] = rate(place, kind, size, seconds)
            except Unable as reason:
                notes.append(f"{kind.name} at {octets(size)}: {reason}")
                say(notes[-1])
    bar.clear()
    peers = [kind.name for kind in kinds if kind not in (DhowPair, YardstickPair)]
    ours = rates[DhowPair.name]
    met = all(
        size in ours and all(ours[size] >= rates[peer].get(size, 0.0) for peer in peers) for size in sizes)
    return Outcome(
        f"at {CPU_SHARE:.0%} of one core and {octets(MEMORY_OCTETS)} Dhow moves more than every peer installed "
        f"({len(peers)}), at each size",
        met, ["goodput, Mbit/s (bundles/s)", *(octets(size) for size in sizes)],
        [[kind.name, *(cell(rates[kind.name].get(size), size) for size in sizes)] for kind in kinds],
        {"memory_octets": MEMORY_OCTETS, "cpu_share": CPU_SHARE, "seconds": seconds,
         "bundles_per_s": {name: {str(size): value for size, value in of.items()} for name, of in rates.items()}},
        notes,
    )


def cell(bundles_per_s: float | None, size: int) -> str:
    """One cell of the table."""
    if bundles_per_s is None:
        return "–"
    digits = 0 if bundles_per_s >= 10 else 1
    return f"{bundles_per_s * size * 8 / 1e6:,.2f} ({bundles_per_s:,.{digits}f})"
