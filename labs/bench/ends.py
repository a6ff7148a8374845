"""The two ends of a relayed stream (labs/stream): programs that speak TCPCLv4 and keep nothing."""

import json
import queue
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from labs.rig.crew import Crew, Program
from labs.rig.node import NodeFailed, process_cpu_seconds

# Seconds that an end may take to begin.
BEGIN_S = 20.0

# Seconds that an order may take.
ORDER_S = 300.0


class End:
    """A generator or a sink."""

    def __init__(self, crew: Crew, binary: Path, directory: Path, words: Sequence[str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / "end.log"
        self.words = words
        self.crew = crew
        self.program: Program = crew.start([str(binary), *words], log=self.log, typed=True)

    @property
    def pid(self) -> int:
        """The process ID."""
        return self.program.pid

    def said(self, timeout_s: float = BEGIN_S) -> str:
        """The next line that it says."""
        try:
            line = self.program.line(timeout_s)
        except queue.Empty:
            line = None
        if line is None:
            raise self._failed()
        return line

    def order(self, *words: int) -> Callable[[], dict[str, float]]:
        """Orders something; what it answers, to be asked for."""
        try:
            self.program.type(" ".join(str(word) for word in words))
        except OSError:
            raise self._failed() from None
        return lambda: json.loads(self.said(ORDER_S))

    def _failed(self) -> NodeFailed:
        words = self.log.read_text(errors="replace").strip()[-500:]
        return NodeFailed(f"stream {self.words[0]}: {words or 'silent'}")

    def cpu_seconds(self) -> float:
        """Processor time so far, user and system."""
        return process_cpu_seconds(self.pid)

    def end(self) -> None:
        """Ends the process, in whatever state it is."""
        if self.program.running():
            self.program.kill()
            self.crew.dismiss(self.program)


def end_of(crew: Crew, binary: Path, directory: Path, ends: ExitStack, words: Sequence[str]) -> End:
    """A generator or a sink that runs as long as the measurement."""
    end = End(crew, binary, directory, words)
    ends.callback(end.end)
    return end
