"""The rules that hold the house together: who may use whom, no std in the machines, files that a head can hold."""

import json
import os
import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Programs of this workspace that are no crates of the house, and the crates that they may use.
LABS: dict[str, set[str]] = {
    "dhow-stream": {"dhow-bundle", "dhow-link"},
    # A node is measured by it, so it shares nothing with one.
    "dhow-yardstick": set(),
}

# Crates that must not be able to read a clock, open a socket or touch a disk.
MACHINES = ["dhow-bundle", "dhow-link", "dhow-node", "dhow-channel"]

# Registry crates that bring clocks, sockets or threads, and the crates that may use them.
DRIVERS_ONLY = {"tokio", "rustls", "tokio-rustls", "axum", "hyper", "rustix", "mio", "nix", "socket2"}
DRIVERS = {"dhow-daemon", "dhow-client", "dhow-store", "dhow-measure", "dhow-testbed", "dhow", "dhow-stream", "dhow-yardstick"}

# The Rust sources of this repository.
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


def allowed() -> dict[str, set[str]]:
    """Each crate and the crates that it may use: the table of ARCHITECTURE.md, where a crate uses only those above it."""
    table: dict[str, set[str]] = {}
    for row in re.findall(r"^\| `crates/(\w+)` \|[^|]*\| ([^|]*) \|[^|]*\|$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE):
        name, uses = row[0], row[1].strip()
        above = set(table)
        used = above if uses == "all" else {f"dhow-{word.strip()}" for word in uses.split(",") if word.strip() != "–"}
        if not used <= above:
            raise AssertionError(f"{name} uses what does not stand above it: {used - above}")
        table["dhow" if name == "cli" else f"dhow-{name}"] = set(used)
    if len(table) < 10:
        raise AssertionError(f"the table of crates in ARCHITECTURE.md cannot be read: {sorted(table)}")
    return table | LABS


def production_lines(path: Path) -> int:
    """Lines of a Rust file before its test module."""
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        if line.strip() == "#[cfg(test)]" and any("mod " in later for later in lines[number + 1:number + 4]):
            return number
    return len(lines)


def node_calls() -> dict[str, set[str]]:
    """Each file with methods of `Node`, and those whose methods they call."""
    source = ROOT / "crates/node/src"
    bodies: dict[str, tuple[str, str]] = {}
    for path in sorted(source.rglob("*.rs")):
        for block in re.findall(r"^impl Node \{\n(.*?)^\}", path.read_text(), re.MULTILINE | re.DOTALL):
            for name, body in re.findall(r"^    (?:pub(?:\(crate\))? )?(?:const )?fn (\w+)(.*?)^    \}", block, re.MULTILINE | re.DOTALL):
                bodies[name] = (str(path.relative_to(source)), body)
    calls: dict[str, set[str]] = {}
    for file, body in bodies.values():
        named = set(re.findall(r"\bself\s*\.\s*(\w+)\s*\(|\bSelf::(\w+)\(", body))
        called = {bodies[name][0] for pair in named for name in pair if name in bodies}
        calls.setdefault(file, set()).update(called - {file})
    return calls


class House(unittest.TestCase):
    """Holds the sources against the table of rooms."""

    def test_every_crate_stands_in_the_table_of_rooms(self) -> None:
        names = {package["name"] for package in metadata()["packages"]}
        self.assertEqual(names, set(allowed()), "crates, and rows of the table in ARCHITECTURE.md")

    def test_crates_use_only_the_crates_allowed_to_them(self) -> None:
        table = allowed()
        for package in metadata()["packages"]:
            used = {
                dependency["name"]
                for dependency in package["dependencies"]
                if dependency["name"].startswith("dhow") and dependency["kind"] in (None, "build")
            }
            with self.subTest(package["name"]):
                self.assertEqual(used - table.get(package["name"], set()), set())

    def test_machines_use_no_driver_libraries(self) -> None:
        for package in metadata()["packages"]:
            if package["name"] in DRIVERS:
                continue
            used = {d["name"] for d in package["dependencies"] if d["kind"] in (None, "build")}
            with self.subTest(package["name"]):
                self.assertEqual(used & DRIVERS_ONLY, set())

    def test_files_of_the_node_call_each_other_in_one_direction(self) -> None:
        left = node_calls()
        self.assertGreater(len(left), 30, "files with methods of Node")
        while lowest := {file for file, called in left.items() if not called & set(left)}:
            left = {file: called for file, called in left.items() if file not in lowest}
        self.assertEqual({file: called & set(left) for file, called in left.items()}, {}, "files whose methods call each other in a circle")

    def test_fields_of_the_values_of_a_node_are_private(self) -> None:
        for value in ["held", "forwarding", "adjacencies", "delivery"]:
            text = (ROOT / f"crates/node/src/{value}/mod.rs").read_text()
            found = re.search(rf"^pub\(crate\) struct {value.capitalize()} \{{\n(.*?)^\}}", text, re.MULTILINE | re.DOTALL)
            self.assertIsNotNone(found, value)
            with self.subTest(value):
                self.assertEqual(re.findall(r"^    pub.*", found.group(1), re.MULTILINE), [])

    def test_files_that_the_architecture_names_are_there(self) -> None:
        names = set(re.findall(r"`([\w/]+\.(?:rs|py|toml|md))`", (ROOT / "ARCHITECTURE.md").read_text()))
        self.assertGreater(len(names), 50)
        there = [f"/{path.relative_to(ROOT)}" for pattern in ["crates/**/*", "labs/**/*", "docs/*", "tests/*", "python/**/*"] for path in ROOT.glob(pattern)]
        lost = {name for name in names if not any(path.endswith(f"/{name}") for path in there)}
        self.assertEqual(lost, set(), "files that are not there")

    def test_paths_in_documents_are_there(self) -> None:
        documents = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")]
        documents += [path for directory in ("docs", "labs") for path in (ROOT / directory).rglob("*.md")]
        named = {path for document in documents for path in re.findall(r"`((?:crates|docs|labs|python|tests)/[a-z0-9_./-]+)`", document.read_text())}
        self.assertGreater(len(named), 50)
        self.assertEqual({path for path in named if not (ROOT / path).exists()}, set(), "paths of nothing")

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

    def test_comments_begin_with_their_subject(self) -> None:
        comment = re.compile(r"(?:^[ \t]*//[/!].*\n?)+", re.MULTILINE)
        relative = re.compile(r"(?:^|[.:!?] )((?:What|Whatever|Who|Whoever|Whom|Whose|Where|How|Which) .*?(?:[.!?](?= |$)|$))")
        found = [
            f"{path.relative_to(ROOT)}: {sentence}"
            for path in sorted(ROOT.glob("crates/**/*.rs"))
            for block in comment.findall(path.read_text())
            for paragraph in re.sub(r"^[ \t]*//[/!] ?", "", block, flags=re.MULTILINE).split("\n\n")
            for sentence in relative.findall(" ".join(paragraph.split()))
            if not sentence.endswith("?")
        ]
        self.assertEqual(found, [], "sentences of doc comments that begin with a relative clause")

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
