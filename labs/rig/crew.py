"""Child processes that are always reaped: what a lab starts is gone when the lab is."""

import contextlib
import queue
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

# Seconds that a program may take to end after SIGTERM before it is killed.
END_TIMEOUT_S = 10.0


# Ends a child when the lab dies without a chance to do it itself (util-linux).
DIE_WITH_LAB = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def end_on_sigterm() -> None:
    """Lets SIGTERM end the lab as Ctrl-C does: through every clean-up."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


class Program:
    """A running program whose lines of output are read as they come."""

    def __init__(self, argv: Sequence[str], log: Path | None, namespace: str | None, typed: bool) -> None:
        if namespace:
            argv = ["ip", "netns", "exec", namespace, *argv]
        self.argv = [*DIE_WITH_LAB, *argv]
        self._log: IO[bytes] | int = log.open("ab") if log else subprocess.DEVNULL
        self.process = subprocess.Popen(
            self.argv,
            stdin=subprocess.PIPE if typed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C is for the lab, which then ends its programs in order
        )
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.decode(errors="replace").rstrip("\n"))
        self.lines.put(None)

    def line(self, timeout_s: float) -> str | None:
        """The next line of output; None at its end. Raises queue.Empty when none comes in time."""
        line = self.lines.get(timeout=timeout_s)
        if line is None:
            self.lines.put(None)
        return line

    def rest(self) -> list[str]:
        """The lines that have come and were not taken yet."""
        taken: list[str] = []
        with contextlib.suppress(queue.Empty):
            while (line := self.lines.get_nowait()) is not None:
                taken.append(line)
            self.lines.put(None)
        return taken

    def type(self, line: str) -> None:
        """Writes one line to the program's standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    @property
    def pid(self) -> int:
        """The process ID; `setpriv` and `ip netns exec` become the program, so it is the program's own."""
        return self.process.pid

    def running(self) -> bool:
        """Whether the program has not ended yet."""
        return self.process.poll() is None

    def wait(self, timeout_s: float) -> int:
        """The exit code, after all output has been read."""
        code = self.process.wait(timeout_s)
        self._reader.join(timeout_s)
        return code

    def kill(self) -> None:
        """Kills the program (SIGKILL), and reaps it."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; SIGKILL when that is not enough. Returns the exit code."""
        self.process.terminate()
        try:
            return self.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def close(self) -> None:
        """Ends the program in whatever state it is and lets go of its streams."""
        if self.running():
            self.kill()
        self._reader.join(END_TIMEOUT_S)
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        if not isinstance(self._log, int):
            self._log.close()


class Crew:
    """All programs that a lab started; leaving the context ends them, the last one first."""

    def __init__(self) -> None:
        self._programs: list[Program] = []

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every program, the last one first."""
        for program in reversed(self._programs):
            program.close()
        self._programs.clear()

    def start(
        self,
        argv: Sequence[str],
        *,
        log: Path | None = None,
        namespace: str | None = None,
        typed: bool = False,
    ) -> Program:
        """Starts a program; its standard error is appended to `log`."""
        program = Program(argv, log, namespace, typed)
        self._programs.append(program)
        return program

    def dismiss(self, program: Program) -> None:
        """Forgets a program that has ended."""
        program.close()
        self._programs.remove(program)
