"""A contact is cut in the middle of a bundle: what the receiver made durable is not sent again.

Two hosts joined by a veth pair of a limited rate. A bundle of 64 MB is under way when both interfaces go down, half
way through; some seconds later they come up again. Counted is what left the sender's interface until the bundle was
durable at the receiver, headers of TCP and IP included. The same bundle without a cut is the yardstick.
"""

import time

from labs.cases.case import Outcome, Skipped, Workplace
from labs.cases.traffic import POLL_S, wait_empty
from labs.rig.hosts import Hosts, Veth
from labs.rig.network import namespaces_possible
from labs.rig.node import Link, Node, NodeFailed, Settings

RATE_OCTETS_PER_S = 6_250_000
OCTETS, QUICK_OCTETS = 64_000_000, 16_000_000
PORT = 4556
AWAY_S = 2.0

# So long that the limited link drops nothing: what TCP itself sends again would be counted too.
QUEUE_MS = 2_000

# The most that may be lost at a cut: octets in sockets, in the queue of the link and at the disk, as seconds at the rate. It
# has left the sender, and nobody has said that it is durable.
UNDER_WAY_S = 1.0

PATIENCE_S = 120.0


def measure(place: Workplace) -> Outcome:
    """One transfer whole, one cut."""
    if reason := namespaces_possible():
        raise Skipped(reason)
    octets = QUICK_OCTETS if place.quick else OCTETS
    with Hosts("east", "west") as hosts:
        path = hosts.veth(0, 1)
        path.limit(RATE_OCTETS_PER_S, QUEUE_MS)
        receiver = Node(place.crew, place.dhow, place.directory / "west", Settings(
            "ipn:2.0", listen=f"0.0.0.0:{PORT}"), namespace=path.right.namespace)
        sender = Node(place.crew, place.dhow, place.directory / "east", Settings(
            "ipn:1.0", listen=f"0.0.0.0:{PORT}", links=[Link("west", f"{path.right.address}:{PORT}")],
            routes=[("ipn:2.*", "west")]), namespace=path.left.namespace)
        receiver.start()
        sender.start()
        whole = sent_octets(place, path, sender, receiver, octets, None)
        cut = sent_octets(place, path, sender, receiver, octets, octets // 2)
    again = cut - whole
    allowed = int(RATE_OCTETS_PER_S * UNDER_WAY_S)
    return Outcome(
        f"of a bundle cut half way, no more than {allowed / 1e6:.2f} MB are sent again (one second of the link)",
        again <= allowed,
        ["transfer", "left the interface, MB", "× the bundle"],
        [["whole", f"{whole / 1e6:.2f}", f"{whole / octets:.3f}"],
         ["cut half way", f"{cut / 1e6:.2f}", f"{cut / octets:.3f}"],
         ["sent again", f"{again / 1e6:.2f}", f"{again / octets:.3f}"]],
        {"octets": octets, "whole_octets": whole, "cut_octets": cut, "again_octets": again, "allowed_octets": allowed},
        [f"one bundle of {octets / 1e6:.0f} MB at {RATE_OCTETS_PER_S * 8 / 1e6:.0f} Mbit/s, away for {AWAY_S} s"],
    )


def sent_octets(
    place: Workplace, path: Veth, sender: Node, receiver: Node, octets: int, cut_at: int | None
) -> int:
    """Octets that left the sender's interface until the bundle was durable, with or without a cut on the way."""
    before = path.left.octets_sent()
    place.run(sender, "send", "ipn:2.42", str(place.payload(octets)))
    if cut_at is not None:
        end = time.monotonic() + PATIENCE_S
        while path.left.octets_sent() - before < cut_at:
            if time.monotonic() > end:
                raise NodeFailed(f"the transfer never came half way\n{sender.last_words()}")
            time.sleep(POLL_S / 5)
        path.cut()
        time.sleep(AWAY_S)
        path.join()
    place.drain(receiver, "ipn:2.42", 1)  # whole: what came in parts has been joined
    wait_empty(sender)
    return path.left.octets_sent() - before
