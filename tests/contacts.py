"""The whole program: contacts that begin again, in network namespaces; figures are a matter of labs/cases."""

import shutil
import tempfile
import unittest
from pathlib import Path

from labs.cases.contact_sides import Scenario, Trial
from labs.rig.binary import dhow
from labs.rig.crew import Crew
from labs.rig.network import namespaces_possible

# SYNs while nothing answers: one of each new attempt, and those of the one that waits long; some more at the start.
ATTEMPTS_PER_S = 2.0
ATTEMPTS_BESIDE = 4

# Far beyond what the requirement allows, and far below what TCP alone or a session's own timers would take.
SANE_MS = 10_000.0


class Contacts(unittest.TestCase):
    """Two nodes whose path is cut while a bundle waits."""

    def setUp(self) -> None:
        reason = namespaces_possible()
        if reason:
            self.skipTest(f"no network namespaces: {reason}")
        self.directory = Path(tempfile.mkdtemp(prefix="dhow-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.crew = Crew()
        self.addCleanup(self.crew.close)

    def cross(self, scenario: Scenario, outage_s: float) -> None:
        """Cuts the path once and looks at what comes after it."""
        trial = Trial(self.crew, dhow("debug"), self.directory, scenario, "test", "")
        self.addCleanup(trial.close)
        trial.start()
        found = trial.round(1, outage_s)
        self.assertTrue(found.fresh, "the bundle left over a connection that is younger than the path")
        self.assertLess(found.first_ms, SANE_MS)
        self.assertLessEqual(found.attempts, outage_s * ATTEMPTS_PER_S + ATTEMPTS_BESIDE)

    def test_bundle_of_the_dialling_node_leaves_over_a_new_connection_when_the_interface_is_back(self) -> None:
        self.cross(Scenario("interface", "dialling", "believed"), 3.0)

    def test_bundle_of_the_accepting_node_leaves_over_a_new_connection_when_the_interface_is_back(self) -> None:
        self.cross(Scenario("interface", "accepting", "believed"), 3.0)

    def test_bundle_of_the_dialling_node_leaves_over_a_new_connection_after_a_silent_cut(self) -> None:
        self.cross(Scenario("silent", "dialling", "believed"), 8.0)

    def test_bundle_of_the_accepting_node_leaves_over_a_new_connection_after_a_silent_cut(self) -> None:
        self.cross(Scenario("silent", "accepting", "believed"), 8.0)
