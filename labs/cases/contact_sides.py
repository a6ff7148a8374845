"""From a path's return to the first bundle on the wire, for either side and whatever became of the session.

Two nodes in network namespaces are cut from each other for some seconds, at a random moment of every back-off,
while a bundle waits for the path. Packets are time-stamped by the kernel where they leave.
"""

import argparse
import ctypes
import json
import os
import random
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from labs.cases.case import Outcome, Skipped, Workplace
from labs.rig.binary import dhow
from labs.rig.crew import Crew, end_on_sigterm
from labs.rig.machine import machine
from labs.rig.network import namespaces_possible
from labs.rig.node import Link, Node, NodeFailed, Settings
from labs.rig.terminal import Bar, say, table

# Milliseconds from the return of an interface or address to the first octets of a bundle; and from the silent
# return of a path: the largest wait between two attempts to connect (`backoff_max`), and the same again for the
# kernel's neighbour discovery, which asks once a second.
LIMIT_SEEN_MS = 50.0
LIMIT_SILENT_MS = 2_000.0

CUTS = {
    "interface": "both ends of the cable go down",
    "far interface": "the accepting node's end of the cable goes down",
    "address": "the dialling node's address is taken away",
    "silent": "packets vanish between the two; no interface changes",
}
SENDERS = ["dialling", "accepting"]
SESSIONS = {"believed": "both sides still believe in the session", "dead": "the session was given up on both sides"}

PORT = 4556
ADDRESSES = ["198.18.7.1", "198.18.7.2"]
GIVE_UP_S = 40.0
STAMP = 35  # SO_TIMESTAMPNS: the kernel's time of a packet, nanoseconds
CLONE_NEWNET = 0x4000_0000
SEGMENT_START = b"contact-start "


@dataclass
class Round:
    """One cut and its result."""

    outage_s: float
    first_ms: float  # path back to first octets of the bundle
    syn_ms: float | None  # path back to the first SYN that was sent after it
    attempts: int  # SYNs that were sent while the path was cut
    fresh: bool  # the bundle went over a connection younger than the path


@dataclass
class Scenario:
    """The kind of cut, the side that has the bundle, and whether the session outlives the cut."""

    cut: str
    sender: str
    session: str
    rounds: list[Round] = field(default_factory=list)
    fault: str = ""

    @property
    def name(self) -> str:
        """The name of the round, in three words."""
        return f"{self.cut}, {self.sender}, {self.session}"

    @property
    def limit_ms(self) -> float:
        """The limit of the requirement."""
        return LIMIT_SILENT_MS if self.cut == "silent" else LIMIT_SEEN_MS

    @property
    def met(self) -> bool:
        """Whether the median round kept the limit."""
        return not self.fault and median(r.first_ms for r in self.rounds) <= self.limit_ms


