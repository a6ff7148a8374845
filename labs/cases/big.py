"""4 GiB in one bundle through three nodes, each with 64 MB of memory; what arrives is what was sent.

Each node, and the application at either end (`dhow send`, `dhow recv`), runs in a control group of its own that has
64 MB: page cache counts too, so the kernel must write out and forget as the bundle passes. The yardstick is the
same file over raw TCP (loopback) to a file that is synced in the end, without any limit.
"""

import hashlib
import json
import os
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from labs.cases.case import Outcome, Skipped, Workplace
from labs.rig import cgroup
from labs.rig.cgroup import Group
from labs.rig.node import Link, Node, NodeFailed, Settings
from labs.rig.terminal import octets as show_octets
from labs.rig.terminal import say

MEMORY_OCTETS = 64_000_000
OCTETS, QUICK_OCTETS = 4 << 30, 256 << 20

# Settings of a machine with so little memory, beside the defaults (docs/small-devices.md).
STORE = 'queue = "8MiB"\nsegment = "16MiB"'
POLICY = 'window = "8MiB"'

# Seconds that the bundle may take: 4 GiB at 10 MB/s.
PATIENCE_S = 430.0

CHUNK_OCTETS = 1 << 20


def make_file(path: Path, octets: int) -> str:
    """A file of numbers that do not repeat; its SHA-256."""
    digest = hashlib.sha256()
    block = os.urandom(CHUNK_OCTETS)
    with path.open("wb") as file:
        for number in range(octets // CHUNK_OCTETS):
            part = number.to_bytes(8, "big") + block[8:]
            digest.update(part)
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def raw_seconds(source: Path, target: Path) -> float:
    """The file over one TCP connection into another file, synced."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = threading.Thread(target=_send, args=(listener.getsockname(), source))
        start = time.monotonic()
        sender.start()
        stream, _ = listener.accept()
        buffer = bytearray(CHUNK_OCTETS)
        with stream, target.open("wb") as file:
            while taken := stream.recv_into(buffer):
                file.write(memoryview(buffer)[:taken])
            file.flush()
            os.fsync(file.fileno())
        elapsed = time.monotonic() - start
        sender.join()
    target.unlink()
    return elapsed


def _send(address: tuple[str, int], source: Path) -> None:
    with socket.create_connection(address) as stream, source.open("rb") as file:
        stream.sendfile(file)


def measure(place: Workplace) -> Outcome:
    """One bundle, all the way."""
    if reason := cgroup.impossible("memory"):
        raise Skipped(reason)
    octets = QUICK_OCTETS if place.quick else OCTETS
    names = ["alpha", "beta", "gamma", "send", "recv"]
    with ExitStack() as stack:
        groups = {
            name: stack.enter_context(Group(f"dhow-{os.getpid()}-{name}", memory_octets=MEMORY_OCTETS))
            for name in names
        }
        stack.callback(place.crew.close)  # groups are removed when nobody is in them
        return through(place, groups, octets)


def through(place: Workplace, groups: dict[str, Group], octets: int) -> Outcome:
    """Starts the nodes in their groups, sends, receives, compares."""
    source = place.directory / "source"
    say(f"writing {show_octets(octets)}")
    digest = make_file(source, octets)
    raw_s = raw_seconds(source, place.directory / "raw")
    nodes = chain(place, groups, octets)
    log = place.directory / "applications.log"
    inbox = place.directory / "inbox"
    start = time.monotonic()
    receiver = place.crew.start(
        [*groups["recv"].enter(), *nodes[2].command(
            "recv", "ipn:3.42", "--count", "1", "--out", str(inbox), "--timeout", f"{PATIENCE_S:.0f}s", "--json")],
        log=log)
    sender = place.crew.start(
        [*groups["send"].enter(), *nodes[0].command("send", "ipn:3.42", str(source), "--lifetime", "1h")], log=log)
    sent_code = sender.wait(PATIENCE_S)
    sent_s = time.monotonic() - start
    line = receiver.line(PATIENCE_S)
    whole_s = time.monotonic() - start
    kills = {name: group.kills() for name, group in groups.items()}
    if sent_code != 0 or line is None:
        ends = "\n".join(f"{node.settings.node_id}: {node.last_words(3)}" for node in nodes)
        raise NodeFailed(f"the bundle did not arrive (killed for memory: {kills})\n"
                         f"{log.read_text(errors='replace')}\n{ends}")
    equal = json.loads(line)["sha256"] == digest and same_file(Path(json.loads(line)["path"]), digest)
    peaks = [node.peak_memory_octets() for node in nodes]
    rows = [
        [name, show_octets(peaks[place_of]) if place_of < len(peaks) else "–",
         show_octets(groups[name].peak_octets()), str(kills[name])]
        for place_of, name in enumerate(groups)
    ]
    return Outcome(
        f"{show_octets(octets)} cross three nodes of {show_octets(MEMORY_OCTETS)} each, SHA-256 equal",
        equal and not any(kills.values()),
        ["in its group", "peak resident", "peak with page cache", "killed"], rows,
        {"octets": octets, "sha256_equal": equal, "send_s": sent_s, "delivered_s": whole_s, "raw_tcp_and_file_s": raw_s,
         "resident_peak_octets": dict(zip(["alpha", "beta", "gamma"], peaks, strict=False)), "kills": kills},
        [(f"taken by alpha after {sent_s:.1f} s, delivered after {whole_s:.1f} s; raw TCP to a synced file without "
         f"limits {raw_s:.1f} s; SHA-256 {'equal' if equal else 'DIFFERENT'}")],
    )


def chain(place: Workplace, groups: dict[str, Group], octets: int) -> list[Node]:
    """Alpha dials beta, beta dials gamma."""
    quota = f"{octets + (256 << 20)}B"
    nodes: list[Node] = []
    for number, name in ((3, "gamma"), (2, "beta"), (1, "alpha")):
        links = [Link("next", nodes[0].address, POLICY)] if nodes else []
        routes = [("ipn:3.*", "next")] if nodes else []
        node = Node(place.crew, place.dhow, place.directory / name, Settings(
            f"ipn:{number}.0", links=links, routes=routes, quota=quota, store_policy=STORE, listen_policy=POLICY))
        node.under = groups[name].enter()
        node.start()
        nodes.insert(0, node)
    return nodes


def same_file(path: Path, digest: str) -> bool:
    """Whether the file that was received has this SHA-256."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_OCTETS):
            found.update(chunk)
    return found.hexdigest() == digest
