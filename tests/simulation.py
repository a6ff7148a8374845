"""Two hundred seeds of a network in which everything goes wrong, and nothing that is found in them."""

import json
import os
import subprocess
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from labs.rig.binary import dhow

SCENARIO = Path(__file__).resolve().parent.parent / "labs" / "mixed.toml"

SEEDS = 200

# Seconds that one share of the seeds may take at most, whatever else the machine does.
PATIENCE_S = 900.0


def run(first: int, count: int) -> list[dict]:
    """What becomes of `count` seeds from `first` on, an object each; a violation ends them."""
    command = [dhow("debug"), "sim", "run", SCENARIO, "--seed", str(first), "--seeds", str(count), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 and not any(outcome["violations"] for outcome in outcomes):
        raise AssertionError(done.stderr)
    return outcomes


class Simulation(unittest.TestCase):
    """The nodes that ship, in virtual time (docs/simulation.md)."""

    def test_two_hundred_seeds_break_no_rule(self) -> None:
        shares = os.cpu_count() or 1
        firsts = [1 + SEEDS * share // shares for share in range(shares + 1)]
        with ThreadPoolExecutor(shares) as crew:
            parts = crew.map(lambda share: run(firsts[share], firsts[share + 1] - firsts[share]), range(shares))
            outcomes = [outcome for part in parts for outcome in part]
        broken = {outcome["seed"]: outcome["violations"] for outcome in outcomes if outcome["violations"]}
        self.assertEqual(broken, {}, "keep the seed in crates/sim/tests/regressions")
        self.assertEqual([outcome["seed"] for outcome in outcomes], list(range(1, SEEDS + 1)))
        # They saw what they are for.
        for what in ("crashes", "stalls", "duplicates", "delivered"):
            self.assertGreater(sum(outcome[what] for outcome in outcomes), SEEDS, what)

    def test_a_seed_gives_the_same_run_again(self) -> None:
        hashes = {run(7, 1)[0]["trace_hash"] for _ in range(2)}
        self.assertEqual(len(hashes), 1, hashes)
