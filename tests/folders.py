"""A folder kept in step over two nodes, with a link that is cut and programs that are killed; hostile payloads; a full disk.

    python3 -m tests.folders [--files 10000] [--seed N] [--profile release]

prints how many files came in a second, then changes, cuts and kills as the test does, and compares both trees.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from labs.rig.binary import dhow
from labs.rig.crew import Crew, Program, end_on_sigterm
from labs.rig.node import Link, Node, Settings, free_port
from tests.udp import until
from tests.workplace import Workplace

ENDPOINT = "ipn:2.60"

# A step of a test takes no longer than this, seconds; a machine that is busy with something else included.
PATIENCE_S = 60.0

# An outbox that sends what there is, without waiting for anything.
AT_ONCE = ["--once", "--settle", "0s", "--interval", "10ms"]

# Sizes: (share of the files, smallest, largest) in octets.
SIZES = [(0.05, 0, 0), (0.80, 1, 20_000), (0.14, 20_000, 300_000), (0.01, 4_000_000, 5_000_000)]

# Changes of a folder in a storm, and how often each is made.
ACTIONS = {"write": 5, "change": 6, "rename": 4, "permit": 2, "remove": 3, "exchange": 1}


def tree(folder: Path) -> dict[str, tuple[int, int, int, str]]:
    """Each file by its path: size, modification time, permissions, SHA-256."""
    found = {}
    for directory, names, files in os.walk(folder):
        names[:] = [name for name in names if name not in (".dhow-inbox", ".dhow-outbox")]
        for name in files:
            path = Path(directory, name)
            stat = path.lstat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(folder))] = (stat.st_size, stat.st_mtime_ns, stat.st_mode & 0o7777, digest)
    return found


def outline(folder: Path) -> dict[str, tuple[int, int, int]]:
    """The same without looking into the files; what goes meanwhile is left out."""
    found = {}
    for directory, names, files in os.walk(folder):
        names[:] = [name for name in names if name not in (".dhow-inbox", ".dhow-outbox")]
        for name in files:
            try:
                stat = Path(directory, name).lstat()
            except FileNotFoundError:
                continue
            path = os.path.relpath(os.path.join(directory, name), folder)
            found[path] = (stat.st_size, stat.st_mtime_ns, stat.st_mode & 0o7777)
    return found


class Gardener:
    """Changes a folder at random."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.folder = folder
        self.dice = dice
        self.made = 0

    def new_path(self) -> Path:
        """A path that nothing has yet, and that leads through no file."""
        self.made += 1
        while True:
            deep = self.dice.choices(["", "letters", "letters/2026", "ünïcode dir/a/b"], [4, 3, 2, 1])[0]
            path = self.folder / deep / f"{self.made:05} {self.dice.choice(['note.txt', 'photo', '-rf', 'ä'])}"
            if not any(above.is_file() for above in path.parents):
                return path

    def some_file(self) -> Path | None:
        """A file that is there."""
        files = sorted(self.folder / path for path in outline(self.folder))
        return self.dice.choice(files) if files else None

    def write(self, path: Path | None = None) -> None:
        """A new file, or new octets of one."""
        path = path or self.new_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        [(_, smallest, largest)] = self.dice.choices(SIZES, weights=[share for share, _, _ in SIZES])
        if path.exists() and not os.access(path, os.W_OK):
            path.chmod(0o644)
        path.write_bytes(self.dice.randbytes(self.dice.randint(smallest, largest)))

    def act(self) -> None:
        """Makes one change."""
        action = self.dice.choices(list(ACTIONS), weights=list(ACTIONS.values()))[0]
        path = self.some_file()
        if path is None or action == "write":
            self.write()
        elif action == "change":
            self.write(path)
        elif action == "rename":
            to = self.new_path()
            to.parent.mkdir(parents=True, exist_ok=True)
            path.rename(to)
        elif action == "permit":
            path.chmod(self.dice.choice([0o600, 0o640, 0o644, 0o755, 0o444]))
            os.utime(path, ns=(0, self.dice.randrange(10**18, 18 * 10**17)))
        elif action == "remove":
            path.unlink()
        else:
            self.exchange(path)

    def exchange(self, path: Path) -> None:
        """A file where a directory was, or a directory where a file was."""
        if path.parent != self.folder and self.dice.random() < 0.5:
            shutil.rmtree(path.parent)
            self.write(path.parent)
        else:
            path.unlink()
            self.write(path / "inner")


