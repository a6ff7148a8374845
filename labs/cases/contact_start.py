"""From the moment that a path is back to the first bundle on the wire.

Two hosts joined by a link; a bundle waits at the dialling one. Three kinds of return, ten phases of the node's own
timers each: the interface comes up again (the kernel tells), the address comes back (the kernel tells), and packets
pass again that had been dropped without a word (nothing tells; the link is `dhow channel`, whose contact ended). The
moment is when a program that waits for it is told to bring the path back, the bundle's first packet is stamped by the
kernel as it leaves. Round trips are a fraction of a millisecond here.
"""

import queue
import random
import time
from collections.abc import Callable
from statistics import median

from labs.bench.arrival import wait_for
from labs.cases.case import Outcome, Skipped, Workplace
from labs.cases.traffic import received
from labs.rig.crew import Program
from labs.rig.hosts import Emulated, End, Hosts, Veth, run
from labs.rig.network import namespaces_possible
from labs.rig.node import Link, Node, NodeFailed, Settings
from labs.rig.terminal import Bar

ROUNDS, QUICK_ROUNDS = 10, 3
PORT = 4556

# Milliseconds within which the first bundle is on the wire where the kernel tells of the path's return.
TOLD_MS = 50

# Milliseconds of the link's longest pause between two attempts (backoff_max) and of a connect's timeout: what a
# silent return may cost, since nothing but an attempt can notice it.
BACKOFF_MAX_MS, CONNECT_TIMEOUT_MS = 500, 500

POLICY = f'backoff_max = "{BACKOFF_MAX_MS}ms"\nconnect_timeout = "{CONNECT_TIMEOUT_MS}ms"'

# Seconds away: the first is over before sessions notice, in the last the node has given up and dials again and again.
AWAY_S = (0.5, 4.0)

PATIENCE_S = 60.0

MARK = "first-octets-of-the-bundle-"


class Stage:
    """Two nodes on a link, and a sniffer on the sender's interface."""

    def __init__(self, place: Workplace, name: str, link: Veth | Emulated) -> None:
        self.place = place
        self.link = link
        west = f"{link.right.address}:{PORT}"
        self.receiver = Node(place.crew, place.dhow, place.directory / f"{name}-west", Settings(
            "ipn:2.0", listen=f"0.0.0.0:{PORT}"), namespace=link.right.namespace)
        self.sender = Node(place.crew, place.dhow, place.directory / f"{name}-east", Settings(
            "ipn:1.0", listen=f"0.0.0.0:{PORT}", links=[Link("west", west, POLICY)], routes=[("ipn:2.*", "west")]),
            namespace=link.left.namespace)
        self.receiver.start()
        self.sender.start()
        self.rounds = 0

    def pass_one(self) -> None:
        """A bundle crosses, so that all is known to work and both sides believe in their session."""
        place = self.place
        place.run(self.sender, "send", "ipn:2.42", str(place.payload(100)))
        place.drain(self.receiver, "ipn:2.42", 1)

    def sniffer(self, mark: str) -> Program:
        """Looks for a bundle on the sender's interface."""
        sniffer = self.place.crew.start(
            ["python3", "-m", "labs.rig.sniffer", self.link.left.device, mark], namespace=self.link.left.namespace)
        if sniffer.line(PATIENCE_S) != "ready":
            raise NodeFailed("the sniffer did not start")
        return sniffer

    def once(self, leave: Callable[[], None], come: Callable[[], None], away_s: float) -> float:
        """Milliseconds from the path's return to the first packet of the bundle that waited."""
        self.rounds += 1
        mark = f"{MARK}{self.rounds:04d}"
        bundle = self.place.directory / mark
        bundle.write_text(mark)
        before = received(self.receiver)
        leave()
        self.place.run(self.sender, "send", "ipn:2.42", str(bundle))
        time.sleep(away_s)
        sniffer = self.sniffer(mark)
        back = time.time()
        come()
        while True:
            try:
                line = sniffer.line(PATIENCE_S)
            except queue.Empty:
                raise NodeFailed(f"no bundle left after the path came back\n{self.sender.last_words()}") from None
            stamp = float((line or "0 none").split()[0])
            # A bundle that was sent into the dead path before it came back has not left anywhere.
            if line is None or stamp >= back:
                break
        wait_for(self.receiver, before + 1)
        sniffer.stop()
        self.place.crew.dismiss(sniffer)
        self.place.drain(self.receiver, "ipn:2.42", 1)
        return max(0.0, (stamp - back) * 1000)


class Hand:
    """Brings an end back without a program's start in between."""

    def __init__(self, place: Workplace, end: End) -> None:
        self.end = end
        argv = ["ip", "-n", end.namespace, "-batch", "-"]
        self.program = place.crew.start(argv, log=place.directory / "ip.log", typed=True)

    def set_up(self) -> None:
        """Takes the interface up."""
        self.program.type(f"link set {self.end.device} up")

    def remove_address(self) -> None:
        """Removes the address, and waits until it is gone."""
        run("ip", "-n", self.end.namespace, "address", "delete", f"{self.end.address}/30", "dev", self.end.device)

    def add_address(self) -> None:
        """Adds the address."""
        self.program.type(f"address add {self.end.address}/30 dev {self.end.device}")


def measure(place: Workplace) -> Outcome:
    """Every kind of return, in many phases."""
    if reason := namespaces_possible():
        raise Skipped(reason)
    rounds = QUICK_ROUNDS if place.quick else ROUNDS
    phases = random.Random(1)
    delays: dict[str, list[float]] = {}
    bar = Bar(3 * rounds, "returns")
    with Hosts("east", "west", "south", "north") as hosts:
        cable = hosts.veth(0, 1)
        channel = hosts.emulated(place.crew, place.dhow, 2, 3, "--rate", "1Gbit", log=place.directory / "channel.log")
        loud, silent = Stage(place, "loud", cable), Stage(place, "silent", channel)
        hand = Hand(place, cable.left)
        kinds = {
            "interface up again": (loud, lambda: cable.left.set("down"), hand.set_up),
            "address back": (loud, hand.remove_address, hand.add_address),
            "packets pass again": (silent, channel.cut, channel.join),
        }
        for stage in (loud, silent):
            stage.pass_one()
        for kind, (stage, leave, come) in kinds.items():
            delays[kind] = []
            for _ in range(rounds):
                delays[kind].append(stage.once(leave, come, phases.uniform(*AWAY_S)))
                bar.show(sum(map(len, delays.values())), 0, f"{kind}: {delays[kind][-1]:.1f} ms")
    bar.clear()
    allowed = dict.fromkeys(kinds, float(TOLD_MS))
    allowed["packets pass again"] = float(BACKOFF_MAX_MS + CONNECT_TIMEOUT_MS)
    return Outcome(
        f"the first bundle is on the wire within {TOLD_MS} ms of the path's return, and after a silent cut within one "
        f"pause and one connect ({BACKOFF_MAX_MS} + {CONNECT_TIMEOUT_MS} ms, as configured)",
        all(max(delays[kind]) <= allowed[kind] for kind in kinds),
        ["what comes back", "median ms", "lowest", "highest", "allowed"],
        [[kind, f"{median(of):.1f}", f"{min(of):.1f}", f"{max(of):.1f}", f"{allowed[kind]:.0f}"]
         for kind, of in delays.items()],
        {"delays_ms": delays, "allowed_ms": allowed},
        [f"{rounds} returns each, away for {AWAY_S[0]} to {AWAY_S[1]} s"],
    )
