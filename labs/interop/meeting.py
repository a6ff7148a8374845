"""Nodes that find each other by their beacons, with a node behind each: two of Dhow, and two of IBR-DTN, or one of dtn7-rs."""

import random
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from labs.interop import installation
from labs.interop.peer import Skipped, Unable, last_line
from labs.rig.bridge import Bridge
from labs.rig.capture import LINGER_S, reader_missing
from labs.rig.crew import Crew
from labs.rig.network import namespaces_possible
from labs.rig.node import Node, NodeFailed, Settings
from labs.rig.terminal import say, table

# The hosts, in the order in which they stand, and the networks that two of them share.
FAR, NEAR, STRANGER, BEYOND = range(4)
NETWORKS = [(FAR, NEAR), (NEAR, STRANGER), (STRANGER, BEYOND)]
SHARED = 1

SIZES = {"1 B": 1, "10 kB": 10_000, "1 MB": 1_000_000}
SERVICE = "in"
PATIENCE_S = 60.0
POLL_S = 0.02

# Contact headers begin so (RFC 7242 4.1, RFC 9174 4.2).
MAGIC = "64746e21"


@dataclass
class Cell:
    """One bundle from one end to another."""

    way: str
    size: str
    seconds: float
    reason: str | None


@dataclass
class Outcome:
    """A meeting of one kind."""

    name: str
    found_s: float | None  # from the first beacon of the other program to both contact headers
    cells: list[Cell]
    reason: str | None = None  # why nothing was tried


