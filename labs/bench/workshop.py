"""The needs of measurements: programs, a directory that is theirs, nodes that end with them."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from labs.rig.crew import Crew
from labs.rig.node import Node, NodeFailed, Settings

# Seconds that one command of an application may take.
COMMAND_S = 600.0


class Stands(Protocol):
    """A program or node that stands until it is ended."""

    def kill(self) -> None:
        """Ends the program or node."""


Standing = TypeVar("Standing", bound=Stands)


@dataclass
class Workshop:
    """The place in which samples are made."""

    crew: Crew
    dhow: Path
    yardstick: Path
    stream: Path
    room: Path  # the directory for stores and logs; the same disk for all
    _standing: dict[Hashable, list[Any]] = field(default_factory=dict)
    _ends: ExitStack = field(default_factory=ExitStack)

    def standing(self, key: Hashable, make: Callable[[Path, ExitStack], list[Standing]]) -> list[Standing]:
        """Nodes that are made once and then stand to the end, or until one of their measurements fails."""
        if key not in self._standing:
            with ExitStack() as ends:
                made = make(ends.enter_context(self.directory()), ends)
                # Only what stands stays; half of it is gone here.
                self._standing[key] = made
                self._ends.push(ends.pop_all())
        return self._standing[key]

    def dismiss(self, key: Hashable) -> None:
        """Lets standing nodes go: something went wrong with them."""
        for each in self._standing.pop(key, []):
            each.kill()

    def close(self) -> None:
        """Ends all programs and nodes."""
        self._standing.clear()
        self._ends.close()

    @contextlib.contextmanager
    def directory(self) -> Iterator[Path]:
        """A directory for one measurement."""
        path = Path(tempfile.mkdtemp(dir=self.room))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    @contextlib.contextmanager
    def node(self, path: Path, settings: Settings, namespace: str | None = None) -> Iterator[Node]:
        """A node that runs as long as the measurement."""
        node = Node(self.crew, self.dhow, path, settings, namespace)
        try:
            node.start()
            yield node
        finally:
            node.kill()


@dataclass
class Spent:
    """A command that has ended: how long it took, and its processor time."""

    seconds: float
    cpu_s: float


def payload(path: Path, size: int) -> Path:
    """A file of so many octets."""
    path.write_bytes((bytes(range(256)) * (size // 256 + 1))[:size])
    return path


def spend(node: Node, *words: str) -> Spent:
    """Runs a command of an application at a node; its data goes nowhere. Raises NodeFailed."""
    log = node.directory / "command.log"
    start = time.monotonic()
    with log.open("wb") as errors:
        process = subprocess.Popen(node.command(*words), stdout=subprocess.DEVNULL, stderr=errors)
        try:
            status, usage = wait(process)
        except BaseException:
            process.kill()
            process.wait()
            raise
    seconds = time.monotonic() - start
    if status != 0:
        raise NodeFailed(f"dhow {words[0]}: {log.read_text(errors='replace').strip()[-500:]}")
    return Spent(seconds, usage)


def wait(process: "subprocess.Popen[bytes]") -> tuple[int, float]:
    """Exit code and processor time of a child of this process."""
    end = time.monotonic() + COMMAND_S
    # The kernel tells the processor time of this very child only to the one who reaps it.
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_utime + usage.ru_stime
        if time.monotonic() > end:
            raise NodeFailed(f"a command did not end in {COMMAND_S:.0f} s")
        time.sleep(0.002)
