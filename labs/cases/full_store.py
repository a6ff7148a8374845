"""A store at its edge on real disks: full for minutes, ended and started again, and emptied by hand, on three kinds of disk.

Four applications at once: small bundles for a node that is away, mixed sizes to 5 MB for a reader that confirms them, short
lifetimes, and small ones with long lifetimes. The disks: one with room for all (the quota is the edge), ext4 of 700 MB with the
default settings, and a tmpfs of 60 MB (the disk is the edge). Every quarter of the time the node is killed. In the end all
bundles are dropped by hand, and one of a quarter of what the disk holds must be taken within five seconds.
"""

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from labs.cases.case import Outcome, Skipped, Workplace
from labs.rig.node import Node, NodeFailed, Settings
from labs.rig.terminal import octets as show_octets
from tests.aap2 import Refused, Subscriber

MINUTES, QUICK_MINUTES = 10.0, 0.5
READER, AWAY = "ipn:2.5", "ipn:9.1"
SIZES = [0, 900, 20_000, 300_000, 5_000_000]
LIVES = 4  # times that the node is started
TAKEN_S = 5.0
EXT4_OCTETS, TMPFS_OCTETS = 700_000_000, 60_000_000
REFUSES_ALL = "refuses everything"


@contextmanager
def mounted(kind: str, directory: Path) -> Iterator[Path]:
    """A file system of a size of its own, gone when it was used."""
    point = directory / kind
    point.mkdir(parents=True)
    image = directory / f"{kind}.image"
    if kind == "ext4":
        with image.open("wb") as file:
            file.truncate(EXT4_OCTETS)
        call("mkfs.ext4", "-q", "-F", str(image))
        call("mount", "-o", "loop", str(image), str(point))
    elif kind == "tmpfs":
        call("mount", "-t", "tmpfs", "-o", f"size={TMPFS_OCTETS}", "tmpfs", str(point))
    try:
        yield point
    finally:
        if kind != "plain":
            subprocess.run(["umount", str(point)], check=False, timeout=60)
        image.unlink(missing_ok=True)


