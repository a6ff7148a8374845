"""The rules that hold the house together: who may use whom, no std in the machines, files that a head can hold."""

import json
import os
import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Each crate and the crates of this workspace that it may use (ARCHITECTURE.md, the table of rooms).
ALLOWED: dict[str, set[str]] = {
    "dhow-bundle": set(),
    "dhow-link": {"dhow-bundle"},
    "dhow-node": {"dhow-bundle", "dhow-link"},
    "dhow-store": {"dhow-bundle"},
    "dhow-channel": {"dhow-bundle"},
    "dhow-client": {"dhow-bundle", "dhow-link", "dhow-node"},
    "dhow-page": set(),
    "dhow-document": {"dhow-bundle"},
    "dhow-measure": set(),
    "dhow-daemon": {
        "dhow-bundle",
        "dhow-client",
        "dhow-document",
        "dhow-link",
        "dhow-measure",
        "dhow-node",
        "dhow-store",
    },
    "dhow-scenario": {"dhow-bundle", "dhow-document", "dhow-channel"},
    "dhow-sim": {"dhow-bundle", "dhow-link", "dhow-node", "dhow-store", "dhow-channel", "dhow-scenario", "dhow-page"},
    "dhow-testbed": {
        "dhow-bundle",
        "dhow-channel",
        "dhow-client",
        "dhow-measure",
        "dhow-page",
        "dhow-scenario",
        "dhow-sim",
    },
    "dhow": {
        "dhow-bundle",
        "dhow-link",
        "dhow-node",
        "dhow-store",
        "dhow-client",
        "dhow-daemon",
        "dhow-measure",
        "dhow-channel",
        "dhow-scenario",
        "dhow-sim",
        "dhow-testbed",
    },
    "dhow-stream": {"dhow-bundle", "dhow-link"},
    # A node is measured by it, so it shares nothing with one.
    "dhow-yardstick": set(),
}

# Crates that must not be able to read a clock, open a socket or touch a disk.
MACHINES = ["dhow-bundle", "dhow-link", "dhow-node", "dhow-channel"]

# Registry crates that bring clocks, sockets or threads, and the crates that may use them.
DRIVERS_ONLY = {"tokio", "rustls", "tokio-rustls", "axum", "hyper", "rustix", "mio", "nix", "socket2"}
DRIVERS = {"dhow-daemon", "dhow-client", "dhow-store", "dhow-measure", "dhow-testbed", "dhow", "dhow-stream", "dhow-yardstick"}

# Where Rust lies that is ours.
SOURCES = ["crates/*/src/**/*.rs", "labs/*/src/**/*.rs"]

# Production lines of a file: about 400 is the aim; past this it can wait no longer to be split along a noun.
MAX_PRODUCTION_LINES = 700

# A system that has no std at all (crc-fast does not build without std on x86_64).
NO_STD_TARGET = "aarch64-unknown-none"


def metadata() -> dict:
    """The workspace as cargo describes it, without its registry dependencies."""
    text = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout
    return json.loads(text)


def production_lines(path: Path) -> int:
    """Lines of a Rust file before its test module."""
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        if line.strip() == "#[cfg(test)]" and any("mod " in later for later in lines[number + 1:number + 4]):
            return number
    return len(lines)


class House(unittest.TestCase):
    """Holds the sources against the table of rooms."""

    def test_every_crate_stands_in_the_table_of_rooms(self) -> None:
        names = {package["name"] for package in metadata()["packages"]}
        self.assertEqual(names - set(ALLOWED), set(), "crates without a row in tests/house.py")

    def test_crates_use_only_the_crates_allowed_to_them(self) -> None:
        for package in metadata()["packages"]:
            used = {
                dependency["name"]
                for dependency in package["dependencies"]
                if dependency["name"].startswith("dhow") and dependency["kind"] in (None, "build")
            }
            with self.subTest(package["name"]):
                self.assertEqual(used - ALLOWED.get(package["name"], set()), set())

    def test_machines_use_no_driver_libraries(self) -> None:
        for package in metadata()["packages"]:
            if package["name"] in DRIVERS:
                continue
            used = {d["name"] for d in package["dependencies"] if d["kind"] in (None, "build")}
            with self.subTest(package["name"]):
                self.assertEqual(used & DRIVERS_ONLY, set())

    def test_machines_declare_no_std(self) -> None:
        for package in metadata()["packages"]:
            if package["name"] not in MACHINES:
                continue
            door = Path(package["manifest_path"]).parent / "src" / "lib.rs"
            with self.subTest(package["name"]):
                self.assertRegex(door.read_text(), re.compile(r"^#!\[no_std\]$", re.MULTILINE))

    def test_machines_compile_where_there_is_no_std(self) -> None:
        installed = subprocess.run(
            ["rustc", "--print", "target-libdir", "--target", NO_STD_TARGET],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )
        if installed.returncode != 0 or not Path(installed.stdout.strip()).is_dir():
            self.skipTest(f"the Rust target {NO_STD_TARGET} is not installed")
        command = ["cargo", "check", "--quiet", "--locked", "--target", NO_STD_TARGET]
        command += ["--no-default-features", "--features", "dhow-bundle/bare"]
        for name in MACHINES:
            command += ["-p", name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_no_file_is_longer_than_a_head_can_hold(self) -> None:
        long = {
            str(path.relative_to(ROOT)): production_lines(path)
            for pattern in SOURCES
            for path in ROOT.glob(pattern)
            if "tests" not in (path.parent.name, path.stem) and production_lines(path) > MAX_PRODUCTION_LINES
        }
        self.assertEqual(long, {}, "production lines")

    def test_nothing_is_left_undone(self) -> None:
        marks = re.compile(r"\b(todo!|unimplemented!|TODO|FIXME|XXX)")
        found = [
            f"{path.relative_to(ROOT)}:{number}"
            for pattern in ["crates/**/*.rs", "labs/*/**/*.rs"]
            for path in ROOT.glob(pattern)
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if marks.search(line)
        ]
        self.assertEqual(found, [])


if __name__ == "__main__":
    os.chdir(ROOT)
    unittest.main()
