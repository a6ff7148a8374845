"""Runs the test modules of this directory and ends with one line of counts.

    python3 -m tests.run [MODULE…]

Most tests start programs and wait for them, so without names three lanes of modules run side by side, and lines of all come as their tests end.
The machine may be busy with others, too. So a test that failed runs once more when all the rest has ended.
If it passes then it is unsteady: its failure stays printed and it is counted. More failures than UNSTEADY_AT_MOST are not tried again.
"""

import importlib
import sys
import time
import unittest
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

# Three lanes run side by side: what measures rates goes one after another, last, beside what mostly waits for nodes, and the rest.
RATES = [
    "hostile", "memory", "full_disk", "limits", "stream", "tunnel", "lab_page", "channel", "traffic", "load", "lab",
]
NODES = [
    "udp", "ltp", "ltp_files", "ltp_hops", "encapsulation", "contacts", "durable", "kill", "discovery", "folders", "ferry", "two_nodes", "reload", "shares",
    "store_file", "stores", "wire", "older", "stcp", "bibe", "external", "recording", "python", "python_examples", "clients", "measurement", "node_page", "top",
]
REST = [
    "house", "readme", "instructions", "python_libraries", "book", "simulation", "pages", "figures",
]
MODULES = RATES + NODES + REST

# Modules that a machine of its own takes, and that run where they are named (make test-full).
APART = ["package", "book_made", "monitoring", "telemetry"]

UNSTEADY_AT_MOST = 5


class Talk(unittest.TestResult):
    """Prints one line a test: its sentence, how long it took, and what went wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0
        self.started = 0.0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.started = time.monotonic()

    def line(self, word: str, test: unittest.TestCase, detail: str = "") -> None:
        """One test's line; a detail follows indented. All in one write, since another lane writes, too."""
        seconds = time.monotonic() - self.started
        rows = [f"{word:<5} {sentence(test)} ({seconds:.1f} s)", *(f"      {row}" for row in detail.rstrip().splitlines())]
        print("\n".join(rows) + "\n", end="", flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.passed += 1
        self.line("ok", test)

    def addFailure(self, test: unittest.TestCase, err) -> None:
        super().addFailure(test, err)
        self.line("FAIL", test, self.failures[-1][1])

    def addError(self, test: unittest.TestCase, err) -> None:
        super().addError(test, err)
        self.line("FAIL", test, self.errors[-1][1])

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            kind = self.failures if issubclass(err[0], test.failureException) else self.errors
            self.line("FAIL", test, f"{subtest}\n{kind[-1][1]}")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.line("skip", test, reason)


def sentence(test: unittest.TestCase) -> str:
    """The name of a test as it is read: module, then its sentence."""
    module, _, name = test.id().removeprefix("tests.").partition(".")
    return f"{module}: {name.rpartition('.')[2].removeprefix('test_').replace('_', ' ')}"


@dataclass
class Tally:
    """The outcome of tests of some modules."""

    passed: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)


def run(names: list[str]) -> Tally:
    """Runs modules one after another."""
    talk = Talk()
    for name in names:
        unittest.TestLoader().loadTestsFromModule(importlib.import_module(f"tests.{name}")).run(talk)
    failed = dict.fromkeys(getattr(test, "test_case", test).id() for test, _ in talk.failures + talk.errors)
    return Tally(talk.passed, len(talk.skipped), list(failed))


def main(arguments: list[str]) -> int:
    """Runs the named modules, or all; returns the exit code."""
    unknown = [name for name in arguments if name not in MODULES + APART]
    if unknown:
        print(f"unknown module {unknown[0]}; known are {', '.join(MODULES + APART)}", file=sys.stderr)
        return 2
    lanes = [arguments] if arguments else [RATES, NODES, REST]
    with ProcessPoolExecutor(len(lanes)) as processes:
        tallies = list(processes.map(run, lanes))
    failed = [name for tally in tallies for name in tally.failed]
    unsteady = once_more(failed)
    counts = f"{sum(tally.passed for tally in tallies) + unsteady} passed, {len(failed) - unsteady} failed, {sum(tally.skipped for tally in tallies)} skipped"
    print(counts + (f", {unsteady} unsteady" if unsteady else ""))
    return 1 if len(failed) > unsteady else 0


def once_more(failed: list[str]) -> int:
    """Runs what failed a second time, if that is little; returns how many tests failed only the first time."""
    if len(failed) > UNSTEADY_AT_MOST or not all(name.startswith("tests.") for name in failed):
        return 0
    unsteady = 0
    for name in failed:
        print("once more:")
        again = Talk()
        unittest.TestLoader().loadTestsFromName(name).run(again)
        unsteady += again.passed
    return unsteady


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
