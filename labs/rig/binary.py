"""The path of the `dhow` binary."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def target_directory() -> Path:
    """The directory in which cargo builds."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()


def dhow(profile: str) -> Path:
    """The binary of a profile (`debug`, `demo`, `release`, `symbols`); DHOW_BIN overrides it. Exits when there is none."""
    return built("dhow", profile, "dhow", "DHOW_BIN")


def yardstick() -> Path:
    """The yardstick's binary, release; YARDSTICK_BIN overrides it. Exits when there is none."""
    return built("yardstick", "release", "dhow-yardstick", "YARDSTICK_BIN")


def stream() -> Path:
    """The binary of a stream's two ends, release; STREAM_BIN overrides it. Exits when there is none."""
    return built("stream", "release", "dhow-stream", "STREAM_BIN")


def has(feature: str, program: Path) -> bool:
    """Whether a program was built with a feature (docs/installation.md)."""
    told = subprocess.run([program, "version", "--json"], capture_output=True, check=True, timeout=60)
    return feature in json.loads(told.stdout)["features"]


def built(name: str, profile: str, package: str, variable: str) -> Path:
    """The path of a program that cargo built; exits when it is not there."""
    path = Path(os.environ.get(variable, target_directory() / profile / name)).resolve()
    if not path.is_file():
        flag = {"debug": "", "release": " --release"}.get(profile, f" --profile {profile}")
        sys.exit(f"no {name} binary at {path}\nhint: cargo build{flag} -p {package}")
    return path