def call(*argv: str) -> None:
    """A command of the system that must succeed."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    except FileNotFoundError as error:
        raise Skipped(f"{argv[0]} is not there") from error
    if done.returncode != 0:
        raise Skipped(f"{' '.join(argv)}: {done.stderr.strip()}")


class Load(threading.Thread):
    """One application: sends until it is over, and is refused as often as the store is full."""

    def __init__(self, node: Node, words: list[str], over: threading.Event) -> None:
        super().__init__(daemon=True)
        self.node, self.words, self.over = node, words, over
        self.sent = self.refused = 0

    def run(self) -> None:
        """A command after the other."""
        while not self.over.is_set():
            with suppress(subprocess.TimeoutExpired):
                if self.node.run("send", *self.words, timeout_s=90).returncode == 0:
                    self.sent += 1
                else:
                    self.refused += 1
                    self.over.wait(0.2)


class Reader(threading.Thread):
    """Takes what is there, confirms it, and comes back when the node does."""

    def __init__(self, node: Node, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self.node, self.over, self.read = node, over, 0

    def run(self) -> None:
        """A connection after the other."""
        while not self.over.is_set():
            with suppress(OSError, Refused, IndexError):
                subscriber = Subscriber(self.node.socket, READER, 1, 3.0)
                try:
                    while not self.over.is_set():
                        subscriber.next()
                        subscriber.confirm()
                        self.read += 1
                finally:
                    subscriber.close()
            self.over.wait(0.1)


def measure(place: Workplace) -> Outcome:
    """The edge of each disk, for minutes."""
    minutes = QUICK_MINUTES if place.quick else MINUTES
    rows, figures, met = [], {}, True
    for kind in ("plain", "ext4", "tmpfs"):
        place.say(f"{kind}: {minutes:g} minutes")
        with mounted(kind, place.directory) as point:
            try:
                found = lived(place, kind, point, minutes * 60)
            finally:
                place.crew.close()
        met = met and found["met"]
        figures[kind] = found
        rows.append([kind, *(f"{found[name]:,}" for name in ("sent", "refused", "read")),
                     show_octets(found["log_octets"]), f"{found['held']:,}", f"{found['left']:,}",
                     "never" if found["refused_all"] == 0 else f"{found['refused_all']} times",
                     f"{found['taken_s']:.1f} s" if found["taken_s"] is not None else "not"])
    return Outcome(
        f"a full store can be emptied, and takes a bundle within {TAKEN_S:g} s of that ({minutes:g} minutes a disk)",
        met, ["disk", "sent", "refused", "read", "log", "held when full", "left after drops", "refused everything",
              "then taken in"],
        rows, figures)


def lived(place: Workplace, kind: str, point: Path, seconds: float) -> dict:
    """One disk: some lives of a node under load, then all is dropped."""
    policy = f'path = "{point}/store"\n'
    quota = '96MiB' if kind == "plain" else "10GiB"
    if kind == "plain":
        policy += 'segment = "256KiB"\n'
    settings = Settings("ipn:2.0", quota=quota)
    settings_toml = settings.toml
    settings.toml = lambda: settings_toml().replace('path = "store"\n', policy)  # type: ignore[method-assign]
    node = Node(place.crew, place.dhow, place.directory / f"node-{kind}", settings)
    files = []
    for size in SIZES:
        file = place.directory / f"{kind}-{size}"
        file.write_bytes(b"\xd0" * size)
        files.append(str(file))
    over = threading.Event()
    small, mixed = files[1], files[2:]
    loads = [
        Load(node, [AWAY, small, "--count", "2000", "--lifetime", "20s"], over),
        Load(node, [READER, *files, *mixed, "--lifetime", "1h"], over),
        Load(node, ["ipn:9.2", files[0], files[2], "--count", "50", "--lifetime", "2s"], over),
        Load(node, ["ipn:9.3", files[2], "--count", "20", "--lifetime", "1h"], over),
    ]
    reader = Reader(node, over)
    node.start()
    for thread in [*loads, reader]:
        thread.start()
    for life in range(LIVES):
        time.sleep(seconds / LIVES)
        if life < LIVES - 1:
            node.kill()
            node.start()
    over.set()
    for thread in [*loads, reader]:
        thread.join(120)
    held = bundles(node)
    node.stop()
    node.start()
    left = emptied(node)
    octets = (24 << 20) if kind != "tmpfs" else (12 << 20)
    last = place.directory / f"{kind}-last"
    last.write_bytes(b"\xd1" * octets)
    taken_s = None
    begun = time.monotonic()
    while time.monotonic() - begun < TAKEN_S and taken_s is None:
        if node.run("send", AWAY, str(last)).returncode == 0:
            taken_s = time.monotonic() - begun
    refused_all = node.log.read_text(errors="replace").count(REFUSES_ALL)
    found = {
        "sent": sum(load.sent for load in loads), "refused": sum(load.refused for load in loads), "read": reader.read,
        "held": held, "left": left, "refused_all": refused_all, "taken_s": taken_s,
        "log_octets": (point / "store" / "log").stat().st_blocks * 512,
    }
    found["met"] = left == 0 and refused_all == 0 and taken_s is not None and reader.read > 0 and found["refused"] > 0
    node.stop()
    return found


def bundles(node: Node) -> int:
    """Bundles that the node holds."""
    return int(node.metrics()["dhow_bundles_stored"])


def emptied(node: Node) -> int:
    """Drops everything, as an operator would; how many are left after that."""
    for _ in range(5):
        for bundle in json.loads(node.run("bundles", "--each", "--json", timeout_s=120).stdout):
            with suppress(NodeFailed, OSError):
                node.admin(f"/v1/bundles/{quote(bundle['id'], safe='')}", "DELETE")
        until = time.monotonic() + 5
        while bundles(node) > 0 and time.monotonic() < until:
            time.sleep(0.1)
        if bundles(node) == 0:
            break
    return bundles(node)
