"""Files over two hops of LTP without bundles, beside one hop: the paper's Table 1 on sockets (docs/ltp.md).

    python3 -m labs.ltp_hops [OCTETS…]

Each hop takes one packet of 1,400 octets in 20 ms, as labs/deep-space has it; the last one has the light time, by a delay in both
directions on loopback. Prints, for each size and light time, goodput (size over the time until all is durable at the far end, less
one light time) of one hop, of two with cut-through, and of two with store and forward.
"""

import heapq
import json
import random
import shutil
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

from labs.rig.binary import dhow
from labs.rig.crew import Crew, Program
from labs.rig.node import free_port

# UDP payload of a hop.
RATE = "560kbit"

SIZES = [512_000, 1_000_000]

LIGHT_TIMES_S = [0.01, 1.0]

SOURCE, RELAY, DESTINATION = 1, 2, 9

PATIENCE_S = 300.0

DATAGRAM_OCTETS = 65_535


class Delay:
    """A way to a port that takes a time."""

    def __init__(self, port: int, time_s: float) -> None:
        self.to, self.time_s = ("127.0.0.1", port), time_s
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = int(self.socket.getsockname()[1])
        threading.Thread(target=self.carry, daemon=True).start()

    def carry(self) -> None:
        waiting: list[tuple[float, int, bytes]] = []
        count = 0
        while True:
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                self.socket.sendto(heapq.heappop(waiting)[2], self.to)
            self.socket.settimeout(max(waiting[0][0] - now, 0.0001) if waiting else 1.0)
            try:
                datagram = self.socket.recv(DATAGRAM_OCTETS)
            except TimeoutError:
                continue
            count += 1
            heapq.heappush(waiting, (time.monotonic() + self.time_s, count, datagram))


class Way:
    """Programs of one run."""

    def __init__(self, directory: Path, light_time_s: float) -> None:
        self.directory, self.light_time_s = directory, light_time_s
        self.crew = Crew()
        self.binary = str(dhow("debug"))

    def start(self, light_time_s: float, *arguments: str) -> Program:
        options = ("--rate", RATE, "--light-time", f"{light_time_s:g}s", "--json")
        return self.crew.start([self.binary, "ltp", *arguments, *options], log=self.directory / "log")

    def seconds(self, file: Path, *passing: str | None) -> float:
        """Time until the far end has a file, by one hop or, with a way of passing on, by two."""
        far, near, middle = (free_port(socket.SOCK_DGRAM) for _ in range(3))
        last, own = (RELAY, middle) if passing else (SOURCE, near)
        there, back = Delay(far, self.light_time_s), Delay(own, self.light_time_s)
        receiver = self.start(
            self.light_time_s, "recv", "--engine", str(DESTINATION), "--listen", f"127.0.0.1:{far}", "--out",
            str(self.directory / "inbox"), "--via", f"{last}@127.0.0.1:{back.port}")
        receiver.line(PATIENCE_S)
        to, hop_time = f"{DESTINATION}@127.0.0.1:{there.port}", self.light_time_s
        if passing:
            relay = self.start(
                self.light_time_s, "relay", "--engine", str(RELAY), "--listen", f"127.0.0.1:{middle}", "--dir",
                str(self.directory / "spool"), "--route", f"{DESTINATION}={to}", *filter(None, passing))
            relay.line(PATIENCE_S)
            to, hop_time = f"{RELAY}@127.0.0.1:{middle}", 0.01
        sender = self.start(
            hop_time, "send", str(file), to, "--to", str(DESTINATION), "--report", "--bind", f"127.0.0.1:{near}")
        line = sender.line(PATIENCE_S)
        assert line is not None, (self.directory / "log").read_text()
        report = json.loads(line)["report"]
        assert report["status"] == "complete", report
        # The report took a light time back.
        return float(report["seconds"]) - self.light_time_s


def main(arguments: list[str]) -> None:
    print("| size | light time | one hop, kB/s | cut-through | store and forward | cut-through, time of one hop |")
    print("|---|---|---|---|---|---|")
    for octets in [int(it) for it in arguments] or SIZES:
        for light_time_s in LIGHT_TIMES_S:
            directory = Path(tempfile.mkdtemp(prefix="dhow-lab-"))
            file = directory / "file"
            file.write_bytes(random.Random(octets).randbytes(octets))
            times = []
            for passing in ((), (None,), ("--store-and-forward",)):
                way = Way(directory, light_time_s)
                try:
                    times.append(way.seconds(file, *passing))
                finally:
                    way.crew.close()
            goodput = [octets / (it - light_time_s) / 1000 for it in times]
            shown = " | ".join(f"{it:.1f}" for it in goodput)
            print(f"| {octets / 1000:g} kB | {light_time_s:g} s | {shown} | {times[1] / times[0]:.3f} |", flush=True)
            shutil.rmtree(directory)


if __name__ == "__main__":
    main(sys.argv[1:])