class Meeting(ABC):
    """Hosts one behind the other; the first two are nodes of Dhow."""

    hosts: tuple[int, ...]
    beacons: int  # the port
    layer: str  # keys of links and listeners for the other program
    protocol = "tcpcl"  # of links to it
    beacon: str  # keys of `[[discover]]` for it
    inner = ""  # keys of sessions between nodes of Dhow that its bundles pass

    def __init__(self, crew: Crew, binary: Path, directory: Path, router: str, names: list[str]) -> None:
        self.crew = crew
        self.binary = binary
        self.directory = directory
        self.router = router
        self.names = names
        self.bridge = Bridge(4, NETWORKS)
        self.nodes: dict[int, Node] = {}

    @classmethod
    @abstractmethod
    def look(cls) -> None:
        """Raises Skipped where the other program is not here."""

    @abstractmethod
    def start_other(self, host: int) -> None:
        """Starts the other program at a host."""

    @abstractmethod
    def other_sends(self, host: int, to: str, file: Path) -> None:
        """It sends a file. Raises Unable."""

    @abstractmethod
    def other_waits(self, host: int, service: str) -> Callable[[], bytes | None]:
        """It waits for one bundle, and hands over its payload when asked, once that is there."""

    def close(self) -> None:
        """Ends all programs and removes the networks."""
        self.crew.close()
        self.bridge.close()

    def service(self, octets: int) -> str:
        """Where a bundle of so many octets is received: what is late, or comes once more, is not taken for another one."""
        return f"{SERVICE}{octets}"

    def room(self, host: int) -> Path:
        """The directory of a host."""
        room = self.directory / f"host{host + 1}"
        room.mkdir(parents=True, exist_ok=True)
        return room

    def node_id(self, host: int) -> str:
        """The node ID at a host, as Dhow writes it."""
        return f"dtn://{self.names[host]}/"

    def node(self, host: int) -> Node:
        """A node of Dhow: on each network it listens and is found as the nodes there want it."""
        more = (
            f'[[link]]\nname = "own"\naddress = "192.0.2.1"\nenabled = false\n{self.inner}'
            f'[[discover]]\ninterfaces = ["{Bridge.device(FAR)}"]\nlike = "own"\n'
            f'[[routing]]\nto = "dtn://**/**"\nrouter = "{self.router}"\n')
        if host == NEAR:
            more += (
                f'[[listen]]\naddress = "{Bridge.address(host, SHARED)}:4556"\n{self.layer}'
                f'[[link]]\nname = "others"\nprotocol = "{self.protocol}"\naddress = "192.0.2.1"\nenabled = false\n{self.layer}'
                f'[[discover]]\ninterfaces = ["{Bridge.device(SHARED)}"]\nlike = "others"\n{self.beacon}')
        settings = Settings(self.node_id(host), listen=f"{Bridge.address(host, FAR)}:4556", listen_policy=self.inner, more=more)
        return Node(self.crew, self.binary, self.room(host), settings, self.bridge.hosts[host])

    def capture(self) -> Path:
        """What passes on the shared network goes into a file from now on."""
        file = self.directory / "shared.pcapng"
        command = ["sh", "-c", 'exec dumpcap "$@" 2>&1', "dumpcap", "-i", Bridge.device(SHARED), "-p", "-w", str(file)]
        self.sniffer = self.crew.start(command, namespace=self.bridge.hosts[NEAR])
        while (line := self.sniffer.line(10)) is not None and not line.startswith("File:"):
            pass
        return file

    def found_in(self, file: Path) -> float | None:
        """Seconds from the first beacon of the other program to the second of the two contact headers."""
        time.sleep(LINGER_S)
        self.sniffer.process.send_signal(signal.SIGINT)
        self.sniffer.wait(10)
        other, own = (Bridge.address(host, SHARED) for host in (STRANGER, NEAR))
        command = ["tshark", "-r", str(file), "-T", "fields", "-e", "frame.time_epoch", "-e", "ip.src", "-e", "udp.dstport",
                   "-e", "tcp.payload", "-Y", f"ip && (udp.dstport == {self.beacons} || tcp.len > 0)"]
        lines = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
        first: dict[str, float] = {}
        for at, source, port, payload in (line.split("\t") for line in lines):
            if port:
                first.setdefault("beacon" if source == other else "own beacon", float(at))
            elif payload.replace(":", "").startswith(MAGIC):
                first.setdefault(source, float(at))
        if not {"beacon", other, own} <= set(first):
            return None
        # The other one may have dialled by a beacon of this node before it said anything of itself.
        return max(0.0, first[other] - first["beacon"], first[own] - first["beacon"])

    def run(self) -> Outcome:
        """Starts all nodes, the other program's inner one last, and sends bundles both ways."""
        self.bridge.settle()
        self.nodes = {host: self.node(host) for host in (FAR, NEAR)}
        for node in self.nodes.values():
            node.start()
        if BEYOND in self.hosts:
            self.start_other(BEYOND)
        time.sleep(2)
        file = self.capture() if reader_missing() is None else None
        self.start_other(STRANGER)
        self.wait("a session", lambda: self.node_id(STRANGER) in self.peers())
        found_s = self.found_in(file) if file else None
        cells = []
        for source, target in self.ways():
            for size, octets in SIZES.items():
                cells.append(self.cross(source, target, size, octets))
        return Outcome(self.name(), found_s, cells)

    def name(self) -> str:
        """What is tried, in a few words."""
        return f"{type(self).__name__}, {self.router}, {self.names[NEAR]} and {self.names[STRANGER]}"

    def ways(self) -> list[tuple[int, int]]:
        """From whom bundles go to whom."""
        ways = [(NEAR, STRANGER), (FAR, self.hosts[-1])]
        return [way for one, other in ways for way in ((one, other), (other, one))]

    def peers(self) -> list[str]:
        """Who has a session with the node on the shared network."""
        return [it["node_id"] for it in self.nodes[NEAR].show("neighbours") if it["sessions"] > 0]

    def wait(self, what: str, done: Callable[[], object]) -> None:
        """Waits for something. Raises Unable."""
        end = time.monotonic() + PATIENCE_S
        while not done():
            if time.monotonic() > end:
                raise Unable(f"{what} did not come")
            time.sleep(POLL_S)

    def cross(self, source: int, target: int, size: str, octets: int) -> Cell:
        """One bundle."""
        way = f"{self.names[source]} to {self.names[target]}"
        payload = random.Random(f"{way}, {size}").randbytes(octets)
        file = self.room(source) / "payload"
        file.write_bytes(payload)
        service = self.service(octets)
        waits = (self.dhow_waits if target in self.nodes else self.other_waits)(target, service)
        begun, reason = time.monotonic(), None
        try:
            to = f"{self.node_id(target)}{service}"
            (self.dhow_sends if source in self.nodes else self.other_sends)(source, to, file)
            taken: list[bytes] = []

            def arrived() -> bool:
                if (come := waits()) is not None:
                    taken.append(come)
                return bool(taken)

            self.wait("it", arrived)
            if taken[0] != payload:
                reason = f"{len(taken[0])} octets arrived, and not those that were sent"
        except (Unable, NodeFailed) as error:
            reason = str(error)
        cell = Cell(way, size, time.monotonic() - begun, reason)
        say(f"{self.name()}: {way}, {size}: {reason or f'arrived whole after {cell.seconds:.2f} s'}")
        return cell

    def dhow_sends(self, host: int, to: str, file: Path) -> None:
        """A node of Dhow sends a file. Raises Unable."""
        done = self.nodes[host].run("send", to, str(file))
        if done.returncode != 0:
            raise Unable(f"dhow send: {last_line(done.stderr)}")

    def dhow_waits(self, host: int, service: str) -> Callable[[], bytes | None]:
        """A node of Dhow waits for one bundle."""
        inbox = Path(tempfile.mkdtemp(dir=self.room(host)))
        program = self.nodes[host].begin("recv", f"{self.node_id(host)}{service}", "--count", "1", "--out", str(inbox))

        def taken() -> bytes | None:
            if program.running():
                return None
            return next((it.read_bytes() for it in inbox.iterdir()), b"")

        return taken