def ip(*words: str) -> None:
    """Runs `ip`."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Path3:
    """Two hosts and a switch between them, each a network namespace; closing removes all three."""

    def __init__(self, mark: str) -> None:
        self.hosts = [f"dhow-{mark}-{name}" for name in ("dialling", "accepting")]
        self.switch = f"dhow-{mark}-switch"
        self.made: list[str] = []

    def build(self, direct: bool) -> None:
        """Joins the hosts by one cable, or by two with a switch between them."""
        for name in [*self.hosts, self.switch]:
            ip("netns", "add", name)
            self.made.append(name)
        left, right = self.hosts
        if direct:
            ip("link", "add", "path", "netns", left, "type", "veth", "peer", "name", "path", "netns", right)
        else:
            ip("-n", self.switch, "link", "add", "bridge", "type", "bridge", "forward_delay", "0",
               "mcast_snooping", "0")
            for at, host in enumerate(self.hosts):
                ip("link", "add", "path", "netns", host, "type", "veth", "peer", "name", f"port{at}",
                   "netns", self.switch)
                ip("-n", self.switch, "link", "set", f"port{at}", "master", "bridge", "up")
            ip("-n", self.switch, "link", "set", "bridge", "up")
        for host, address in zip(self.hosts, ADDRESSES, strict=True):
            ip("-n", host, "link", "set", "lo", "up")
            ip("-n", host, "address", "add", f"{address}/24", "dev", "path")
            ip("-n", host, "link", "set", "path", "up")

    def close(self) -> None:
        """Removes what was made."""
        while self.made:
            subprocess.run(["ip", "netns", "delete", self.made.pop()], capture_output=True, check=False)


def socket_in(namespace: str, family: int, kind: int, protocol: int) -> socket.socket:
    """A socket of a network namespace."""
    made: list[socket.socket | OSError] = []

    def make() -> None:
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            with Path(f"/run/netns/{namespace}").open() as there:
                if libc.setns(there.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), f"setns to {namespace}")
            made.append(socket.socket(family, kind, protocol))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=make)  # a thread of its own: only its namespace changes
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]


class Watch:
    """Packets of the path as the kernel stamps them, on one host."""

    def __init__(self, namespace: str) -> None:
        self.socket = socket_in(namespace, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.bind(("path", 3))
        self.socket.setsockopt(socket.SOL_SOCKET, STAMP, 1)
        self.socket.setblocking(False)

    def packets(self, wait_s: float) -> list[tuple[float, bytes]]:
        """TCP packets that came or went: their time and their octets from the IP header on."""
        select.select([self.socket], [], [], wait_s)
        seen = []
        while True:
            try:
                frame, ancillary, _, _ = self.socket.recvmsg(2048, 64)
            except BlockingIOError:
                return seen
            except OSError:  # the interface went down
                continue
            stamp = next((struct.unpack("=qq", data[:16]) for _, kind, data in ancillary if kind == STAMP), None)
            if stamp and frame[12:14] == b"\x08\x00" and frame[23] == 6:
                seen.append((stamp[0] + stamp[1] / 1e9, frame[14:]))


def tcp(packet: bytes) -> tuple[int, int, bytes]:
    """The port that is not the listener's, the flags, and the octets of a TCP packet."""
    header = (packet[0] & 15) * 4
    source, target = struct.unpack("!HH", packet[header:header + 4])
    offset = (packet[header + 12] >> 4) * 4
    return (target if source == PORT else source), packet[header + 13], packet[header + offset:]


class Switch:
    """Cuts and joins one path, by netlink where it is an interface so that the moment is known."""

    def __init__(self, path: Path3, cut: str) -> None:
        self.path = path
        self.cut_kind = cut
        far = [path.hosts[1]] if cut == "far interface" else path.hosts
        self.ends = [(socket_in(host, socket.AF_NETLINK, socket.SOCK_RAW, 0), host) for host in far]
        self.port = socket_in(path.switch, socket.AF_NETLINK, socket.SOCK_RAW, 0)

    def _ask(self, end: socket.socket, kind: int, flags: int, body: bytes) -> None:
        end.send(struct.pack("=IHHII", 16 + len(body), kind, 5 | flags, 1, 0) + body)
        answer = end.recv(4096)
        error = struct.unpack("=i", answer[16:20])[0]
        if error:
            raise OSError(-error, os.strerror(-error))

    def _interface(self, up: bool) -> None:
        for end, host in self.ends:
            index = interface(host, "path")
            self._ask(end, 16, 0, struct.pack("=BBHiII", 0, 0, 0, index, int(up), 1))

    def _address(self, there: bool) -> None:
        end, host = self.ends[0]
        index = interface(host, "path")
        octets = socket.inet_aton(ADDRESSES[0])
        body = struct.pack("=BBBBi", 2, 24, 0, 0, index)
        body += struct.pack("=HH", 8, 2) + octets + struct.pack("=HH", 8, 1) + octets
        self._ask(end, 20 if there else 21, 0x400 if there else 0, body)

    def _ports(self, state: int) -> None:
        for name in ("port0", "port1"):
            index = interface(self.path.switch, name)
            inner = struct.pack("=HHB3x", 5, 1, state)  # IFLA_BRPORT_STATE
            body = struct.pack("=BBHiII", 7, 0, 0, index, 0, 0)  # AF_BRIDGE
            body += struct.pack("=HH", 4 + len(inner), 12 | 0x8000) + inner  # IFLA_PROTINFO
            self._ask(self.port, 19, 0, body)  # RTM_SETLINK

    def turn(self, up: bool) -> tuple[float, float]:
        """Joins or cuts the path; the time before and after."""
        before = time.time()
        if self.cut_kind in ("interface", "far interface"):
            self._interface(up)
        elif self.cut_kind == "address":
            self._address(up)
        else:
            self._ports(3 if up else 0)
        return before, time.time()


