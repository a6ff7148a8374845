"""The origin of the peers: their registries, into target/interop, pinned to versions."""

import os
import subprocess
import sys
from pathlib import Path

from labs.rig.binary import ROOT, target_directory
from labs.rig.terminal import say

DTN7_VERSION = "0.21.0"
UD3TN_VERSION = "0.15.2"
OML4PY_VERSION = "2.10.4"
PYTE_VERSION = "0.8.2"
HARDY_VERSION = "bpa 0.2.0, tcpclv4 0.4.0"


class NotInstalled(Exception):
    """A peer could not be installed; says why."""


def room() -> Path:
    """The directory of all peers; DHOW_INTEROP overrides it."""
    return Path(os.environ.get("DHOW_INTEROP", target_directory() / "interop")).resolve()


def _run(what: str, command: list[str], log: Path, **environment: str) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    say(f"installing {what} (log: {log})")
    with log.open("ab") as output:
        done = subprocess.run(
            command, stdout=output, stderr=output, env=os.environ | environment, check=False
        )
    if done.returncode != 0:
        last = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
        raise NotInstalled(f"{what} could not be installed:\n{last}")


def dtn7() -> Path:
    """The directory with dtnd, dtnsend and dtnrecv."""
    root = room() / "dtn7"
    if not (root / "bin" / "dtnd").exists():
        _run(f"dtn7-rs {DTN7_VERSION}, about 10 minutes",
             ["cargo", "install", "dtn7", "--version", DTN7_VERSION, "--locked", "--root", str(root)],
             room() / "dtn7.log", CARGO_TARGET_DIR=str(room() / "dtn7-build"))
    return root / "bin"


def hardy() -> Path:
    """The peer program on the Hardy libraries."""
    build = room() / "hardy-build"
    binary = build / "release" / "hardy-peer"
    source = ROOT / "labs" / "interop" / "hardy-peer"
    if not binary.exists() or binary.stat().st_mtime < (source / "src" / "main.rs").stat().st_mtime:
        _run(f"the Hardy peer ({HARDY_VERSION}), about 10 minutes",
             ["cargo", "build", "--release", "--locked", "--manifest-path", str(source / "Cargo.toml")],
             room() / "hardy.log", CARGO_TARGET_DIR=str(build))
    return binary


def ud3tn() -> Path:
    """The directory with aap2-send, aap2-receive and aap2-ping."""
    return _python("ud3tn", f"ud3tn-utils=={UD3TN_VERSION}", "bin/aap2-ping")


def oml4py() -> Path:
    """The directory with a `python` that has OML's client."""
    return _python("oml4py", f"oml4py=={OML4PY_VERSION}", "lib/python*/site-packages/oml4py.py")


def pyte() -> Path:
    """The directory with a `python` that has a terminal as a value."""
    return _python("pyte", f"pyte=={PYTE_VERSION}", "lib/python*/site-packages/pyte/__init__.py")


def _python(name: str, package: str, proof: str) -> Path:
    """The commands of a Python environment that has a package; `proof` is a file of it."""
    environment = room() / name
    if not any(environment.glob(proof)):
        log = room() / f"{name}.log"
        _run("a Python environment", [sys.executable, "-m", "venv", str(environment)], log)
        _run(package, [str(environment / "bin" / "pip"), "install", "--quiet", package], log)
    return environment / "bin"
