"""Files over LTP beside plain datagrams and the disk: loopback, a paced link, and a long path that loses datagrams.

    python3 -m labs.ltp_files [--megabytes 1000] [--only loopback,memory,paced,long] [--json]

The paced link and the long path are network namespaces, which need root.
"""

import argparse
import json
import os
import resource
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from labs.rig.binary import dhow
from labs.rig.crew import Crew, end_on_sigterm
from labs.rig.hosts import Hosts
from labs.rig.machine import machine
from labs.rig.network import namespaces_possible
from labs.rig.terminal import say, table

# Segments as `dhow ltp send` makes them, and their headers of UDP and IP.
SEGMENT_OCTETS, HEADERS_OCTETS, ETHERNET_OCTETS = 1_400, 28, 14

# Datagrams that the kernel cuts from one call.
TOGETHER = 46

# Options of UDP sockets that Python does not name (udp(7)).
UDP_SEGMENT, UDP_GRO = 103, 104

YARDSTICK_S = 3.0
IPERF3_S = 20
TIMEOUT_S = 900.0
LOOPBACK_BITS_PER_S = 3_600e6
PACED_BITS_PER_S = 500e6
LONG_BITS_PER_S, LONG_LIGHT_TIME, LONG_LOSS = 100e6, "2s", "0.01"

# A queue as long as the path of a satellite's modem has, ms.
PACED_QUEUE_MS = 20

# Parts of the links' rates at which files leave: what is over covers the granularity of clocks.
PART = 0.995


@dataclass
class Row:
    """One transfer, or one yardstick."""

    name: str
    octets: int
    seconds: float
    cpu_s: float  # of both ends
    most_bits_per_s: float  # segments that the path takes, or the yardstick's rate

    @property
    def bits_per_s(self) -> float:
        """Octets of files in a second, as bits."""
        return self.octets * 8 / self.seconds

    def cells(self) -> list[str]:
        """The row as it is shown."""
        return [
            self.name, f"{self.octets / 1e6:,.0f} MB", f"{self.seconds:.2f} s", f"{self.bits_per_s / 1e6:,.0f} Mbit/s",
            f"{self.bits_per_s / self.most_bits_per_s:.1%}", f"{self.cpu_s / self.octets * 1e9:.2f} s/GB",
        ]


def cpu_seconds() -> float:
    """Processor time of this program and all children that have ended."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(it.ru_utime + it.ru_stime for it in spent)


def datagrams() -> Row:
    """Plain datagrams over loopback, cut and put together by the kernel (GSO, GRO), read and dropped."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taking, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        taking.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        taking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        taking.bind(("127.0.0.1", 0))
        taking.settimeout(0.5)
        sending.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, SEGMENT_OCTETS)
        sending.connect(taking.getsockname())
        came = [0]

        def take() -> None:
            buffer = bytearray(1 << 16)
            try:
                while True:
                    came[0] += taking.recv_into(buffer)
            except TimeoutError:
                return

        reader = threading.Thread(target=take)
        reader.start()
        octets, before = bytes(TOGETHER * SEGMENT_OCTETS), cpu_seconds()
        start = time.monotonic()
        while time.monotonic() - start < YARDSTICK_S:
            sending.send(octets)
        seconds = time.monotonic() - start
        reader.join()
    return Row("datagrams alone (GSO, GRO)", came[0], seconds, cpu_seconds() - before, came[0] * 8 / seconds)


def disk(file: Path, directory: Path) -> Row:
    """The same octets written and synced, by nobody else's help."""
    before, start = cpu_seconds(), time.monotonic()
    with file.open("rb") as source, (directory / "copy").open("wb") as copy:
        while piece := source.read(1 << 20):
            copy.write(piece)
        copy.flush()
        os.fsync(copy.fileno())
    seconds = time.monotonic() - start
    (directory / "copy").unlink()
    octets = file.stat().st_size
    return Row(f"the file, written and synced in {directory}", octets, seconds, cpu_seconds() - before, octets * 8 / seconds)


@dataclass
class Bench:
    """The means of a transfer."""

    crew: Crew
    binary: Path
    file: Path
    log: Path

    def cross(
            self, name: str, inbox: Path, address: str, most: float, rate: float, light_time: str,
            namespaces: tuple[str | None, str | None] = (None, None)) -> Row:
        """The file, from one program to another; it has come when the sender knows that it is durable."""
        before = cpu_seconds()
        argv = [str(self.binary), "ltp"]
        receiver = self.crew.start(
            [*argv, "recv", "--listen", f"{address}:0", "--out", str(inbox), "--count", "1", "--light-time", light_time,
             "--rate", "10Mbit", "--json"], log=self.log, namespace=namespaces[1])
        listening = json.loads(receiver.line(TIMEOUT_S) or "{}")["listening"]
        sender = self.crew.start(
            [*argv, "send", str(self.file), f"2@{listening}", "--rate", f"{int(rate / 8) * 8}bit", "--light-time", light_time, "--json"],
            log=self.log, namespace=namespaces[0])
        sent = json.loads(sender.line(TIMEOUT_S) or "{}")
        if sent.get("state") != "acknowledged" or sender.wait(TIMEOUT_S) != 0 or receiver.wait(TIMEOUT_S) != 0:
            raise RuntimeError(f"{name}: {sent}\n{self.log.read_text()}")
        for path in inbox.iterdir():
            path.unlink()
        return Row(name, sent["octets"], sent["seconds"], cpu_seconds() - before, most)