INDICES: dict[tuple[str, str], int] = {}


def interface(namespace: str, name: str) -> int:
    """The number of an interface."""
    if (namespace, name) not in INDICES:
        done = subprocess.run(["ip", "-n", namespace, "-j", "link", "show", name], check=True, capture_output=True)
        INDICES[namespace, name] = json.loads(done.stdout)[0]["ifindex"]
    return INDICES[namespace, name]


class Trial:
    """Runs one scenario."""

    def __init__(self, crew: Crew, binary: Path, directory: Path, scenario: Scenario, mark: str, link: str) -> None:
        self.scenario = scenario
        self.path = Path3(mark)
        self.path.build(direct=scenario.cut != "silent")
        stall = 'stall_timeout = "1s"\n' if scenario.session == "dead" else ""
        self.nodes = [
            Node(crew, binary, directory / "dialling",
                 Settings("ipn:1.0", links=[Link("far", f"{ADDRESSES[1]}:{PORT}", stall + link)],
                          routes=[("ipn:2.*", "far")]), self.path.hosts[0]),
            Node(crew, binary, directory / "accepting",
                 Settings("ipn:2.0", listen=f"0.0.0.0:{PORT}", listen_policy=stall,
                          routes=[("ipn:1.*", "ipn:1.0")]), self.path.hosts[1]),
        ]
        self.sender, self.to = (0, "ipn:2.42") if scenario.sender == "dialling" else (1, "ipn:1.42")
        self.switch = Switch(self.path, scenario.cut)
        self.watch = Watch(self.path.hosts[self.sender])
        self.dials = Watch(self.path.hosts[0])
        self.directory = directory

    def start(self) -> None:
        """Starts both nodes and lets them meet."""
        for node in self.nodes:
            node.start()
        self.send(0)
        self.arrived(1)

    def send(self, number: int) -> None:
        """Gives the sender a bundle."""
        file = self.directory / "payload"
        file.write_bytes(SEGMENT_START + str(number).encode() + b"." * 100)
        done = self.nodes[self.sender].run("send", self.to, str(file))
        if done.returncode != 0:
            raise NodeFailed(f"dhow send: {done.stderr}")

    def arrived(self, count: int) -> None:
        """Waits until so many bundles have left the sender for good."""
        end = time.monotonic() + GIVE_UP_S
        while self.nodes[self.sender].metrics().get("dhow_bundles_forwarded_total", 0) < count:
            if time.monotonic() > end:
                raise NodeFailed(f"bundle {count} did not arrive\n{self.nodes[self.sender].last_words()}")
            time.sleep(0.05)

    def round(self, number: int, outage_s: float) -> Round:
        """Makes one cut."""
        self.switch.turn(up=False)
        time.sleep(0.3)
        self.send(number)
        time.sleep(max(0.0, outage_s - 0.3))
        before = self.dials.packets(0)
        attempts = sum(tcp(packet)[1] & 18 == 2 for _, packet in before)
        self.watch.packets(0)
        joined, _ = self.switch.turn(up=True)
        marker = SEGMENT_START + str(number).encode() + b"."
        first, syn, ports = None, None, set()
        end = time.monotonic() + GIVE_UP_S
        while first is None and time.monotonic() < end:
            for at, packet in self.watch.packets(0.5):
                port, flags, octets = tcp(packet)
                if at < joined:
                    continue
                if flags & 2:
                    ports.add(port)
                    syn = syn or (at - joined) * 1e3
                if marker in octets and first is None:
                    first = ((at - joined) * 1e3, port in ports)
        if first is None:
            raise NodeFailed(f"nothing came in {GIVE_UP_S:.0f} s\n{self.nodes[self.sender].last_words()}")
        self.arrived(number + 1)
        return Round(outage_s, first[0], syn, attempts, first[1])

    def run(self, rounds: int, outage_s: tuple[float, float]) -> None:
        """Makes all cuts."""
        self.start()
        for number in range(1, rounds + 1):
            self.dials.packets(0)
            self.scenario.rounds.append(self.round(number, random.uniform(*outage_s)))
            time.sleep(0.5 + random.random())

    def close(self) -> None:
        """Removes the path."""
        for end, _ in self.switch.ends:
            end.close()
        for end in (self.switch.port, self.watch.socket, self.dials.socket):
            end.close()
        self.path.close()


