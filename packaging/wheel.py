"""Makes a Python wheel of a program that is built: the binary and the package of python/, by maturin and pyproject.toml.

    python3 -m packaging.wheel [--binary target/symbols/dhow] [--out target/packages] [--maturin PROGRAM]

`pip install .` builds the program, too. This takes one that is there, since the Debian packages have the same.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The program that stands in cargo's place for maturin: the binary is built already.
BUILT = '''#!{python}
import json, os, subprocess, sys
if not {{"rustc", "build"}} & set(sys.argv[1:3]):
    os.execv({cargo!r}, ["cargo", *sys.argv[1:]])
print({told!r})
print(json.dumps({{"reason": "build-finished", "success": True}}))
'''


def artifact(cargo: str, binary: Path) -> str:
    """The messages of cargo about a binary that it has built (`--message-format json`)."""
    command = [cargo, "metadata", "--format-version", "1", "--no-deps", "--locked"]
    told = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    package = next(it for it in json.loads(told)["packages"] if it["name"] == "dhow")
    profile = {"opt_level": "3", "debuginfo": 0, "debug_assertions": False, "overflow_checks": False, "test": False}
    return json.dumps({
        "reason": "compiler-artifact", "package_id": package["id"], "manifest_path": package["manifest_path"],
        "target": next(it for it in package["targets"] if it["kind"] == ["bin"]), "profile": profile, "features": [],
        "filenames": [str(binary)], "executable": str(binary), "fresh": True,
    })


def make(binary: Path, out: Path, maturin: str) -> Path:
    """The wheel of a binary; its symbols stay behind. Raises CalledProcessError."""
    cargo = shutil.which("cargo") or sys.exit("no cargo\nhint: install Rust from https://rustup.rs")
    with tempfile.TemporaryDirectory(prefix="dhow-wheel-") as directory:
        place = Path(directory)
        stripped = place / "dhow"
        subprocess.run(["strip", "-o", str(stripped), str(binary)], check=True)
        built = place / "cargo"
        built.write_text(BUILT.format(python=sys.executable, cargo=cargo, told=artifact(cargo, stripped)))
        built.chmod(0o755)
        command = [maturin, "build", "--profile", "dev", "--locked", "--out", str(place / "out")]
        environment = os.environ | {"CARGO": str(built), "CARGO_TARGET_DIR": str(place / "target")}
        subprocess.run(command, cwd=ROOT, check=True, env=environment, stdout=subprocess.DEVNULL)
        wheel = next((place / "out").glob("*.whl"))
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(wheel, out / wheel.name))


def installed() -> str:
    """The path of maturin: the one of this machine, or one of its own below target/. Raises CalledProcessError."""
    if found := shutil.which("maturin"):
        return found
    place = ROOT / "target" / "maturin"
    program = place / "bin" / "maturin"
    if not program.is_file():
        print(f"installing maturin with pip into {place}", file=sys.stderr)
        for command in ([sys.executable, "-m", "venv", str(place)], [str(place / "bin" / "pip"), "install", "--quiet", "maturin"]):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return str(program)


def main() -> None:
    """Makes the wheel and says where it is."""
    parser = argparse.ArgumentParser(prog="python3 -m packaging.wheel", description="Make a Python wheel of a program that is built.")
    parser.add_argument("--binary", type=Path, default=ROOT / "target" / "symbols" / "dhow", help="the program")
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "packages", help="the directory of the wheel")
    parser.add_argument("--maturin", help="maturin, which makes it; without it that of this machine, or one that is installed with pip")
    arguments = parser.parse_args()
    if not arguments.binary.is_file():
        sys.exit(f"no program at {arguments.binary}\nhint: cargo build --profile symbols -p dhow")
    if arguments.maturin and not shutil.which(arguments.maturin):
        sys.exit(f"no {arguments.maturin}\nhint: leave --maturin out, and it is installed")
    try:
        print(make(arguments.binary.resolve(), arguments.out, arguments.maturin or installed()))
    except subprocess.CalledProcessError as error:
        sys.exit(f"cannot make the wheel: {error.cmd[0]} ended with {error.returncode}")


if __name__ == "__main__":
    main()
