"""The reviewed numbers: a file of the repository that changes only where somebody means it."""

import re
from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).resolve().with_name("expected.toml")

# A compiler or C library other than the one that the numbers were made with shifts them by this much.
ELSEWHERE = 0.15

HEAD = """\
# Instructions that a node's own code executes for one bundle of {octets} octets, by stage; made and compared by
# `make instructions`, which says how to accept new ones.
"""


@dataclass
class Expected:
    """The reviewed numbers."""

    made_with: str
    tolerance: float
    stages: dict[str, int]

    def allowance(self, made_with: str) -> float:
        """By how much a measured number may be above the reviewed one, as a fraction."""
        return self.tolerance if made_with == self.made_with else ELSEWHERE


def read() -> Expected:
    """The file; its few lines are `name = value`."""
    values = dict(re.findall(r'^([a-z_-]+) = "?([^"\n]+?)"?$', PATH.read_text(), re.MULTILINE))
    made_with = values.pop("made_with")
    tolerance = float(values.pop("tolerance"))
    return Expected(made_with, tolerance, {stage: int(count.replace("_", "")) for stage, count in values.items()})


def write(expected: Expected, octets: int) -> None:
    """Replaces the file."""
    lines = [HEAD.format(octets=octets)]
    lines += [f'made_with = "{expected.made_with}"', f"tolerance = {expected.tolerance}", "", "[stages]"]
    lines += [f"{stage} = {count:_}" for stage, count in expected.stages.items()]
    PATH.write_text("\n".join(lines) + "\n")