def payload(rate: float, headers: int) -> float:
    """Octets of segments in a second, as bits, where a link of this rate counts so many octets of headers with each."""
    return rate * SEGMENT_OCTETS / (SEGMENT_OCTETS + headers)


def paced(bench: Bench, inbox: Path) -> Row:
    """A cable between two namespaces, limited by tbf."""
    with Hosts("east", "west") as hosts:
        link = hosts.veth(0, 1)
        link.limit(PACED_BITS_PER_S / 8, PACED_QUEUE_MS)
        most = payload(PACED_BITS_PER_S, HEADERS_OCTETS + ETHERNET_OCTETS)
        return bench.cross(
            "a link paced at 500 Mbit/s", inbox, link.right.address, most, most * PART, "1ms",
            (hosts.names[0], hosts.names[1]))


def iperf3(crew: Crew, address: str, rate: float, most: float, namespaces: tuple[str, str]) -> list[Row]:
    """Datagrams of iperf3 over the same path, as many as arrive; none where there is no iperf3."""
    if not shutil.which("iperf3"):
        say("skipped the yardstick of the long path: no iperf3 command")
        return []
    before = cpu_seconds()
    server = crew.start(["iperf3", "--server", "--one-off", "--bind", address, "--forceflush"], namespace=namespaces[1])
    while (line := server.line(TIMEOUT_S)) is not None and "listening" not in line:
        pass
    client = crew.start(
        ["iperf3", "--client", address, "--udp", "--bitrate", str(int(rate)), "--length", str(SEGMENT_OCTETS),
         "--time", str(IPERF3_S), "--json"], namespace=namespaces[0])
    lines: list[str] = []
    while (line := client.line(TIMEOUT_S)) is not None:
        lines.append(line)
    if client.wait(TIMEOUT_S) != 0 or server.wait(TIMEOUT_S) != 0:
        raise RuntimeError(f"iperf3: {lines[-20:]}")
    [stream] = json.loads("\n".join(lines))["end"]["streams"]
    sent = stream["udp"]
    octets = (sent["packets"] - sent["lost_packets"]) * SEGMENT_OCTETS
    return [Row("iperf3 -u over the same path", octets, sent["seconds"], cpu_seconds() - before, most)]


def far(bench: Bench, inbox: Path) -> list[Row]:
    """A path with a light time between two namespaces, which loses datagrams both ways."""
    with Hosts("east", "west") as hosts:
        link = hosts.emulated(
            bench.crew, bench.binary, 0, 1, "--rate", f"{int(LONG_BITS_PER_S)}bit", "--delay", LONG_LIGHT_TIME, "--loss", LONG_LOSS,
            log=bench.log)
        most = payload(LONG_BITS_PER_S, HEADERS_OCTETS)
        namespaces = (hosts.names[0], hosts.names[1])
        rows = iperf3(bench.crew, link.right.address, most * PART, most, namespaces)
        rows.append(bench.cross(
            f"100 Mbit/s, {LONG_LIGHT_TIME} each way, 1 % lost", inbox, link.right.address, most, most * PART,
            LONG_LIGHT_TIME, namespaces))
        return rows


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="labs.ltp_files", description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=1_000, help="octets of the file, in millions")
    parser.add_argument("--only", default="loopback,memory,paced,long")
    parser.add_argument("--profile", default="release")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    end_on_sigterm()
    directory, memory = (Path(tempfile.mkdtemp(prefix="dhow-ltp-", dir=place)) for place in (None, "/dev/shm"))
    rows: list[Row] = []
    try:
        with Crew() as crew:
            file = directory / "file"
            with file.open("wb") as out:
                for _ in range(options.megabytes):
                    out.write(os.urandom(1_000_000))
            bench = Bench(crew, dhow(options.profile), file, directory / "log")
            inboxes = [place / "inbox" for place in (directory, memory)]
            for inbox in inboxes:
                inbox.mkdir()
            yardstick = datagrams()
            rows.append(yardstick)
            wanted: dict[str, Callable[[], list[Row]]] = {
                "loopback": lambda: [disk(file, directory), bench.cross(
                    "loopback, durable on disk", inboxes[0], "127.0.0.1", yardstick.bits_per_s, LOOPBACK_BITS_PER_S, "1ms")],
                "memory": lambda: [bench.cross(
                    "loopback, into memory (tmpfs)", inboxes[1], "127.0.0.1", yardstick.bits_per_s, LOOPBACK_BITS_PER_S, "1ms")],
                "paced": lambda: [paced(bench, inboxes[0])],
                "long": lambda: far(bench, inboxes[0]),
            }
            for name in options.only.split(","):
                if name in ("paced", "long") and (reason := namespaces_possible()):
                    say(f"skipped {name}: {reason}")
                    continue
                say(f"measuring {name}")
                rows += wanted[name]()
    finally:
        for place in (directory, memory):
            shutil.rmtree(place, ignore_errors=True)
    if options.json:
        print(json.dumps({"rows": [asdict(row) for row in rows], "machine": machine()}))
    else:
        print(table(["", "octets", "time", "rate", "of what the path takes", "both processors"], [row.cells() for row in rows]))
        print(machine())
    return 0


if __name__ == "__main__":
    sys.exit(main())
