"""Runs the test modules of this directory and ends with one line of counts.

    python3 -m tests.run [MODULE…]

Most tests start programs, and the machine may be busy with others. So a test that failed runs once more when all the rest has ended.
If it passes then it is unsteady: its failure stays printed and it is counted. More failures than UNSTEADY_AT_MOST are not tried again.
"""

import importlib
import sys
import time
import unittest

MODULES = [
    "house", "readme", "python_libraries", "book", "two_nodes", "python", "python_examples", "recording", "contacts", "durable", "reload", "shares", "store_file", "stores", "wire", "older", "udp", "ltp", "ltp_files", "ltp_hops", "stcp", "bibe", "external", "clients", "kill", "hostile", "memory", "full_disk",
    "limits", "discovery", "folders", "ferry", "stream", "tunnel", "channel", "traffic", "lab", "load", "measurement", "simulation", "pages", "node_page", "lab_page", "top", "instructions", "figures",
]

# Modules that a machine of its own takes, and that run where they are named (make test-full).
APART = ["package", "book_made", "monitoring", "telemetry"]

UNSTEADY_AT_MOST = 2


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
        """One test's line; a detail follows indented."""
        seconds = time.monotonic() - self.started
        print(f"{word:<5} {sentence(test)} ({seconds:.1f} s)", flush=True)
        for row in detail.rstrip().splitlines():
            print(f"      {row}")

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


def main(arguments: list[str]) -> int:
    """Runs the named modules, or all; returns the exit code."""
    unknown = [name for name in arguments if name not in MODULES + APART]
    if unknown:
        print(f"unknown module {unknown[0]}; known are {', '.join(MODULES + APART)}", file=sys.stderr)
        return 2
    loader = unittest.TestLoader()
    talk = Talk()
    for name in arguments or MODULES:
        loader.loadTestsFromModule(importlib.import_module(f"tests.{name}")).run(talk)
    failed, unsteady = once_more(talk)
    print(f"{talk.passed} passed, {failed} failed, {len(talk.skipped)} skipped" + (f", {unsteady} unsteady" if unsteady else ""))
    return 1 if failed else 0


def once_more(talk: Talk) -> tuple[int, int]:
    """Runs what failed a second time, if that is little; returns how many tests failed, and how many did so only the first time."""
    whole = [getattr(test, "test_case", test) for test, _ in talk.failures + talk.errors]
    failed = {test.id(): test for test in whole}
    if len(failed) > UNSTEADY_AT_MOST or not all(isinstance(test, unittest.TestCase) for test in failed.values()):
        return len(failed), 0
    unsteady = 0
    for test in failed.values():
        print("once more:")
        again = Talk()
        unittest.TestSuite([type(test)(test._testMethodName)]).run(again)
        talk.passed += again.passed
        unsteady += again.passed
    return len(failed) - unsteady, unsteady


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
