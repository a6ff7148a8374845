"""The book: its chapters and links, and the commands of its five paths, run as they stand there.

A block marked `sh` of a path is run, all of a page in one shell, in an empty directory. A block marked `text` right behind it is
what it prints: numbers, times, sizes and lengths of lines may differ, `…` stands for anything within a line, and a line of `…` alone for any
lines. A block marked with a language and a file's name is written to that file first. A block marked `console` needs a machine of
its own and is not run; that its commands and options exist is compared with the program and the Makefile. A block marked `rust` with a file of
the repository has lines of it, in their order. `sh namespaces` and `sh pandas` say what a block needs; where that is
missing, the rest of the page is run and the test says *skipped*.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from dataclasses import dataclass, field
from pathlib import Path

from labs.rig.binary import ROOT, dhow, target_directory
from labs.rig.node import free_port
from packaging.book import REFERENCE, anchors, chapters, command_pages, lay_out, links
from tests.run import APART, MODULES

PATHS = ROOT / "docs" / "paths"

# A path takes some seconds; this is only there to end what hangs.
PATIENCE_S = 300

# A path is read in ten minutes: about 150 words a minute with its commands.
MOST_WORDS = 1_500

# Values that differ from one run to the next: times and their units, sizes, numbers.
QUANTITY = re.compile(r"[+-]?\d[\d.,:]*(?: ?(?:ns|µs|us|ms|s|min|h|d|B|kB|MB|GB|KiB|MiB|GiB|[kMG]?bit)(?:/s)?\b)?")

BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Step:
    """A block of commands, and what it is shown to print."""

    commands: str
    needs: str = ""
    shown: str | None = None


@dataclass
class Walk:
    """A page of commands."""

    files: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    unrun: list[str] = field(default_factory=list)


def read(page: str) -> Walk:
    """The blocks of a page."""
    path = Walk()
    for mark, body in BLOCK.findall((PATHS / page).read_text(encoding="utf-8")):
        language, _, file = mark.partition(" ")
        if language == "rust":
            assert_excerpt(body, ROOT / file)
        elif language == "sh":
            path.steps.append(Step(body, file))
        elif file:
            path.files[file] = body
        elif language == "console":
            path.unrun += body.splitlines()
        elif language == "text" and path.steps and path.steps[-1].shown is None:
            path.steps[-1].shown = body
        else:
            raise AssertionError(f"{page}: a block is marked {mark!r}, and nobody would check it")
    return path


def assert_excerpt(excerpt: str, file: Path) -> None:
    """All lines but `…` are lines of the file, in their order."""
    lines = iter(file.read_text(encoding="utf-8").splitlines())
    for line in excerpt.splitlines():
        if line.strip() != "…" and line not in lines:
            raise AssertionError(f"{file} has no such line there: {line}")


def shape(line: str) -> str:
    """A line without what differs from run to run."""
    return " ".join(re.sub(r"[─━-]{2,}", "-", QUANTITY.sub("N", line)).split())


def matches(shown: str, said: str) -> bool:
    """Whether a line of the book is this line."""
    pattern = ".*".join(re.escape(part) for part in shape(shown).split("…"))
    return re.fullmatch(pattern, shape(said)) is not None


def difference(shown: str, said: str) -> str | None:
    """The first line that is not as the book shows it; None where all are."""
    expected, lines = shown.rstrip("\n").splitlines(), said.rstrip("\n").splitlines()
    at, any_lines = 0, False
    for line in expected:
        if line.strip() == "…":
            any_lines = True
            continue
        while any_lines and at < len(lines) and not matches(line, lines[at]):
            at += 1
        if at == len(lines) or not matches(line, lines[at]):
            return f"the book shows {line!r}, and it said {lines[at] if at < len(lines) else 'nothing more'!r}"
        at, any_lines = at + 1, False
    return None if any_lines or at == len(lines) else f"it said {lines[at]!r} too"


def python_with_pandas() -> Path | None:
    """A Python that has pandas: this one, or that of tests/python_libraries.py where it has been made."""
    for python in (Path(sys.executable), target_directory() / "python" / "environment" / "bin" / "python"):
        if python.is_file() and subprocess.run([python, "-c", "import pandas"], capture_output=True, timeout=PATIENCE_S, check=False).returncode == 0:
            return python
    return None


def may_make_namespaces() -> bool:
    """Whether this user may run nodes in network namespaces as a lab does."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "--net", "true"], capture_output=True, timeout=PATIENCE_S, check=False).returncode == 0


