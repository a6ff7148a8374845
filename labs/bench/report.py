"""The output and the files of the bench."""

import json
from pathlib import Path
from statistics import median

from labs.bench import narrow, relay, yardstick
from labs.bench.plan import Results
from labs.bench.row import Row
from labs.bench.sample import size_name
from labs.bench.targets import COMPARISONS, LARGE, PING_MS, SMALL, Target, Unit
from labs.rig.terminal import table

MET, MISSED = "✓", "✗"

HEAD = [
    "case", "payload", "durability", "bundles/s", "Mbit/s", "spread", "of yardstick", "of iperf3", "CPU s/GB",
    "CPU s/million", "peak MB", "floor", "", "goal", "",
]


def share(value: float | None) -> str:
    """A ratio, with the digits that mean something."""
    if value is None:
        return "–"
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def mark(reached: float, wanted: float) -> str:
    """Whether a figure is as good as wanted."""
    return MET if reached >= wanted else MISSED


def wanted(target: Target, value: float) -> str:
    """A floor or goal."""
    return f"{value / 1e3:,.0f} k/s" if target.unit is Unit.BUNDLES_PER_S else share(value)


def verdict(row: Row) -> list[str]:
    """Floor, whether it is met, goal, whether it is met."""
    target, reached = row.target, row.reached
    if target is None or reached is None:
        return ["", "", "", ""]
    cells = [wanted(target, target.floor), mark(reached, target.floor)]
    return cells + ([wanted(target, target.goal), mark(reached, target.goal)] if target.goal else ["", ""])


def line(row: Row) -> list[str]:
    """One line of the table."""
    kind = row.kind
    low, high = row.spread
    return [
        kind.case, size_name(kind.size), kind.terms, f"{row.bundles_per_s:,.0f}", f"{row.mbit_per_s:,.0f}",
        f"{low:+.0%} {high:+.0%}", share(row.share(row.yardstick_mbit_s)), share(row.share(row.iperf3_mbit_s)),
        f"{median(sample.cpu_s_per_gb for sample in row.samples):.2f}",
        f"{median(sample.cpu_s_per_million for sample in row.samples):,.1f}", row.peaks() or "–", *verdict(row),
    ]


def ordered(rows: list[Row]) -> list[Row]:
    """Case by case, the yardstick first, sizes rising."""
    cases = list(dict.fromkeys(row.kind.case for row in rows))
    first = [yardstick.CASE, narrow.YARDSTICK]
    cases = sorted(cases, key=lambda case: case not in first)
    return sorted(rows, key=lambda row: (
        cases.index(row.kind.case), row.kind.flush_delay_ms, row.kind.threads, row.kind.version != 7, row.kind.durability != "sync",
        row.kind.durability, row.kind.size))


def comparisons(rows: list[Row]) -> list[tuple[str, bool]]:
    """The rate of small bundles as a share of that of large ones, and whether the floor is met."""
    said = []
    for comparison in COMPARISONS:
        goodput = {
            row.kind.size: row.mbit_per_s for row in rows
            if (row.kind.case, row.kind.durability) == (comparison.case, "sync")
            and (row.kind.flush_delay_ms, row.kind.threads, row.kind.version) == (comparison.flush_delay_ms, 1, 7)
        }
        if SMALL in goodput and LARGE in goodput:
            reached, target = goodput[SMALL] / goodput[LARGE], comparison.target
            goal = f", goal {target.goal} {mark(reached, target.goal)}" if target.goal else ""
            floor = f"floor {target.floor} {mark(reached, target.floor)}"
            said.append((f"{comparison.name}: {reached:.2f} ({floor}{goal})", reached >= target.floor))
    return said


def round_trips(results: Results) -> list[tuple[str, bool | None]]:
    """Ping, idle and loaded, and whether the floor is met where there is one."""
    said: list[tuple[str, bool | None]] = []
    for case in dict.fromkeys(taken.case for taken in results.latencies):
        of = [taken for taken in results.latencies if taken.case == case]
        middle, floor, met = median(taken.median_ms for taken in of), "", None
        if (most := PING_MS.get(case)) is not None:
            met = middle <= most
            floor = f" (floor {most:.0f} ms {MET if met else MISSED})"
        lost = sum(taken.lost for taken in of)
        tail = median(taken.p99_ms for taken in of)
        said.append((f"{case}: median {middle:.2f} ms{floor}, p99 {tail:.2f} ms, {lost} lost", met))
    return said


def backlogs(rows: list[Row]) -> list[str]:
    """Octets that relays had taken in and not given out when the stream into them ended."""
    of = [row for row in rows if row.kind.case == relay.CASE]
    shares = [(row, median(sample.backlog for sample in row.samples)) for row in of]
    return [
        f"relay, {size_name(row.kind.size)}: {backlog:.0%} of the stream's octets were left in the node at its end "
        f"(in {row.mbit_per_s / max(1 - backlog, 0.01):,.0f}, out {row.mbit_per_s:,.0f} Mbit/s)"
        for row, backlog in shares]


def text(rows: list[Row], results: Results, machine: str, command: str, rounds: int) -> str:
    """Everything that people read."""
    others = [*comparisons(rows), *round_trips(results)]
    lines = [table(HEAD, [line(row) for row in ordered(rows)]), "", *(words for words, _ in others), *backlogs(rows)]
    for name, raw in (("loopback", results.raw), ("the 24 Mbit/s link", results.raw_narrow)):
        if raw:
            lines.append(
                f"iperf3, one stream over {name}: {median(raw):,.0f} Mbit/s (median of {len(raw)}, "
                f"{min(raw):,.0f} to {max(raw):,.0f})")
    lines += results.notes
    lines += [f"failed: {failure.splitlines()[0]}" for failure in results.failures]
    judged = [row.reached >= row.target.floor for row in rows if row.target and row.reached is not None]
    judged += [met for _, met in others if met is not None]
    lines.append(f"floors met: {sum(judged)} of {len(judged)}")
    lines.append(f"medians of {rounds} interleaved rounds; machine: {machine}; command: {command}")
    return "\n".join(lines)


def write(rows: list[Row], results: Results, machine: str, path: Path) -> None:
    """The rows as `path`, every sample beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine, "rows": [row.record() for row in ordered(rows)]}
    path.write_text(json.dumps(record, indent=1) + "\n")
    samples = {
        "machine": machine, "samples": [sample.record() for sample in results.samples],
        "round_trips": [taken.record() for taken in results.latencies],
        "iperf3_mbit_s": results.raw, "iperf3_24mbit_mbit_s": results.raw_narrow, "notes": results.notes,
        "failures": results.failures,
    }
    path.with_name("samples.json").write_text(json.dumps(samples, indent=1) + "\n")