def arguments(words: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python3 -m labs.cases.contact_sides", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="cuts in each scenario (default 10)")
    parser.add_argument("--outage", type=float, nargs=2, default=(2.5, 5.0), metavar="S", help="seconds, from and to")
    parser.add_argument("--cuts", nargs="*", choices=list(CUTS), default=list(CUTS))
    parser.add_argument("--senders", nargs="*", choices=SENDERS, default=SENDERS)
    parser.add_argument("--sessions", nargs="*", choices=list(SESSIONS), default=list(SESSIONS))
    parser.add_argument("--link", default="", help="further keys of the dialling node's link, as TOML")
    parser.add_argument("--json", action="store_true", help="print every round as JSON")
    return parser.parse_args(words)


def measure(place: Workplace) -> Outcome:
    """All scenarios, as a case."""
    if reason := namespaces_possible():
        raise Skipped(reason)
    options = arguments(["--rounds", "2"] if place.quick else [])
    scenarios = cross(options, place.dhow)
    return Outcome(
        f"the first bundle is on the wire within {LIMIT_SEEN_MS:.0f} ms of the return of an interface or address, and "
        f"within {LIMIT_SILENT_MS:.0f} ms of that of a path that was cut in silence (medians)",
        all(scenario.met for scenario in scenarios),
        HEAD, rows(scenarios), {"scenarios": [asdict(s) | {"met": s.met} for s in scenarios]},
        [f"{options.rounds} cuts each, of {options.outage[0]} to {options.outage[1]} s, all scenarios side by side"])


def cross(options: argparse.Namespace, binary: Path) -> list[Scenario]:
    """All scenarios side by side, each in namespaces of its own."""
    scenarios = [
        Scenario(cut, sender, session)
        for cut in options.cuts for sender in options.senders for session in options.sessions
    ]
    bar = Bar(len(scenarios) * options.rounds, "cuts")
    with tempfile.TemporaryDirectory() as directory, Crew() as crew:

        def run(at: int, scenario: Scenario) -> None:
            trial = Trial(crew, binary, Path(directory) / str(at), scenario, f"{os.getpid()}-{at}", options.link)
            try:
                trial.run(options.rounds, tuple(options.outage))
            except (NodeFailed, OSError, subprocess.SubprocessError) as error:
                scenario.fault = str(error)
            finally:
                trial.close()

        threads = [threading.Thread(target=run, args=pair) for pair in enumerate(scenarios)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.2)
            bar.show(sum(len(scenario.rounds) for scenario in scenarios), 0, "")
        bar.clear()
    return scenarios


HEAD = ["cut", "sender", "session", "median ms", "worst ms", "fresh", "SYN/s while cut", "limit ms", "met"]


def rows(scenarios: list[Scenario]) -> list[list[str]]:
    """Medians and worst rounds."""
    made = []
    for it in scenarios:
        if it.fault:
            made.append([it.cut, it.sender, it.session, it.fault.splitlines()[0], "", "", "", "", "NO"])
            continue
        first = sorted(r.first_ms for r in it.rounds)
        made.append([
            it.cut, it.sender, it.session, f"{median(first):.0f}", f"{first[-1]:.0f}",
            f"{sum(r.fresh for r in it.rounds)}/{len(it.rounds)}",
            f"{sum(r.attempts for r in it.rounds) / sum(r.outage_s for r in it.rounds):.1f}",
            f"{it.limit_ms:.0f}", "yes" if it.met else "NO",
        ])
    return made


def main() -> int:
    """Measures and prints; 1 when a limit was missed."""
    options = arguments(sys.argv[1:])
    end_on_sigterm()
    reason = namespaces_possible()
    if reason:
        say(f"skipped: no network namespaces ({reason})")
        return 0
    try:
        scenarios = cross(options, dhow("release"))
    except KeyboardInterrupt:
        say("\ninterrupted")
        return 130
    if options.json:
        found: dict[str, Any] = {"machine": machine(), "scenarios": [asdict(s) | {"met": s.met} for s in scenarios]}
        print(json.dumps(found))
    else:
        print(table(HEAD, rows(scenarios)))
        print(f"machine: {machine()}; command: python3 -m labs.cases.contact_sides {' '.join(sys.argv[1:])}")
    return 0 if all(scenario.met for scenario in scenarios) else 1


if __name__ == "__main__":
    sys.exit(main())
