"""The parts that all cases have in common: workplace, figures, verdict."""

import argparse
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labs.rig.binary import dhow, target_directory
from labs.rig.crew import Crew
from labs.rig.node import Node, NodeFailed
from labs.rig.terminal import say


class Skipped(Exception):
    """The machine cannot show this case; says why."""


@dataclass
class Outcome:
    """The result of a case."""

    requirement: str
    met: bool
    head: list[str]
    rows: list[list[str]]
    figures: dict[str, Any]
    notes: list[str] = field(default_factory=list)


@dataclass
class Workplace:
    """The workplace of a case: a directory and programs that are gone when the case is."""

    directory: Path
    crew: Crew
    dhow: Path
    options: argparse.Namespace

    @property
    def quick(self) -> bool:
        """Whether less is measured, so that it takes seconds."""
        return self.options.quick

    def say(self, text: str) -> None:
        """Talk."""
        say(text)

    def run(self, node: Node, *words: str, timeout_s: float = 600.0) -> str:
        """A command that must succeed; its output."""
        done = node.run(*words, timeout_s=timeout_s)
        if done.returncode != 0:
            raise NodeFailed(f"dhow {words[0]}: {done.stderr.strip()}\n{node.last_words()}")
        return done.stdout

    def drain(self, node: Node, endpoint: str, bundles: int) -> None:
        """Takes bundles as an application does and forgets them."""
        done = subprocess.run(
            node.command("recv", endpoint, "--count", str(bundles), "--stdout", "--timeout", "60s"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600, check=False)
        if done.returncode != 0:
            raise NodeFailed(f"dhow recv {endpoint}: exit code {done.returncode}\n{node.last_words()}")

    def payload(self, octets: int) -> Path:
        """A file of so many octets that no codec could shorten."""
        path = self.directory / f"payload-{octets}"
        if not path.exists():
            path.write_bytes(bytes(place * 7 % 251 for place in range(min(octets, 251))) * (octets // 251 + 1))
            with path.open("r+b") as file:
                file.truncate(octets)
        return path


@contextmanager
def workplace(name: str, options: argparse.Namespace) -> Iterator[Workplace]:
    """A workplace, which is removed in the end."""
    directory = Path(tempfile.mkdtemp(prefix=f"dhow-{name}-", dir=options.dir))
    try:
        with Crew() as crew:
            yield Workplace(directory, crew, dhow("release"), options)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def pictures() -> Path:
    """The directory for drawings."""
    directory = target_directory() / "cases"
    directory.mkdir(parents=True, exist_ok=True)
    return directory