class Pair:
    """An outbox at one node and an inbox at the other."""

    def __init__(self, crew: Crew, sender: Node, receiver: Node, directory: Path) -> None:
        self.crew = crew
        self.sender = sender
        self.receiver = receiver
        self.origin = directory / "origin"
        self.mirror = directory / "mirror"
        self.origin.mkdir()
        self.outbox: Program | None = None
        self.inbox: Program | None = None

    def send(self, *words: str) -> Program:
        """Starts the outbox."""
        self.outbox = self.sender.begin(
            "outbox", str(self.origin), ENDPOINT, "--interval", "100ms", "--settle", "200ms", "--json", *words)
        return self.outbox

    def receive(self, *words: str) -> Program:
        """Starts the inbox."""
        self.inbox = self.receiver.begin("inbox", ENDPOINT, str(self.mirror), "--json", *words)
        return self.inbox

    def kill(self, program: Program) -> None:
        """SIGKILL."""
        program.kill()
        self.crew.dismiss(program)

    def until_equal(self, patience_s: float = PATIENCE_S) -> float:
        """Waits until both trees look alike; how long that took."""
        begun = time.monotonic()
        while (origin := outline(self.origin)) != (mirror := outline(self.mirror)):
            if time.monotonic() - begun > patience_s:
                differing = sorted(
                    path for path in origin.keys() | mirror.keys() if origin.get(path) != mirror.get(path))
                raise AssertionError(
                    f"{len(differing)} files differ: " + ", ".join(
                        f"{path}: {origin.get(path)} and {mirror.get(path)}" for path in differing[:5]))
            time.sleep(0.1)
        return time.monotonic() - begun

    def storm(self, dice: random.Random, rounds: int, gardener: Gardener) -> None:
        """Changes the folder while the link is cut and both commands and both nodes are killed."""
        disasters = ["link", "outbox", "inbox", "receiver", "sender"] * -(-rounds // 5)
        dice.shuffle(disasters)
        for disaster in disasters[:rounds]:
            for _ in range(dice.randint(3, 12)):
                gardener.act()
                time.sleep(dice.random() * 0.02)
            time.sleep(dice.random() * 0.4)
            assert self.outbox and self.inbox
            if disaster == "link":
                self.sender.link_down("receiver")
                gardener.act()
                time.sleep(dice.random() * 0.3)
                self.sender.link_up("receiver")
            elif disaster == "outbox":
                self.kill(self.outbox)
                gardener.act()
                self.send("--delete", "--quiet")
            elif disaster == "inbox":
                self.kill(self.inbox)
                self.receive("--quiet")
            else:
                node = self.receiver if disaster == "receiver" else self.sender
                node.kill()
                time.sleep(dice.random() * 0.1)
                node.start()


def text(value: str) -> bytes:
    """A CBOR text string."""
    octets = value.encode()
    return head(3, len(octets)) + octets


def head(major: int, value: int) -> bytes:
    """The head of a CBOR item in its shortest form."""
    if value < 24:
        return bytes([major << 5 | value])
    for additional, octets in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if value < 1 << 8 * octets:
            return bytes([major << 5 | additional]) + value.to_bytes(octets, "big")
    raise ValueError(value)


def payload(path: str, content: bytes, sequence: int, *, mode: int = 0o644, digest: bytes | None = None,
            size: int | None = None) -> bytes:
    """A file as an outbox sends it, but for what is wrong with it."""
    digest = digest or hashlib.sha256(content).digest()
    items = [text("dhow-folder"), head(0, 1), head(0, 0), head(2, 16) + bytes(16), head(0, sequence), text(path),
             head(0, len(content) if size is None else size), head(0, 1_700_000_000), head(0, 5), head(0, mode),
             head(2, 32) + digest]
    return head(4, len(items)) + b"".join(items) + content


def removal(path: str, sequence: int) -> bytes:
    """A file that is gone, as an outbox tells of it."""
    items = [text("dhow-folder"), head(0, 1), head(0, 1), head(2, 16) + bytes(16), head(0, sequence), text(path)]
    return head(4, len(items)) + b"".join(items)


class Folders(Workplace):
    """A sender with an outbox, a receiver with an inbox."""

    def setUp(self) -> None:
        super().setUp()
        self.start()
        self.pair = Pair(self.crew, self.sender, self.receiver, self.directory)

    def events(self, program: Program, count: int) -> list[tuple[str, str]]:
        """The next changes that a command tells of, sorted."""
        lines = [json.loads(program.line(PATIENCE_S) or "null") for _ in range(count)]
        return sorted((line["event"], line["path"]) for line in lines)

    def give(self, octets: bytes, *words: str) -> None:
        """A bundle with any payload for the inbox."""
        path = self.directory / "payload"
        path.write_bytes(octets)
        sent = self.sender.run("send", ENDPOINT, str(path), *words)
        self.assertEqual(sent.returncode, 0, sent.stderr)

    def until(self, what: Callable[[], bool]) -> None:
        """Waits until something holds."""
        end = time.monotonic() + PATIENCE_S
        while not what():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_files_come_as_they_are_with_changes_names_and_removals(self) -> None:
        pair = self.pair
        (pair.origin / "a" / "b").mkdir(parents=True)
        (pair.origin / "a" / "b" / "first").write_bytes(b"1" * 5000)
        (pair.origin / "empty").touch()
        (pair.origin / "link").symlink_to("/etc/passwd")
        os.utime(pair.origin / "empty", ns=(0, 1_234_567_890_123_456_789))
        (pair.origin / "empty").chmod(0o4750)
        outbox, inbox = pair.send("--delete"), pair.receive()
        self.assertEqual(self.events(outbox, 2), [("sent", "a/b/first"), ("sent", "empty")])
        self.assertEqual(self.events(inbox, 2), [("received", "a/b/first"), ("received", "empty")])
        there = (pair.mirror / "empty").stat()
        self.assertEqual((there.st_mtime_ns, there.st_mode & 0o7777), (1_234_567_890_123_456_789, 0o750))
        (pair.origin / "a" / "b" / "first").rename(pair.origin / "second")
        (pair.origin / "empty").write_bytes(b"no more")
        self.assertEqual(self.events(inbox, 3), [("received", "empty"), ("received", "second"), ("removed", "a/b/first")])
        self.assertEqual(sorted(path.name for path in pair.mirror.iterdir()), [".dhow-inbox", "empty", "second"])
        # The time of its last change is another, and nothing else: no octet of it has to cross again.
        os.link(pair.origin / "second", self.directory / "second name")
        (pair.origin / "third").touch()
        self.assertEqual(self.events(inbox, 1), [("received", "third")])
        self.assertEqual((outbox.stop(), inbox.stop()), (130, 130))
        said = (self.sender.directory / "commands.log").read_text()
        self.assertIn("link is not sent: it is a symbolic link", said)
        # Nothing is sent that was sent.
        again = self.sender.run("outbox", str(pair.origin), ENDPOINT, "--once", "--settle", "0s", "--json")
        self.assertEqual((again.returncode, again.stdout), (0, ""), again.stderr)

    def test_once_ends_when_all_is_sent_and_count_when_all_has_come(self) -> None:
        pair = self.pair
        for number in range(20):
            (pair.origin / f"{number}").write_bytes(bytes([number]) * number * 1000)
        sent = self.sender.run("outbox", str(pair.origin), ENDPOINT, "--once", "--settle", "0s", "--json")
        self.assertEqual(sent.returncode, 0, sent.stderr)
        self.assertEqual(len(sent.stdout.splitlines()), 20)
        came = self.receiver.run("inbox", ENDPOINT, str(pair.mirror), "--count", "20", "--timeout", "20s", "--json")
        self.assertEqual(came.returncode, 0, came.stderr)
        self.assertEqual(tree(pair.origin), {path: it for path, it in tree(pair.mirror).items()})
        more = self.receiver.run("inbox", ENDPOINT, str(pair.mirror), "--count", "1", "--timeout", "200ms")
        self.assertEqual(more.returncode, 1)
        self.assertIn("nothing came for 200 ms", more.stderr)

    def test_a_second_outbox_or_inbox_of_a_folder_is_refused(self) -> None:
        pair = self.pair
        (pair.origin / "x").touch()
        self.assertEqual(self.events(pair.send(), 1), [("sent", "x")])
        self.assertEqual(self.events(pair.receive(), 1), [("received", "x")])
        for done in (
            self.sender.run("outbox", str(pair.origin), ENDPOINT, "--once"),
            self.receiver.run("inbox", "ipn:2.61", str(pair.mirror)),
        ):
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("another process has it", done.stderr)

    def test_hostile_payloads_are_refused_and_kept_and_others_come(self) -> None:
        pair = self.pair
        outside = self.directory / "outside"
        outside.mkdir()
        pair.mirror.mkdir()
        (pair.mirror / "link").symlink_to(outside)
        (pair.mirror / "mine").write_bytes(b"mine")
        inbox = pair.receive("--from", "ipn:1.*")
        hostile = [
            (b"no header", "format"),
            (b"", "format"),
            (payload("/etc/cron.d/x", b"x", 1), "path"),
            (payload("../outside/x", b"x", 2), "path"),
            (payload("a/../../outside/x", b"x", 3), "path"),
            (payload("a//x", b"x", 4), "path"),
            (payload("a\0x", b"x", 5), "path"),
            (payload("a\x1b[2Jx", b"x", 6), "path"),
            (payload(".dhow-inbox/state.db", b"x", 7), "path"),
            (payload("n" * 256, b"x", 8), "path"),
            (payload("link/x", b"x", 9), "place"),
            (payload("link", b"x", 10), "place"),
            (payload("mine/x", b"x", 11), "place"),
            (payload("short", b"xy", 12, size=3), "size"),
            (payload("long", b"xy", 13, size=1), "size"),
            (payload("damaged", b"x", 14, digest=bytes(32)), "digest"),
        ]
        for number, (octets, reason) in enumerate(hostile):
            self.give(octets)
            line = json.loads(inbox.line(PATIENCE_S) or "null")
            self.assertEqual((line["event"], line["reason"]), ("refused", reason), (octets[:60], line))
            self.assertEqual(len(list((pair.mirror / ".dhow-inbox" / "refused").iterdir())), number + 1)
            self.assertTrue(Path(line["kept"]).is_file())
        self.give(payload("good/file", b"good", 20, mode=0o6755))
        self.assertEqual(self.events(inbox, 1), [("received", "good/file")])
        self.assertEqual((pair.mirror / "good" / "file").stat().st_mode & 0o7777, 0o755)
        # A stranger, at the receiving node itself.
        (self.directory / "payload").write_bytes(payload("mine", b"x", 30))
        self.receiver.run("send", ENDPOINT, str(self.directory / "payload"))
        line = json.loads(inbox.line(PATIENCE_S) or "null")
        self.assertEqual((line["reason"], line["kept"]), ("source", None))
        self.assertEqual(list(outside.iterdir()), [])
        self.assertEqual((pair.mirror / "mine").read_bytes(), b"mine")
        self.assertEqual(inbox.stop(), 130)
        until(self, lambda: self.receiver.show("status")["store"]["bundles"] == 0)

    def test_a_full_disk_loses_nothing(self) -> None:
        pair = self.pair
        self.mount(pair.mirror, "mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs")
        (pair.origin / "large").write_bytes(os.urandom(5_000_000))
        (pair.origin / "small").write_bytes(b"small")
        pair.send()
        inbox = pair.receive()
        # A file for which there is room comes meanwhile.
        self.assertEqual(self.events(inbox, 1), [("received", "small")])
        log = self.receiver.directory / "commands.log"
        self.until(lambda: "cannot write large: No space left on device" in log.read_text())
        self.assertEqual(list((pair.mirror / ".dhow-inbox" / "incoming").iterdir()), [])
        subprocess.run(["mount", "-o", "remount,size=40m", str(pair.mirror)], check=True, timeout=60)
        self.assertEqual(self.events(inbox, 1), [("received", "large")])
        self.assertEqual(tree(pair.origin), tree(pair.mirror))
        self.assertEqual(inbox.stop(), 130)

    def test_files_that_cannot_be_written_wait_and_others_come(self) -> None:
        pair = self.pair
        closed = pair.mirror / "closed"
        closed.mkdir(parents=True)
        (closed / "old").write_bytes(b"old")
        if not self.close(closed):
            self.skipTest("no directory can be closed to this user")
        # As many as the node delivers before one of them is confirmed.
        for number in range(4):
            self.give(payload(f"closed/{number}", b"late", number + 1))
        self.give(payload("open/x", b"x", 9))
        inbox = pair.receive("--count", "4")
        self.assertEqual(self.events(inbox, 1), [("received", "open/x")])
        log = (self.receiver.directory / "commands.log").read_text()
        self.assertIn("cannot write closed/0: ", log)
        self.assertEqual(log.count("cannot write"), 1, log)
        until(self, lambda: self.receiver.show("status")["store"]["bundles"] == 0)
        # They wait in the folder, also for another run.
        pair.kill(inbox)
        self.give(payload("closed/0", b"later", 10))
        inbox = pair.receive("--count", "4")
        until(self, lambda: self.receiver.show("status")["store"]["bundles"] == 0)
        self.open(closed)
        self.assertEqual(self.events(inbox, 4), [("received", f"closed/{number}") for number in range(4)])
        self.assertEqual((closed / "0").read_bytes(), b"later")
        self.assertEqual(list((pair.mirror / ".dhow-inbox" / "waiting").iterdir()), [])

    def close(self, directory: Path) -> bool:
        """Lets nobody write into a directory, also not root; false where that is not possible."""
        if os.geteuid() != 0:
            directory.chmod(0o555)
            return True
        self.addCleanup(self.open, directory)
        done = subprocess.run(["chattr", "+i", str(directory)], capture_output=True, check=False, timeout=60)
        return done.returncode == 0

    def open(self, directory: Path) -> None:
        """Lets its owner write into a directory again."""
        if os.geteuid() != 0:
            directory.chmod(0o755)
        else:
            subprocess.run(["chattr", "-i", str(directory)], capture_output=True, check=False, timeout=60)

    def mount(self, directory: Path, *words: str) -> None:
        """Mounts a file system until the test ends, or skips the test."""
        directory.mkdir(exist_ok=True)
        try:
            done = subprocess.run([*words, str(directory)], capture_output=True, text=True, timeout=60, check=False)
        except FileNotFoundError:
            self.skipTest(f"there is no {words[0]}")
        if done.returncode != 0:
            self.skipTest(f"no file system can be mounted: {done.stderr.strip()}")
        self.addCleanup(
            lambda: subprocess.run(["umount", "-l", str(directory)], capture_output=True, check=False, timeout=60))

    def test_a_folder_that_is_not_mounted_is_not_one_of_which_all_is_gone(self) -> None:
        pair = self.pair
        state = self.directory / "state"
        self.mount(pair.origin, "mount", "-t", "tmpfs", "tmpfs")
        (pair.origin / "x").write_bytes(b"x")
        words = ["outbox", str(pair.origin), ENDPOINT, "--delete", "--state", str(state), *AT_ONCE]
        self.assertEqual(self.sender.run(*words).stdout, "sent x, 1 B\n")
        subprocess.run(["umount", str(pair.origin)], check=True, timeout=60)
        again = self.sender.run(*words)
        self.assertEqual((again.returncode, again.stdout), (1, ""), again.stderr)
        self.assertIn("is of another folder", again.stderr)
        self.assertIn("--new-folder", again.stderr)
        self.assertEqual(list(pair.origin.iterdir()), [], "nothing is written there")
        # Its own record is not there either then, and another one has nothing to tell of.
        own = self.sender.run(*[word for word in words if word not in ("--state", str(state))])
        self.assertEqual((own.returncode, own.stdout), (0, ""), own.stderr)
        meant = self.sender.run(*words, "--new-folder")
        self.assertEqual((meant.returncode, meant.stdout), (0, "removed x\n"), meant.stderr)
        self.assertEqual(self.sender.run(*words).returncode, 0)

    def test_an_inbox_ends_when_its_folder_is_another_one(self) -> None:
        pair = self.pair
        for number, change in enumerate(("mounted", "moved")):
            inbox = pair.receive()
            self.give(payload(change, b"x", number))
            self.assertEqual(self.events(inbox, 1), [("received", change)])
            if change == "mounted":
                self.mount(pair.mirror, "mount", "-t", "tmpfs", "tmpfs")
            else:
                pair.mirror.rename(self.directory / "moved")
            self.assertEqual(inbox.process.wait(PATIENCE_S), 1)
            self.crew.dismiss(inbox)
            if change == "mounted":
                subprocess.run(["umount", str(pair.mirror)], check=True, timeout=60)
        log = (self.receiver.directory / "commands.log").read_text()
        self.assertIn("is another directory than at the start", log)
        self.assertIn("cannot be opened any more", log)

    def test_no_file_is_lost_where_upper_case_is_not_told_from_lower_case(self) -> None:
        pair = self.pair
        image = self.directory / "image"
        image.touch()
        os.truncate(image, 8 << 20)
        try:
            for words in (["mkfs.exfat", str(image)], ["losetup", "--find", "--show", str(image)]):
                done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            self.skipTest(f"no exFAT can be made: {error}")
        device = done.stdout.strip()
        self.addCleanup(lambda: subprocess.run(["losetup", "--detach", device], check=False, timeout=60))
        self.mount(pair.mirror, "mount.exfat-fuse", device)
        inbox = pair.receive()
        self.give(payload("Dir/Report", b"1", 1))
        self.give(payload("dir/Report", b"2", 2))
        self.give(payload("Dir/report", b"3", 3))
        self.give(payload("Dir/a:b", b"4", 4))
        self.give(payload("Dir/more", b"5", 5))
        lines = [json.loads(inbox.line(PATIENCE_S) or "null") for _ in range(5)]
        self.assertEqual([(line["event"], line.get("reason")) for line in lines],
                         [("received", None), *[("refused", "place")] * 3, ("received", None)])
        self.assertIn("takes Dir/report for Dir/Report", lines[2]["detail"])
        self.assertIn("does not take its name", lines[3]["detail"])
        # The other name goes late.
        self.assertTrue(Path(lines[2]["kept"]).is_file())
        self.give(removal("Dir/Report", 2))
        self.assertEqual(self.events(inbox, 2), [("received", "Dir/report"), ("removed", "Dir/Report")])
        self.assertEqual((pair.mirror / "Dir" / "report").read_bytes(), b"3")
        self.assertEqual(inbox.stop(), 130)
        # A name of another case, of which the old one is gone, is there in the end.
        (pair.origin / "Name").write_bytes(b"name")
        words = ["outbox", str(pair.origin), ENDPOINT, "--delete", *AT_ONCE]
        self.assertEqual(self.sender.run(*words).returncode, 0)
        (pair.origin / "Name").rename(pair.origin / "name")
        self.assertEqual(self.sender.run(*words).returncode, 0)
        came = self.receiver.run("inbox", ENDPOINT, str(pair.mirror), "--count", "3", "--timeout", "20s")
        self.assertEqual(came.stdout, "received Name, 4 B\nremoved Name\nreceived name, 4 B\n", came.stderr)
        self.assertEqual(sorted(tree(pair.mirror)), ["Dir/more", "Dir/report", "name"])

    def test_both_trees_are_equal_after_cuts_kills_and_changes(self) -> None:
        dice = random.Random(20)
        gardener = Gardener(self.pair.origin, dice)
        for _ in range(250):
            gardener.write()
        self.pair.send("--delete", "--quiet")
        self.pair.receive("--quiet")
        self.pair.storm(dice, 15, gardener)
        self.pair.until_equal()
        self.assertEqual(tree(self.pair.origin), tree(self.pair.mirror))
        assert self.pair.outbox and self.pair.inbox
        self.assertEqual((self.pair.outbox.stop(), self.pair.inbox.stop()), (130, 130))
        own = self.pair.mirror / ".dhow-inbox"
        self.assertEqual([list((own / name).iterdir()) for name in ("incoming", "refused")], [[], []])


def main() -> int:
    """Plays a large folder; 1 if the trees differ."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=20, help="cuts and kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", default="release", help="which build: debug or release")
    options = parser.parse_args()
    end_on_sigterm()
    dice = random.Random(options.seed)
    directory = Path(tempfile.mkdtemp(prefix="dhow-folders-"))
    try:
        with Crew() as crew:
            address = f"127.0.0.1:{free_port()}"
            binary = dhow(options.profile)
            receiver = Node(crew, binary, directory / "receiver", Settings("ipn:2.0", address))
            sender = Node(crew, binary, directory / "sender", Settings(
                "ipn:1.0", links=[Link("receiver", address)], routes=[("ipn:2.*", "receiver")]))
            receiver.start()
            sender.start()
            pair = Pair(crew, sender, receiver, directory)
            gardener = Gardener(pair.origin, dice)
            for _ in range(options.files):
                gardener.write()
            octets = sum(size for size, _, _ in outline(pair.origin).values())
            begun = time.monotonic()
            pair.send("--delete", "--quiet")
            pair.receive("--quiet")
            pair.until_equal(3600)
            took = time.monotonic() - begun
            print(f"{options.files} files of {octets / 1e6:.0f} MB in {took:.1f} s: {options.files / took:.0f} files/s")
            pair.storm(dice, options.rounds, gardener)
            took = pair.until_equal(3600)
            equal = tree(pair.origin) == tree(pair.mirror)
            print(f"after {options.rounds} cuts and kills, {took:.1f} s later: "
                  f"{len(outline(pair.origin))} files, trees {'equal' if equal else 'DIFFER'}")
            return 0 if equal else 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
