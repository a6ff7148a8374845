"""Bundles/s and Mbit/s from node to node by size and durability, interleaved with raw TCP; medians."""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median

from labs.bench.point import Point, measure
from labs.bench.rawtcp import mbit_per_s
from labs.rig.binary import dhow
from labs.rig.crew import Crew, end_on_sigterm
from labs.rig.machine import machine
from labs.rig.terminal import Bar, octets, say, table

# Payload octets and how many bundles of them cross in one measurement: some hundred megabytes, 100 MB at 1 kB.
SIZES = {1_000: 100_000, 10_000: 30_000, 100_000: 5_000, 1_000_000: 600}
DURABILITIES = ["sync", "os"]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each point (default 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="times the number of bundles (default 1)")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="where the stores lie")
    parser.add_argument("--durability", choices=["sync", "os", "memory"], nargs="*", default=DURABILITIES)
    parser.add_argument("--json", action="store_true", help="print every sample as JSON")
    return parser.parse_args()


def run(options: argparse.Namespace) -> tuple[list[Point], list[float]]:
    """All measurements; raw TCP goes before each round of points and after the last."""
    binary = dhow("release")
    points: list[Point] = []
    raw: list[float] = []
    plan = [(durability, size) for size in SIZES for durability in options.durability]
    bar = Bar(options.rounds * len(plan), "measurements")
    with Crew() as crew:
        for _ in range(options.rounds):
            for durability, size in plan:
                raw.append(mbit_per_s(crew))
                bundles = max(1, int(SIZES[size] * options.scale))
                points.append(measure(crew, binary, options.dir, durability, size, bundles))
                bar.show(len(points), 0, f"{octets(size)} {durability}: {points[-1].mbit_per_s:.0f} Mbit/s")
        raw.append(mbit_per_s(crew))
    bar.clear()
    return points, raw


def report(points: list[Point], raw: list[float], options: argparse.Namespace) -> str:
    """The table of medians with its yardstick, machine and command."""
    yardstick = median(raw)
    rows = []
    for size in SIZES:
        for durability in options.durability:
            of = [point for point in points if (point.size, point.durability) == (size, durability)]
            mbit = median(point.mbit_per_s for point in of)
            cpu = median((point.sender_cpu_s + point.receiver_cpu_s) / point.bundles * 1e6 for point in of)
            rows.append([
                octets(size), durability, f"{median(point.bundles_per_s for point in of):,.0f}", f"{mbit:,.0f}",
                f"{mbit / yardstick:.1%}", f"{median(point.enqueued_per_s for point in of):,.0f}", f"{cpu:.1f}",
            ])
    head = ["payload", "durability", "bundles/s", "Mbit/s", "of raw TCP", "API send/s", "CPU µs/bundle"]
    return "\n".join([
        table(head, rows),
        "",
        f"raw TCP, one iperf3 stream over loopback, same run: {yardstick:,.0f} Mbit/s "
        f"(median of {len(raw)}, {min(raw):,.0f} to {max(raw):,.0f})",
        f"medians of {options.rounds}; machine: {machine()}; command: make bench"
        + (f" ARGS='{' '.join(sys.argv[1:])}'" if sys.argv[1:] else ""),
    ])


def main() -> int:
    """Measures and prints."""
    options = arguments()
    end_on_sigterm()
    try:
        points, raw = run(options)
    except KeyboardInterrupt:
        say("\ninterrupted")
        return 130
    if options.json:
        print(json.dumps({
            "machine": machine(), "raw_mbit_per_s": raw,
            "points": [asdict(p) | {"bundles_per_s": p.bundles_per_s, "mbit_per_s": p.mbit_per_s} for p in points],
        }))
    else:
        print(report(points, raw, options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
