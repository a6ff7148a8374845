"""A bundle costs no more instructions than was reviewed (labs/instructions)."""

import tempfile
import unittest
from pathlib import Path

from labs.instructions import __main__ as lab
from labs.instructions import count, expected


class Instructions(unittest.TestCase):
    """Counts repeat to the instruction, so a test may hold them where it may not hold seconds."""

    def test_a_bundle_costs_no_more_instructions_than_was_reviewed(self) -> None:
        if reason := count.tool_missing():
            self.skipTest(reason)
        known = expected.read()
        allowance = known.allowance(count.made_with())
        exercise = count.build()
        with tempfile.TemporaryDirectory() as directory:
            for stage in count.STAGES:
                with self.subTest(stage):
                    counted = count.count(exercise, stage, count.BUNDLES, count.OCTETS, Path(directory) / stage)
                    self.assertLessEqual(
                        counted, known.stages[stage] * (1 + allowance), f"make it less, or accept it: {lab.ACCEPT}")

    def test_a_count_is_judged_by_the_reviewed_one(self) -> None:
        self.assertEqual(lab.verdict(1_031, 1_000, 0.03), "more")
        self.assertEqual(lab.verdict(1_029, 1_000, 0.03), "same")
        self.assertEqual(lab.verdict(960, 1_000, 0.03), "less")
        self.assertEqual(lab.verdict(960, None, 0.03), "new")

    def test_every_stage_has_a_reviewed_number(self) -> None:
        self.assertEqual(set(expected.read().stages), set(count.STAGES))
