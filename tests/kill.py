"""A few rounds of SIGKILL; `make kill` plays 200, and `make custody` 100."""

import unittest

from labs.rig.binary import dhow
from tests.custody_rounds import CustodyRound
from tests.kill_rounds import play, summary

# Enough to kill both the sender and the receiver, few enough for every change.
SEEDS = range(1, 7)
BUNDLES = 300


class Kill(unittest.TestCase):
    """Nothing is lost and nothing comes twice, whenever a node dies."""

    def test_nothing_is_lost_when_a_node_is_killed(self) -> None:
        results = [play(dhow("debug"), seed, BUNDLES) for seed in SEEDS]
        self.assertEqual({result.victim for result in results}, {"sender", "receiver"})
        self.assertTrue(all(result.good for result in results), summary(results))

    def test_no_bundle_in_custody_is_lost_and_nobody_stays_custodian_when_each_node_is_killed(self) -> None:
        results = [play(dhow("debug"), seed, 100, CustodyRound) for seed in (1, 2)]
        self.assertTrue(all(result.good for result in results), summary(results))