class IbrDtn(Meeting):
    """IBR-DTN, which has version 6 and TCPCLv3, with the router of the same name."""

    hosts = (FAR, NEAR, STRANGER, BEYOND)
    beacons = 4551
    protocol = "tcpcl3"
    layer = 'bundle_versions = [6]\nage_dialect = "type10"\nreading = "lenient"\n'
    beacon = 'format = ["ipnd-0x02"]\n'
    programs = ("dtnd", "dtnsend", "dtnrecv", "dtnping")

    @classmethod
    def look(cls) -> None:
        for program in cls.programs:
            if shutil.which(program) is None:
                raise Skipped(f"{program} is not on the PATH")
        asked = subprocess.run(["dtnd", "--version"], capture_output=True, text=True, timeout=10, check=False)
        if "IBR-DTN" not in asked.stdout + asked.stderr:
            raise Skipped("dtnd on the PATH is not that of IBR-DTN")

    def start_other(self, host: int) -> None:
        room = self.room(host)
        for it in ("store", "blobs"):
            (room / it).mkdir()
        networks = [at for at, hosts in enumerate(NETWORKS) if host in hosts]
        lines = [
            f"local_uri = dtn://{self.names[host]}", f"api_socket = {room / 'api.sock'}",
            f"storage_path = {room / 'store'}", f"blob_path = {room / 'blobs'}", f"routing = {self.router}",
            "prophet_push_notification = yes", "net_interfaces = " + " ".join(f"lan{at}" for at in networks)]
        for at in networks:
            lines += [f"net_lan{at}_type = tcp", f"net_lan{at}_interface = {Bridge.device(at)}", f"net_lan{at}_port = 4556"]
        (room / "dtnd.conf").write_text("\n".join([*lines, ""]))
        self.crew.start(["dtnd", "-c", str(room / "dtnd.conf")], log=room / "dtnd.log", namespace=self.bridge.hosts[host])

    def command(self, host: int, program: str, *words: str) -> list[str]:
        """One of its programs, at the node of a host."""
        return [program, "-U", str(self.room(host) / "api.sock"), *words]

    def other_sends(self, host: int, to: str, file: Path) -> None:
        command = self.command(host, "dtnsend", to, str(file))
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if done.returncode != 0:
            raise Unable(f"dtnsend: {last_line(done.stderr or done.stdout)}")

    def other_waits(self, host: int, service: str) -> Callable[[], bytes | None]:
        output = Path(tempfile.mkdtemp(dir=self.room(host))) / "payload"
        words = ["--name", service, "--count", "1", "--file", str(output)]
        program = self.crew.start(self.command(host, "dtnrecv", *words), log=self.room(host) / "dtnrecv.log")
        return lambda: None if program.running() else output.read_bytes() if output.exists() else b""


