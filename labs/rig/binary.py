"""Where the `dhow` binary is."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def target_directory() -> Path:
    """Where cargo builds."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()


def dhow(profile: str) -> Path:
    """The binary of a profile (`debug`, `release`); DHOW_BIN overrides it. Exits when there is none."""
    path = Path(os.environ.get("DHOW_BIN", target_directory() / profile / "dhow")).resolve()
    if not path.is_file():
        flag = " --release" if profile == "release" else ""
        sys.exit(f"no dhow binary at {path}\nhint: cargo build{flag} -p dhow")
    return path
