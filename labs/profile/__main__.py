"""The processor time of each daemon by function in one case of the bench, and the cost of a bundle there.

    make profile ARGS='relay --size 10kB --top 30'
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from labs.bench.plan import SIZES
from labs.bench.sample import Kind, size_name, size_of
from labs.bench.workshop import Workshop
from labs.profile.record import CannotRecord, Recording, perf_missing
from labs.profile.scene import CASES, scene
from labs.rig.binary import ROOT, dhow, stream
from labs.rig.crew import Crew, end_on_sigterm
from labs.rig.machine import machine
from labs.rig.node import NodeFailed
from labs.rig.terminal import say, table

# The directory of perf's own files, for questions beyond the report.
KEPT = ROOT / "target" / "profile"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make profile", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("case", nargs="?", choices=CASES, default=CASES[0], help=f"default {CASES[0]}")
    parser.add_argument(
        "--size", type=size_of, default=1_000, metavar="SIZE", help="such as 100B 2kB 1MB (default 1kB)")
    parser.add_argument("--count", type=int, help="bundles (default: as in the bench)")
    parser.add_argument("--durability", choices=["sync", "contact", "os", "memory"], default="sync")
    parser.add_argument("--flush-delay", type=int, default=0, metavar="MS", help="added to every flush")
    parser.add_argument("--threads", type=int, default=1, help="of each node (default 1)")
    parser.add_argument("--top", type=int, default=15, metavar="N", help="functions shown (default 15)")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="where the stores lie")
    return parser.parse_args()


def costs(recording: Recording, bundles: int) -> str:
    """The totals of one process, and what of them falls on a bundle."""
    counted = recording.counted()
    parts = [f"{counted.get('task-clock', 0.0) / bundles * 1e3:.2f} µs of processor time a bundle"]
    if "cycles" in counted:
        parts.append(f"{counted['cycles'] / bundles:,.0f} cycles")
    if "instructions" in counted:
        parts.append(f"{counted['instructions'] / bundles:,.0f} instructions")
    parts.append(f"{counted.get('context-switches', 0.0):,.0f} context switches")
    parts.append(f"{counted.get('page-faults', 0.0):,.0f} page faults")
    return f"{recording.name}: {', '.join(parts)}"


def shown(recording: Recording, top: int) -> str:
    """The functions in which most samples fell."""
    rows = [[name[:90], place, f"{share:.1f} %"] for share, place, name in recording.hottest(top)]
    return table(["function", "in", "own time"], rows)


def profile(options: argparse.Namespace, room: Path) -> None:
    """Makes ready, records, prints."""
    kind = Kind(options.case, options.size, options.durability, options.flush_delay, options.threads)
    bundles = options.count or SIZES.get(options.size, max(1, 1_600_000_000 // max(options.size, 1)))
    binary = dhow("symbols")
    KEPT.mkdir(parents=True, exist_ok=True)
    for old in KEPT.iterdir():
        old.unlink()
    with Crew() as crew, scene(Workshop(crew, binary, Path(), stream(), room), kind, bundles) as ready:
        say(f"{options.case}: {bundles:,} bundles of {size_name(options.size)}, {kind.terms}")
        recordings: list[Recording] = []
        try:
            for name, pid in ready.pids.items():
                recordings.append(Recording(name, pid, KEPT))
            seconds = ready.act()
        finally:
            for recording in recordings:
                recording.close()
    print(f"{bundles / seconds:,.0f} bundles/s under perf; machine: {machine()}")
    for recording in recordings:
        print(f"\n{costs(recording, bundles)}\n{shown(recording, options.top)}")
    say(f"kept: {KEPT.relative_to(ROOT)}/*.perf for perf report and perf annotate")


def main() -> int:
    """Returns 1 when it cannot be measured, 130 when interrupted."""
    options = arguments()
    end_on_sigterm()
    room = Path(tempfile.mkdtemp(prefix="dhow-profile-", dir=options.dir))
    try:
        if missing := perf_missing():
            raise CannotRecord(missing)
        profile(options, room)
    except (CannotRecord, NodeFailed) as error:
        say(f"cannot profile: {error}")
        return 1
    except KeyboardInterrupt:
        say("\ninterrupted")
        return 130
    finally:
        shutil.rmtree(room, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