class Dtn7(Meeting):
    """dtn7-rs, without a node behind it: it has version 7 and TCPCLv4, and floods as `epidemic` does."""

    hosts = (FAR, NEAR, STRANGER)
    beacons = 3003
    layer = 'reading = "lenient"\nresume = false\n'
    inner = 'reading = "lenient"\n'
    beacon = 'address = ["224.0.0.26:3003"]\nformat = ["cbor"]\n'
    web = "3000"

    @classmethod
    def look(cls) -> None:
        """It is installed where it is missing."""

    def start_other(self, host: int) -> None:
        self.commands = installation.dtn7()
        store = self.room(host) / "store"
        store.mkdir()
        # It joins its group on the interface to which the system routes that.
        route = ["ip", "-n", self.bridge.hosts[host], "route", "add", "224.0.0.0/4", "dev", Bridge.device(SHARED)]
        subprocess.run(route, capture_output=True, check=True)
        endpoints = [word for octets in SIZES.values() for word in ("-e", self.service(octets))]
        self.crew.start(
            [str(self.commands / "dtnd"), "-4", "-n", self.names[host], *endpoints, "-r", self.router, "-w", self.web,
             "-C", "tcp", "-E", "224.0.0.26:3003", "-i", "1s", "-W", str(store)],
            log=self.room(host) / "dtnd.log", namespace=self.bridge.hosts[host])

    def command(self, host: int, program: str, *words: str) -> list[str]:
        """One of its programs, where its node is."""
        return ["ip", "netns", "exec", self.bridge.hosts[host], str(self.commands / program), "-p", self.web, *words]

    def other_sends(self, host: int, to: str, file: Path) -> None:
        command = self.command(host, "dtnsend", "-r", to, str(file))
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if done.returncode != 0 or "Result: Sent" not in done.stdout:
            raise Unable(f"dtnsend: {last_line(done.stderr or done.stdout)}")

    def other_waits(self, host: int, service: str) -> Callable[[], bytes | None]:
        output = Path(tempfile.mkdtemp(dir=self.room(host))) / "payload"

        def taken() -> bytes | None:
            command = self.command(host, "dtnrecv", "-e", service, "-o", str(output))
            subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
            return output.read_bytes() if output.exists() else None

        return taken


# The meetings that are tried: by kind and router, with the IDs of both orders, since the smaller one dials.
IBR_NAMES = (["dhow-a", "dhow-b", "ibr-c", "ibr-d"], ["node-a", "node-b", "ibr-c", "ibr-d"])
DTN7_NAMES = (["dhow-a", "dhow-b", "other"], ["zhow-a", "zhow-b", "other"])
MEETINGS: list[tuple[type[Meeting], str, list[str]]] = [
    *((IbrDtn, router, names) for router in ("epidemic", "prophet") for names in IBR_NAMES),
    *((Dtn7, "epidemic", names) for names in DTN7_NAMES)]


def meet(binary: Path, directory: Path, kinds: set[type[Meeting]]) -> tuple[list[Outcome], list[str]]:
    """All meetings of some kinds; and what was skipped, and why."""
    outcomes: list[Outcome] = []
    notes: list[str] = []
    if (reason := namespaces_possible()) is not None:
        return [], [f"meetings: skipped, they need network namespaces: {reason}"]
    for kind in sorted(kinds, key=lambda it: it.__name__):
        try:
            kind.look()
        except Skipped as skipped:
            notes.append(f"{kind.__name__}, found by beacons: skipped, {skipped}")
            continue
        for number, (_, router, names) in enumerate(it for it in MEETINGS if it[0] is kind):
            with Crew() as crew:
                meeting = kind(crew, binary, directory / f"{kind.__name__}-{number}", router, names)
                try:
                    outcomes.append(meeting.run())
                except (Unable, NodeFailed, installation.NotInstalled) as error:
                    outcomes.append(Outcome(meeting.name(), None, [], str(error)))
                finally:
                    meeting.close()
    return outcomes, notes


def text(outcomes: list[Outcome]) -> str:
    """A table of bundles that arrived, and after how long, and what did not."""
    rows, reasons = [], []
    for outcome in outcomes:
        found = "?" if outcome.found_s is None else f"{outcome.found_s:.2f} s"
        if outcome.reason:
            reasons.append(f"✗ {outcome.name}: {outcome.reason}")
        ways: dict[str, list[Cell]] = {}
        for cell in outcome.cells:
            ways.setdefault(cell.way, []).append(cell)
            if cell.reason:
                reasons.append(f"✗ {outcome.name}, {cell.way}, {cell.size}: {cell.reason}")
        rows += [[outcome.name, found, way, *(f"{cell.seconds:.2f} s" if cell.reason is None else "✗" for cell in cells)]
                 for way, cells in ways.items()]
    return "\n".join([table(["found by beacons", "after", "way", *SIZES], rows), *reasons])
