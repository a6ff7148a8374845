"""100 ms each way at 100 Mbit/s: bundles of 4 kB fill the link as one TCP stream does.

Two hosts joined by `dhow channel`. Raw TCP and the bundles take turns over the same path, each from a standstill:
a fresh connection, slow start and all. Bundles wait at the sender while the link is closed; the clock runs from its
first arrival until the last one is durable at the receiver, as raw TCP's runs from its acceptance.
"""

import json
import time
from pathlib import Path
from statistics import median

from labs.bench.arrival import wait_for
from labs.cases.case import Outcome, Skipped, Workplace
from labs.cases.traffic import received
from labs.rig.hosts import Emulated, Hosts
from labs.rig.network import namespaces_possible
from labs.rig.node import Link, Node, Settings

RATE = "100Mbit"
OCTETS_PER_S = 12_500_000
DELAY = "100ms"
BUNDLE_OCTETS = 4_000
PORT = 4556

# The most that a socket may hold (default 4 and 6 MB): what is under way counts with the kernel's own overhead, about
# 5 MB here, so neither raw TCP nor anything else could fill the path with less.
TCP_WMEM = "4096 131072 33554432"
TCP_RMEM = "4096 131072 33554432"

# Of what raw TCP moves, the least that the bundles' payload must be.
LEAST = 0.95

# Seconds of traffic in one measurement, so that slow start is a small part of it; and how many of each.
SECONDS, ROUNDS = 20, 3
QUICK_SECONDS, QUICK_ROUNDS = 6, 1


def raw_mbit_s(place: Workplace, path: Emulated, seconds: int) -> float:
    """The octets that one TCP stream moves in so many seconds, from its first octet on."""
    yardstick = ["python3", "-m", "labs.rig.yardstick"]
    receiver = place.crew.start([*yardstick, "receive", f"{path.right.address}:0"], namespace=path.right.namespace)
    address = receiver.line(10)
    sender = place.crew.start([*yardstick, "send", str(address), str(seconds)], namespace=path.left.namespace)
    reading = json.loads(receiver.line(seconds + 60) or "{}")
    sender.wait(60)
    place.crew.dismiss(sender)
    place.crew.dismiss(receiver)
    return reading["octets"] * 8 / reading["seconds"] / 1e6


def bundles_mbit_s(place: Workplace, sender: Node, receiver: Node, seconds: int) -> tuple[float, float]:
    """Payload of bundles that crossed a link which was just opened, and seconds from that to the first of them."""
    count = OCTETS_PER_S * seconds // BUNDLE_OCTETS
    before = received(receiver)
    place.run(sender, "send", "ipn:2.42", str(place.payload(BUNDLE_OCTETS)), "--count", str(count))
    opened = time.monotonic()
    sender.link_up("west")
    start = wait_for(receiver, before + 1)
    first = received(receiver) - before
    elapsed = wait_for(receiver, before + count) - start
    place.run(sender, "link", "down", "west")
    return (count - first) * BUNDLE_OCTETS * 8 / elapsed / 1e6, start - opened


def congestion_control() -> str:
    """The congestion control of the kernel's TCP."""
    return Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()


def measure(place: Workplace) -> Outcome:
    """Takes turns and compares medians."""
    if reason := namespaces_possible():
        raise Skipped(reason)
    seconds, rounds = (QUICK_SECONDS, QUICK_ROUNDS) if place.quick else (SECONDS, ROUNDS)
    with Hosts("east", "west") as hosts:
        hosts.set_kernel("net.ipv4.tcp_wmem", TCP_WMEM)
        hosts.set_kernel("net.ipv4.tcp_rmem", TCP_RMEM)
        path = hosts.emulated(place.crew, place.dhow, 0, 1, "--rate", RATE, "--delay", DELAY,
                              log=place.directory / "channel.log")
        receiver = Node(place.crew, place.dhow, place.directory / "west", Settings(
            "ipn:2.0", listen=f"{path.right.address}:{PORT}"), namespace=path.right.namespace)
        link = Link("west", f"{path.right.address}:{PORT}", "enabled = false")
        sender = Node(place.crew, place.dhow, place.directory / "east", Settings(
            "ipn:1.0", listen=f"{path.left.address}:{PORT}", links=[link], routes=[("ipn:2.*", "west")]),
            namespace=path.left.namespace)
        receiver.start()
        sender.start()
        raw, bundles, firsts = [], [], []
        start = time.monotonic()
        for number in range(rounds):
            place.say(f"round {number + 1} of {rounds}: raw TCP for {seconds} s, then {seconds} s worth of bundles")
            raw.append(raw_mbit_s(place, path, seconds))
            rate, first_s = bundles_mbit_s(place, sender, receiver, seconds)
            bundles.append(rate)
            firsts.append(first_s)
            place.say(f"  {raw[-1]:.1f} Mbit/s raw, {bundles[-1]:.1f} Mbit/s of payload in bundles")
        emulator_share = path.cpu_seconds() / (time.monotonic() - start)
        node_cpu_s = [node.cpu_seconds() for node in (sender, receiver)]
    ratio = median(bundles) / median(raw)
    return Outcome(
        f"bundles of 4 kB move at least {LEAST} of what raw TCP moves over {RATE}/s with {DELAY} each way",
        ratio >= LEAST,
        ["over the same path", "Mbit/s", "lowest", "highest"],
        [["raw TCP, one stream", f"{median(raw):.1f}", f"{min(raw):.1f}", f"{max(raw):.1f}"],
         ["bundles of 4 kB, payload", f"{median(bundles):.1f}", f"{min(bundles):.1f}", f"{max(bundles):.1f}"],
         ["ratio", f"{ratio:.3f}", "", ""]],
        {"raw_mbit_s": raw, "bundles_mbit_s": bundles, "ratio": ratio, "least": LEAST, "first_bundle_s": firsts,
         "emulator_cores": emulator_share, "sender_cpu_s": node_cpu_s[0], "receiver_cpu_s": node_cpu_s[1]},
        [f"medians of {rounds}; first bundle durable {median(firsts):.2f} s after the link's opening",
         f"{congestion_control()} in both; sockets may hold {TCP_WMEM.split()[-1]} octets (tcp_wmem, tcp_rmem)",
         f"the emulated link used {emulator_share:.1%} of one core"],
    )