class Runs(unittest.TestCase):
    """The paths, as a reader copies them into a shell."""

    def environment(self, directory: Path) -> dict[str, str]:
        """The environment of a reader's shell: the program, and the package of Python."""
        return os.environ | {
            "PATH": f"{dhow('debug').parent}:{(python_with_pandas() or Path(sys.executable)).parent}:{os.environ['PATH']}", "DHOW": str(ROOT), "PYTHONPATH": str(ROOT / "python"),
            "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(directory), "XDG_RUNTIME_DIR": str(directory), "COLUMNS": "100", "NO_COLOR": "1",
            "CARGO_HOME": os.environ.get("CARGO_HOME", str(Path.home() / ".cargo")),
            "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup")),
        }

    def missing(self, needs: str) -> str | None:
        """Why a block cannot be run here."""
        if needs == "namespaces" and not may_make_namespaces():
            return "network namespaces need root"
        return "no pandas" if needs == "pandas" and python_with_pandas() is None else None

    def walk(self, page: str) -> Path:
        """Runs a page's commands, compares what they print, and returns the directory that they ran in."""
        directory = Path(tempfile.mkdtemp(prefix="dhow-book-"))
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        path = read(page)
        unable = {step.needs: why for step in path.steps if (why := self.missing(step.needs))}
        path.steps = [step for step in path.steps if step.needs not in unable]
        ports: dict[str, str] = {}

        def moved(text: str) -> str:
            return re.sub(r"127\.0\.0\.1:(\d+)", lambda it: f"127.0.0.1:{ports.setdefault(it[1], str(free_port()))}", text)

        for name, text in path.files.items():
            (directory / name).write_text(moved(text), encoding="utf-8")
        script = "\n".join(f"{moved(step.commands)}\nprintf '\\n@@step {number}\\n'" for number, step in enumerate(path.steps))
        opening = "exec 2>&1\ntrap 'code=$?; kill $(jobs -p) 2>/dev/null || true; wait; exit $code' EXIT\n"
        shell = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", opening + script], cwd=directory, env=self.environment(directory), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )
        try:
            said, _ = shell.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            said, _ = shell.communicate()
            self.fail(f"the commands of {page} did not end:\n{said[-4000:]}")
        self.assertEqual(shell.returncode, 0, f"{page}:\n{said}")
        parts = re.split(r"\n?@@step \d+\n", said)
        for step, part in zip(path.steps, parts):
            if step.shown is not None:
                wrong = difference(step.shown, part)
                self.assertIsNone(wrong, f"{page}, of\n{step.commands}\n{wrong}; all of it:\n{part}")
        if unable:
            self.skipTest(f"a part of {page}: {', '.join(unable.values())}")
        return directory

    def test_a_village_hears_from_town(self) -> None:
        directory = self.walk("village.md")
        self.assertEqual(next((directory / "received").iterdir()).read_text(), (directory / "letter.txt").read_text())

    def test_a_command_overtakes_an_image_in_a_planned_pass(self) -> None:
        directory = self.walk("mission.md")
        self.assertEqual(sorted(path.stat().st_size for path in (directory / "received").iterdir()), [10, 300_000])
        self.assertTrue((directory / "mars" / "report.html").is_file())

    def test_a_question_is_answered_in_virtual_time_and_on_real_nodes(self) -> None:
        directory = self.walk("evaluation.md")
        for report in ("results", "both"):
            self.assertIn("lossy radio", (directory / report / "report.html").read_text(encoding="utf-8"))

    def test_an_application_keeps_what_a_node_that_is_killed_had_accepted(self) -> None:
        directory = self.walk("application.md")
        self.assertEqual((directory / "copy").read_text(), "".join(f"{number}\n" for number in range(1, 1001)))

    def test_a_change_is_tested_in_seconds(self) -> None:
        self.walk("change.md")

    def test_a_path_names_only_files_that_are_there(self) -> None:
        text = re.sub(r"PROTOCOL", "stcp", (PATHS / "change.md").read_text(encoding="utf-8"))
        named = set(re.findall(r"`((?:crates|tests|labs|docs|fuzz)/[\w./-]+)`", text))
        self.assertGreater(len(named), 20)
        # STCP has its states in session.rs: of state.rs there is one where a standard has a diagram.
        self.assertEqual({name for name in named if not (ROOT / name).exists()}, {"crates/link/src/stcp/state.rs"})


