"""100,000 bundles of distinct long names, silent readers and few descriptors: a node of 64 MB refuses, lives and restarts.

A neighbour sends bundles each of which has a destination, a source and a report-to endpoint that no other has. Meanwhile
applications ask for bundles of 1 MiB and read nothing, as many at a time as there are descriptors for. The node has 64 MB, page
cache included, and 60 descriptors. It takes what its memory holds, refuses the rest with "no resources" (RFC 9174 5.2.4),
serves an application that reads, answers its operator, and starts again with all that it took.
"""

import contextlib
import os
import threading
import time
from contextlib import ExitStack

from labs.cases.case import Outcome, Skipped, Workplace
from labs.rig import cgroup
from labs.rig.cgroup import Group
from labs.rig.node import Node, NodeFailed, Settings
from labs.rig.stranger import NO_RESOURCES, Stranger, bundle
from labs.rig.terminal import octets as show_octets
from tests.aap2 import Refused, Subscriber

MEMORY_OCTETS = 64_000_000
DESCRIPTORS = 60
BUNDLES, QUICK_BUNDLES = 100_000, 10_000
READERS = 100

# Readers that fit beside what the node itself, its operator and its neighbour need of the descriptors.
SEATS = 20

# The octets that each silent reader is to be given.
WAITING_OCTETS = 1 << 20

# Seconds that a reader may take to be let in, and an honest one to be served.
LET_IN_S, SERVED_S = 2.0, 60.0


class Readers(threading.Thread):
    """Applications that subscribe and read nothing, a roomful at a time."""

    def __init__(self, node: Node) -> None:
        super().__init__(daemon=True)
        self.node = node
        self.count = 0
        self.over = threading.Event()

    def run(self) -> None:
        """Until as many were there as there are to be, and the attack is over."""
        while not self.over.is_set() or self.count < READERS:
            room: list[Subscriber] = []
            for seat in range(SEATS):
                with contextlib.suppress(OSError, Refused, IndexError):
                    room.append(Subscriber(self.node.socket, f"ipn:2.{100 + seat}", 1, LET_IN_S))
            self.count += len(room)
            self.over.wait(1.0)
            for reader in room:
                reader.close()


def measure(place: Workplace) -> Outcome:
    """The attack, and what is left of the node."""
    if reason := cgroup.impossible("memory"):
        raise Skipped(reason)
    with ExitStack() as stack:
        group = stack.enter_context(Group(f"dhow-{os.getpid()}-strangers", memory_octets=MEMORY_OCTETS))
        stack.callback(place.crew.close)  # groups are removed when nobody is in them
        return attacked(place, group, QUICK_BUNDLES if place.quick else BUNDLES)


def attacked(place: Workplace, group: Group, bundles: int) -> Outcome:
    """Sends all that, and looks."""
    node = Node(place.crew, place.dhow, place.directory / "node", Settings(
        "ipn:2.0", store_policy='segment = "4MiB"'))
    node.under = ["prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}", *group.enter()]
    node.start()
    waiting = place.directory / "waiting"
    waiting.write_bytes(os.urandom(WAITING_OCTETS))
    for seat in range(SEATS):
        place.run(node, "send", f"ipn:2.{100 + seat}", str(waiting), "--lifetime", "1h")
    readers = Readers(node)
    stranger = Stranger(node.address)
    readers.start()
    try:
        for number in range(bundles):
            stranger.send(bundle(number))
        stranger.settle()
    except OSError as error:
        raise NodeFailed(f"the node died (killed for memory: {group.kills()}): {error}\n{node.last_words()}") from error
    finally:
        readers.over.set()
    readers.join(SERVED_S)
    honest = admitted(node)
    served = honest.next().payload == waiting.read_bytes()
    honest.close()
    held = stored(node)
    resident = node.peak_memory_octets()
    stranger.close()
    ended = node.stop()
    node.start()
    again = stored(node)
    refused = stranger.refused.get(NO_RESOURCES, 0)
    whole = stranger.taken + refused == bundles
    met = (whole and refused > 0 and served and ended == 0 and again >= stranger.taken
           and group.kills() == 0 and readers.count >= READERS)
    return Outcome(
        f"a node of {show_octets(MEMORY_OCTETS)} and {DESCRIPTORS} descriptors refuses, lives and restarts under "
        f"{bundles:,} bundles of distinct long names and {READERS} readers that do not read",
        met, ["bundles", "taken", "refused: no resources", "silent readers", "stored", "after restart", "peak resident",
              "peak of its group", "killed"],
        [[f"{bundles:,}", f"{stranger.taken:,}", f"{refused:,}", str(readers.count), f"{held:,}", f"{again:,}",
          show_octets(resident), show_octets(group.peak_octets()), str(group.kills())]],
        {"bundles": bundles, "taken": stranger.taken, "refused": stranger.refused, "readers": readers.count,
         "stored": held, "stored_after_restart": again, "resident_peak_octets": resident,
         "group_peak_octets": group.peak_octets(), "kills": group.kills(), "honest_reader_served": served},
    )


def admitted(node: Node) -> Subscriber:
    """An application that is let in once the seats of those who left are free."""
    last = time.monotonic() + SERVED_S
    while True:
        try:
            return Subscriber(node.socket, "ipn:2.100", 1, SERVED_S)
        except ConnectionError as error:
            if time.monotonic() > last:
                raise NodeFailed(f"an application was not let in for {SERVED_S:.0f} s: {error}") from error
            time.sleep(0.1)


def stored(node: Node) -> int:
    """Bundles that the node holds, as it tells its operator."""
    return int(node.metrics()["dhow_bundles_stored"])
