"""Instructions per bundle of a node's own code, stage by stage, beside the reviewed numbers.

    python3 -m labs.instructions [STAGE…] [--accept] [--top N]

Counted is what the node's machines execute (sessions, forwarder, codecs, checksums) between the octets that come
in and those that go out; sockets, disks and clocks are not there. The counts of one build are the same every time.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from labs.instructions import count, expected
from labs.rig.crew import end_on_sigterm
from labs.rig.terminal import Bar, say, table

ACCEPT = "python3 -m labs.instructions --accept"


def verdict(measured: int, reviewed: int | None, allowance: float) -> str:
    """The verdict on one stage: `more` fails, `less` may be accepted. `more` fails, `less` may be accepted."""
    if reviewed is None:
        return "new"
    if measured > reviewed * (1 + allowance):
        return "more"
    return "less" if measured < reviewed * (1 - allowance) else "same"


def measure(stages: list[str], bundles: int, octets: int, top: int) -> dict[str, int]:
    """Counts the stages."""
    exercise = count.build()
    counts: dict[str, int] = {}
    bar = Bar(len(stages), "stages")
    with tempfile.TemporaryDirectory(prefix="dhow-instructions-") as directory:
        for number, stage in enumerate(stages):
            bar.show(number, 0, stage)
            profile = Path(directory) / stage
            counts[stage] = count.count(exercise, stage, bundles, octets, profile)
            if top:
                bar.clear()
                say(f"{stage}: {counts[stage]:,} instructions per bundle, of which in")
                for line in count.hottest(profile, bundles, top):
                    say(line)
    bar.clear()
    return counts


def main() -> int:
    """Counts, prints, compares; 1 when a stage executes more than was reviewed."""
    parser = argparse.ArgumentParser(prog="make instructions", description=__doc__.split("\n")[0])
    parser.add_argument("stage", nargs="*", help=f"one of {', '.join(count.STAGES)}; all without")
    parser.add_argument("--accept", action="store_true", help="the counted numbers become the reviewed ones")
    parser.add_argument("--top", type=int, default=0, metavar="N", help="show the N functions that execute most")
    parser.add_argument("--bundles", type=int, default=count.BUNDLES)
    parser.add_argument("--octets", type=int, default=count.OCTETS, help="of payload; only 1000 is compared")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if unknown := [stage for stage in options.stage if stage not in count.STAGES]:
        parser.error(f"no stage is named '{unknown[0]}'; known are {', '.join(count.STAGES)}")
    end_on_sigterm()
    if reason := count.tool_missing():
        say(f"skipped: {reason}\nhint: labs/setup test installs it")
        return 0
    try:
        counts = measure(options.stage or count.STAGES, options.bundles, options.octets, options.top)
    except count.CannotCount as error:
        say(str(error))
        return 1
    known = expected.read()
    made_with = count.made_with()
    compared = options.octets == count.OCTETS and options.bundles == count.BUNDLES
    verdicts = {
        stage: verdict(counted, known.stages.get(stage), known.allowance(made_with)) if compared else "not compared"
        for stage, counted in counts.items()
    }
    if options.json:
        rows = [{"stage": stage, "instructions_per_bundle": counted, "reviewed": known.stages.get(stage),
                 "verdict": verdicts[stage]} for stage, counted in counts.items()]
        print(json.dumps({"octets": options.octets, "made_with": made_with, "rows": rows}))
    else:
        print(table(["stage", "instructions per bundle", "reviewed", "change", ""], [
            [stage, f"{counted:,}", f"{known.stages.get(stage, 0):,}",
             f"{100 * (counted / known.stages[stage] - 1):+.1f} %" if stage in known.stages else "–", verdicts[stage]]
            for stage, counted in counts.items()]))
        print(f"bundles of {options.octets} octets; {made_with}")
    if options.accept and compared:
        known.stages |= counts
        known.made_with = made_with
        expected.write(known, count.OCTETS)
        say(f"written to {expected.PATH.name}: commit it with the change that made it so")
        return 0
    if "more" in verdicts.values():
        say(f"a node executes more for a bundle than was reviewed\nhint: make it less, or accept it: {ACCEPT}")
        return 1
    if "less" in verdicts.values():
        say(f"a node executes less than was reviewed; keep it so: {ACCEPT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