class Chapters(unittest.TestCase):
    """The pages and what they link to."""

    def test_every_page_of_the_documents_is_a_chapter_or_linked_from_one(self) -> None:
        files = [page.file for page in chapters() if page.file]
        self.assertEqual(len(files), len(set(files)), "chapters that are there twice")
        reached = set(files) | {Path("docs/SUMMARY.md"), Path("docs/book.toml")}
        for file in files:
            beside = (ROOT / file).parent
            for address in links((ROOT / file).read_text(encoding="utf-8")):
                reached.add((beside / address.partition("#")[0]).resolve().relative_to(ROOT))
        there = {path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        self.assertEqual(there - reached, set(), "files of docs/ that no chapter leads to")

    def test_links_within_the_book_lead_somewhere(self) -> None:
        with tempfile.TemporaryDirectory(prefix="dhow-book-") as directory:
            source = lay_out(Path(directory), dhow("debug"))
            pages = {path: path.read_text(encoding="utf-8") for path in source.rglob("*.md")}
            listed = {(source / address).resolve() for address in re.findall(r"\]\(([^)]+)\)", pages[source / "SUMMARY.md"])}
            wrong = [f"{path.relative_to(source)} is no chapter" for path in pages if path.name != "SUMMARY.md" and path.resolve() not in listed]
            for path, text in pages.items():
                for address in links(text):
                    file, _, anchor = address.partition("#")
                    target = (path.parent / file).resolve() if file else path
                    if not target.is_file():
                        wrong.append(f"{path.relative_to(source)}: no file {address}")
                    elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8")):
                        wrong.append(f"{path.relative_to(source)}: no heading {address}")
        self.assertEqual(wrong, [])

    def test_every_command_and_key_is_on_a_page_of_reference(self) -> None:
        pages = command_pages(dhow("debug"))
        for words in (["node", "run"], ["bundle", "decode"], ["sim", "import", "the-one"]):
            self.assertIn(f"# dhow {' '.join(words)}\n", pages[f"dhow-{words[0]}.md"][1])
        with tempfile.TemporaryDirectory(prefix="dhow-book-") as directory:
            source = lay_out(Path(directory), dhow("debug"))
            for file, keys in {"node-file.md": ["answers_per_second", "backoff_max"], "scenario-file.md": ["overflight", "expects_all"]}.items():
                text = (source / REFERENCE / file).read_text(encoding="utf-8")
                for key in keys:
                    self.assertIn(f"| `{key}` |", text)

    def test_a_path_is_read_in_ten_minutes(self) -> None:
        for page in sorted(PATHS.glob("*.md")):
            with self.subTest(page.name):
                self.assertLessEqual(len(page.read_text(encoding="utf-8").split()), MOST_WORDS)

    def test_commands_that_are_not_run_exist(self) -> None:
        for page in sorted(PATHS.glob("*.md")):
            for line in read(page.name).unrun:
                with self.subTest(f"{page.name}: {line}"):
                    self.exists(line)

    def exists(self, line: str) -> None:
        """That a command of Dhow or a target of the Makefile is there, with its options."""
        words = shlex.split(line, comments=True)
        while words and words[0] in ("sudo", "nice") or words and "=" in words[0]:
            words = words[1:]
        if words[:2] == ["python3", "-m"]:
            self.assertLessEqual(set(words[3:]), set(MODULES + APART), words[2])
        elif words[:1] == ["make"]:
            dry = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(dry.returncode, 0, dry.stderr)
        elif words[:1] == ["dhow"]:
            named: list[str] = []
            for word in words[1:]:
                if word.startswith("-") or subprocess.run(
                        [dhow("debug"), *named, word, "--help"], capture_output=True, timeout=60, check=False).returncode != 0:
                    break
                named.append(word)
            self.assertNotEqual(named, [], "no such command")
            said = subprocess.run([dhow("debug"), *named, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
            for option in (word for word in words if word.startswith("--")):
                self.assertIn(option.partition("=")[0], said)
