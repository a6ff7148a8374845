"""100 transfers on one pair of nodes: the last is as fast as the first.

Two nodes over loopback that are never restarted. Each run enqueues the same bundles while the link is closed, opens
it, and takes the time until all are durable at the receiver; then the receiver's application takes them, so that
both stores are empty again. A straight line through the rates must not fall. Raw TCP runs in between, so that a
machine that became busy is told from a node that became slow.
"""

import time
from pathlib import Path
from statistics import fmean, median

from labs.bench.arrival import wait_for
from labs.bench.rawtcp import mbit_per_s
from labs.cases import statistics
from labs.cases.case import Outcome, Workplace, pictures
from labs.cases.statistics import Line
from labs.cases.traffic import received, wait_empty
from labs.rig.node import Link, Node, Settings
from labs.rig.terminal import Bar

BUNDLE_OCTETS = 1_000
RUNS, BUNDLES = 100, 50_000
QUICK_RUNS, QUICK_BUNDLES = 12, 5_000

# A run after which raw TCP is measured.
RAW_EVERY = 20

# A fall of this part of the mean from the first run to the last is a slope, when the line is sure of it.
FALL = 0.05


def one_run(place: Workplace, sender: Node, receiver: Node, bundles: int) -> tuple[float, float]:
    """Bundles a second, and processor microseconds of both nodes per bundle."""
    before = received(receiver)
    place.run(sender, "send", "ipn:2.42", str(place.payload(BUNDLE_OCTETS)), "--count", str(bundles))
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
    """All runs, and the line through them."""
    runs, bundles = (QUICK_RUNS, QUICK_BUNDLES) if place.quick else (RUNS, BUNDLES)
    receiver = Node(place.crew, place.dhow, place.directory / "receiver", Settings("ipn:2.0"))
    receiver.start()
    sender = Node(place.crew, place.dhow, place.directory / "sender", Settings(
        "ipn:1.0", links=[Link("receiver", receiver.address, "enabled = false")], routes=[("ipn:2.*", "receiver")]))
    sender.start()
    one_run(place, sender, receiver, bundles)  # stores grow to their size, caches fill
    rates, costs, raw = [], [], []
    bar = Bar(runs, "runs")
    for number in range(runs):
        if number % RAW_EVERY == 0:
            raw.append(mbit_per_s(place.crew))
        rate, cost = one_run(place, sender, receiver, bundles)
        rates.append(rate)
        costs.append(cost)
        bar.show(number + 1, 0, f"{rate:,.0f} bundles/s")
    bar.clear()
    raw.append(mbit_per_s(place.crew))
    line, cost_line = statistics.fit(rates), statistics.fit(costs)
    mean = fmean(rates)
    change, sure = line.slope * (runs - 1) / mean, line.uncertainty * (runs - 1) / mean
    cost_change = cost_line.slope * (runs - 1) / fmean(costs)
    cost_sure = cost_line.uncertainty * (runs - 1) / fmean(costs)
    picture = pictures() / "hundred-runs.svg"
    picture.write_text(draw(rates, line))
    return Outcome(
        f"bundles/s over {runs} runs on one pair of nodes do not fall: no sure fall of more than {FALL:.0%}",
        not (line.sure and change < -FALL),
        ["over all runs", "mean", "lowest", "highest", "change from first to last"],
        [["bundles/s of 1 kB", f"{mean:,.0f}", f"{min(rates):,.0f}", f"{max(rates):,.0f}",
          f"{change:+.1%} ± {sure:.1%}"],
         ["CPU µs/bundle, both nodes", f"{fmean(costs):.1f}", f"{min(costs):.1f}", f"{max(costs):.1f}",
          f"{cost_change:+.1%} ± {cost_sure:.1%}"],
         ["raw TCP, Mbit/s", f"{median(raw):,.0f}", f"{min(raw):,.0f}", f"{max(raw):,.0f}", ""]],
        {"runs": runs, "bundles": bundles, "octets": BUNDLE_OCTETS, "bundles_per_s": rates, "cpu_us_per_bundle": costs,
         "raw_mbit_s": raw, "change": change, "change_uncertainty": sure, "picture": str(picture)},
        ["± is the 95 % confidence interval of the line's slope", f"picture: {relative(picture)}"],
    )


def relative(path: Path) -> str:
    """A path as it is typed here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


WIDTH, HEIGHT, LEFT, BELOW, ABOVE = 760, 320, 84, 48, 44


def draw(rates: list[float], line: Line) -> str:
    """Runs as dots, the line through them, and the band in which the line lies with 95 % confidence in its slope."""
    top = max(rates) * 1.15

    def x(run: float) -> float:
        return LEFT + run * (WIDTH - LEFT - 20) / max(1, len(rates) - 1)

    def y(rate: float) -> float:
        return HEIGHT - BELOW - rate * (HEIGHT - BELOW - ABOVE) / top

    step = max(1, round(top / 5, -len(str(int(top / 5))) + 1))
    middle, last = (len(rates) - 1) / 2, len(rates) - 1
    sway = line.uncertainty * middle
    band = [(0, line.at(0) + sway), (middle, line.at(middle)), (last, line.at(last) + sway),
            (last, line.at(last) - sway), (middle, line.at(middle)), (0, line.at(0) - sway)]
    parts = [
        (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
         'font-family="sans-serif" font-size="12" fill="#222">'),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="22" font-size="14">bundles of 1 kB per second, run by run on one pair of nodes</text>',
    ]
    for tick in range(0, int(top), int(step)):
        parts.append(f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - 20}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,}</text>')
    for tick in range(0, len(rates), max(1, len(rates) // 10)):
        parts.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - BELOW + 20}" text-anchor="middle">{tick + 1}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 8}" text-anchor="middle">run</text>')
    points = " ".join(f"{x(run):.1f},{y(rate):.1f}" for run, rate in band)
    parts.append(f'<polygon points="{points}" fill="#c8553d" opacity="0.18"/>')
    parts += [
        f'<circle cx="{x(run):.1f}" cy="{y(rate):.1f}" r="2.6" fill="#1f5a85"/>' for run, rate in enumerate(rates)]
    parts.append(f'<path d="M{x(0):.1f} {y(line.at(0)):.1f}L{x(last):.1f} {y(line.at(last)):.1f}" '
                 'stroke="#c8553d" stroke-width="2"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"
