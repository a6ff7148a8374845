"""A million simulated crashes: seeds of labs/mixed.toml that no other run has, until so many machines have crashed.

    python3 -m labs.crashes [--crashes 1000000] [--first 1000000]
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass, field

from labs.rig.binary import ROOT, dhow
from labs.rig.terminal import say

# Seeds of one command: what is lost when this is interrupted, and how often it tells how far it is.
SEEDS_AT_ONCE = 200
# Seeds in all, for each thousand crashes that are wanted: many more than it takes, so that a scenario without crashes ends.
SEEDS_PER_THOUSAND = 200
# One seed takes a tenth of a second.
TIMEOUT_S = 3600


@dataclass
class Found:
    """The findings of the seeds so far."""

    seeds: int = 0
    crashes: int = 0
    events: int = 0
    violations: list[str] = field(default_factory=list)

    def take(self, line: str) -> None:
        """Counts a seed's line."""
        row = json.loads(line)
        self.seeds += 1
        self.crashes += row["crashes"]
        self.events += row["events"]
        for violation in row["violations"]:
            self.violations.append(f"{violation['oracle']}: {violation['sentence']}\n  {violation['replay']}")


def run(scenario: str, first: int, more: list[str], found: Found) -> str | None:
    """Runs some seeds; why they could not be run, where that is so."""
    command = [str(dhow("release")), "sim", "run", scenario, "--seed", str(first), "--seeds", str(SEEDS_AT_ONCE), "--keep-going", "--json", *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=TIMEOUT_S)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    for line in lines:
        found.take(line)
    # 1: an oracle has spoken. Anything else, or seeds without a line, is a run that did not take place.
    is_run = done.returncode in {0, 1} and len(lines) == SEEDS_AT_ONCE
    return None if is_run else done.stderr.strip() or f"exit code {done.returncode}"


def main() -> int:
    """Runs seeds until enough has crashed; 1 where an oracle has spoken or the crashes were not reached."""
    parser = argparse.ArgumentParser(prog="make crashes", description=__doc__.split("\n")[0])
    parser.add_argument("--crashes", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=1_000_000, help="the first seed")
    parser.add_argument("--scenario", default=str(ROOT / "labs/mixed.toml"))
    parser.add_argument("--jobs", type=int, help="seeds at once (default: as many as there are cores)")
    options = parser.parse_args()
    more = ["--jobs", str(options.jobs)] if options.jobs else []
    found, told, begun = Found(), 0, time.monotonic()
    while found.crashes < options.crashes and found.seeds * 1000 < options.crashes * SEEDS_PER_THOUSAND:
        if fault := run(options.scenario, options.first + found.seeds, more, found):
            print(f"the seeds from {options.first + found.seeds} on cannot be run: {fault}", file=sys.stderr)
            return 1
        for violation in found.violations[told:]:
            print(violation, flush=True)
        told = len(found.violations)
        wall = time.monotonic() - begun
        left = wall * max(0, options.crashes - found.crashes) / max(1, found.crashes)
        say(f"{found.crashes:,} crashes in {found.seeds:,} seeds, {len(found.violations)} violations; {left / 60:.0f} min left")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    minutes = (used.ru_utime + used.ru_stime) / 60
    print(f"{found.crashes:,} crashes in {found.seeds:,} seeds from {options.first:,} on, {found.events:,} events: "
          f"{len(found.violations)} violations; {minutes:.2f} minutes of processors")
    if found.crashes < options.crashes:
        print(f"{options.crashes:,} crashes were not reached", file=sys.stderr)
    return int(bool(found.violations) or found.crashes < options.crashes)


if __name__ == "__main__":
    sys.exit(main())
