"""Libraries of Python from pip, in environments of their own under target/python; without a registry what needs them is skipped."""

import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from labs.rig.binary import target_directory

# An installation takes no longer than this, seconds.
PATIENCE_S = 300


def environment(name: str, libraries: list[str]) -> Path:
    """The Python of the environment of a name, with all these libraries. Raises SkipTest."""
    place = target_directory() / "python" / name
    python = place / "bin" / "python"
    done = place / "installed"
    if done.exists() and done.read_text() == " ".join(libraries):
        return python
    shutil.rmtree(place, ignore_errors=True)
    for words in ([sys.executable, "-m", "venv", str(place)], [str(python), "-m", "pip", "install", "--quiet", *libraries]):
        made = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        if made.returncode != 0:
            raise unittest.SkipTest(f"the libraries could not be installed: {made.stderr.strip().splitlines()[-1:]}")
    done.write_text(" ".join(libraries))
    return python


def use(name: str, libraries: list[str]) -> None:
    """Lets this process import the libraries. Raises SkipTest."""
    python = environment(name, libraries)
    for place in sorted(python.parent.parent.glob("lib/python*/site-packages")):
        if str(place) not in sys.path:
            sys.path.append(str(place))
