"""Octets and bundles that Dhow moves, beside a yardstick and raw TCP in the same run: medians, target/bench/node.json and node.svg."""

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

from labs.bench import report
from labs.bench.picture import Picture
from labs.bench.plan import CASES, QUICK_SIZES, SIZES, Plan, Results
from labs.bench.row import rows
from labs.bench.sample import size_of
from labs.bench.workshop import Workshop
from labs.rig.binary import ROOT, dhow, stream, yardstick
from labs.rig.crew import Crew, end_on_sigterm
from labs.rig.machine import machine
from labs.rig.node import NodeFailed
from labs.rig.terminal import Bar, say

RESULT = ROOT / "target" / "bench" / "node.json"

QUICK_ROUNDS, QUICK_MINUTES = 2, 3.0
QUICK_CASES = ["node-to-node", "relay", "ping"]

# The number of bundles is lowered from round to round where the machine is slower than thought, but not below this.
LEAST_SCALE = 0.1


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each kind (default 5)")
    parser.add_argument(
        "--sizes", type=size_of, nargs="+", default=list(SIZES), metavar="SIZE", help="such as 100B 2kB 1MB")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES, help="default: all")
    parser.add_argument(
        "--durability", nargs="+", choices=["sync", "os", "memory"], default=["sync", "os"], help="default: sync os")
    parser.add_argument("--quick", action="store_true", help="two rounds of four sizes, sync alone: about 3 minutes")
    parser.add_argument("--minutes", type=float, default=25.0, help="about how long all rounds may take (default 25)")
    parser.add_argument("--scale", type=float, default=1.0, help="times the number of bundles (default 1)")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="where stores and logs lie")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.minutes = min(options.rounds, QUICK_ROUNDS), min(options.minutes, QUICK_MINUTES)
        if options.cases == CASES:
            options.cases = QUICK_CASES
        if options.sizes == list(SIZES):
            options.sizes = QUICK_SIZES
        if options.durability == ["sync", "os"]:
            options.durability = ["sync"]
        options.scale *= 0.4
    return options


def run(options: argparse.Namespace, room: Path, results: Results) -> None:
    """All rounds."""
    end = time.monotonic() + options.minutes * 60
    with Crew() as crew, ExitStack() as ends:
        workshop = ends.enter_context(closing(Workshop(crew, dhow("release"), yardstick(), stream(), room)))
        plan = Plan(workshop, results, options.cases, options.sizes, options.durability, options.scale)
        bar = Bar(options.rounds * len(plan.round()), "measurements")
        done = 0
        for number in range(options.rounds):
            began = time.monotonic()
            for step in plan.round():
                bar.show(done, 0, f"round {number + 1}: {step.name}")
                try:
                    step.take()
                except NodeFailed as error:
                    # One that fails must not take the others with it; the run does not count as good.
                    results.failures.append(f"{step.name}: {error}")
                    bar.interrupt(f"failed: {step.name}: {error}")
                done += 1
            now = time.monotonic()
            left = options.rounds - number - 1
            if left and (now - began) * left > end - now:
                plan.scale = max(LEAST_SCALE, plan.scale * max(0.0, end - now) / left / (now - began))
                bar.interrupt(f"the machine is slow: {plan.scale:.2f} times the usual number of bundles from now on")
        bar.clear()


def main() -> int:
    """Measures, prints and writes."""
    options = arguments()
    end_on_sigterm()
    room = Path(tempfile.mkdtemp(prefix="dhow-bench-", dir=options.dir))
    results = Results()
    try:
        run(options, room, results)
    except KeyboardInterrupt:
        say("\ninterrupted")
        return 130
    finally:
        shutil.rmtree(room, ignore_errors=True)
    made = rows(results.samples, results.raw, results.raw_narrow)
    command = "make bench" + (f" ARGS='{' '.join(sys.argv[1:])}'" if sys.argv[1:] else "")
    print(report.text(made, results, machine(), command, options.rounds))
    report.write(made, results, machine(), RESULT)
    captions = [machine(), f"medians of {options.rounds} interleaved rounds with their spread; {command}"]
    Picture(made, captions).write(RESULT.with_suffix(".svg"))
    say(f"written: {RESULT.relative_to(ROOT)}, node.svg, samples.json")
    return 1 if results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
