"""Counts with callgrind: the exercise `passage` of the node crate, one stage at a time."""

import os
import platform
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

from labs.rig.binary import ROOT, target_directory

STAGES = ["receive", "send", "relay", "api-send", "api-receive"]

# Enough that the sessions' beginnings do not count.
BUNDLES = 5_000
OCTETS = 1_000

# Functions of the exercise below which everything is the node's own, and nothing else.
COUNTED = "*counted_*"

# Seconds that one stage may take under callgrind; it takes about 5.
PATIENCE_S = 600.0


class CannotCount(Exception):
    """The exercise could not be built or run; says why."""


def tool_missing() -> str | None:
    """None when counting is possible; else why not."""
    return None if shutil.which("valgrind") else "no valgrind command"


def made_with() -> str:
    """The causes that shift the numbers beside the code: compiler, processor family, C library."""
    rustc = subprocess.run(["rustc", "--version"], cwd=ROOT, capture_output=True, text=True, check=True)
    libc = " ".join(platform.libc_ver())
    return f"{' '.join(rustc.stdout.split()[:2])}, {platform.machine()}, {libc}"


def build() -> Path:
    """The exercise as an optimised binary that has its symbols."""
    command = [os.environ.get("CARGO", "cargo"), "build", "--quiet", "--profile", "symbols", "--locked",
               "-p", "dhow-node", "--example", "passage"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotCount(f"cannot build the exercise:\n{done.stderr.strip()}")
    return target_directory() / "symbols" / "examples" / "passage"


def count(exercise: Path, stage: str, bundles: int, octets: int, profile: Path) -> int:
    """Instructions per bundle of one stage; callgrind's own record goes to `profile`."""
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", "--collect-atstart=no",
               f"--toggle-collect={COUNTED}", str(exercise), stage, str(bundles), str(octets)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        raise CannotCount(f"{stage} took longer than {PATIENCE_S:.0f} s") from None
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found or int(found[1]) == 0:
        raise CannotCount(f"cannot count {stage}:\n{done.stderr[-2_000:].strip()}")
    return round(int(found[1]) / bundles)


def hottest(profile: Path, bundles: int, lines: int) -> list[str]:
    """The functions that execute most, each with its own instructions per bundle."""
    command = ["callgrind_annotate", "--auto=no", "--threshold=100", str(profile)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotCount(f"cannot read {profile}: {done.stderr.strip()}")
    rows = re.findall(r"^ *([\d,]+) \([ \d.]+%\)  (\S.*)$", done.stdout, re.MULTILINE)
    own: Counter[str] = Counter()
    for instructions, function in rows:
        if function != "PROGRAM TOTALS":
            # File and object stand around the name; what was inlined from another file has a row of its own.
            name = re.sub(r"^\S*?:(?=\S)|( \[[^]]*\])$", "", function)
            own[name] += int(instructions.replace(",", ""))
    return [f"{instructions / bundles:>9,.0f}  {name}" for name, instructions in own.most_common(lines)]
