"""One requirement, shown: figures, yardstick, machine, and whether it is met.

    python3 -m labs.cases NAME [--quick] [--json]      make case NAME=…
"""

import argparse
import importlib
import json
import sys
import tempfile
from pathlib import Path

from labs.cases.case import Outcome, Skipped, workplace
from labs.rig.crew import end_on_sigterm
from labs.rig.hosts import HostsFailed
from labs.rig.machine import machine
from labs.rig.node import NodeFailed
from labs.rig.terminal import say, table

# Each case and its module; the first line of the module says what it shows.
CASES = {
    "long-path": "long_path",
    "big": "big",
    "hundred-runs": "hundred_runs",
    "million-stored": "million_stored",
    "small-device": "small_device",
    "contact-start": "contact_start",
    "contact-sides": "contact_sides",
    "cut-through": "cut_through",
    "resume": "resume",
    "threads": "threads",
    "receipts": "receipts",
    "strangers": "strangers",
    "full-store": "full_store",
}


def arguments(words: list[str]) -> argparse.Namespace:
    """The command line."""
    lines = [f"  {name:<16} {described(name)}" for name in CASES]
    parser = argparse.ArgumentParser(
        prog="python3 -m labs.cases", description="\n".join(["one requirement each:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="NAME", help=f"one of {', '.join(CASES)}")
    parser.add_argument("--quick", action="store_true", help="less of it, in seconds; the figures say less")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="where the stores lie")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(words)
    if options.name not in CASES:
        parser.error(f"no case is named '{options.name}'; known are {', '.join(CASES)}")
    return options


def described(name: str) -> str:
    """The subject of a case, in a line."""
    module = importlib.import_module(f"labs.cases.{CASES[name]}")
    return (module.__doc__ or "").split("\n")[0]


def show(name: str, outcome: Outcome, options: argparse.Namespace) -> None:
    """The figures on standard output."""
    verdict = "met" if outcome.met else "missed"
    if options.json:
        print(json.dumps({
            "case": name, "requirement": outcome.requirement, "verdict": verdict, "quick": options.quick,
            "figures": outcome.figures, "machine": machine()}))
        return
    print(table(outcome.head, outcome.rows))
    for note in outcome.notes:
        print(note)
    print(f"{verdict}: {outcome.requirement}")
    command = f"python3 -m labs.cases {name}" + (" --quick" if options.quick else "")
    print(f"machine: {machine()}; command: {command}")


def main(words: list[str]) -> int:
    """Shows one case: 0 when its requirement is met or the machine cannot show it, 1 when it is missed."""
    options = arguments(words)
    end_on_sigterm()
    module = importlib.import_module(f"labs.cases.{CASES[options.name]}")
    try:
        with workplace(options.name, options) as place:
            outcome = module.measure(place)
    except Skipped as reason:
        if options.json:
            print(json.dumps({"case": options.name, "verdict": "skipped", "reason": str(reason)}))
        else:
            print(f"skipped: {reason}")
        return 0
    except (NodeFailed, HostsFailed) as failure:
        say(f"cannot show {options.name}: {failure}")
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    show(options.name, outcome, options)
    return 0 if outcome.met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
