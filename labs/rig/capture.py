"""An independent judge: what passes over loopback is captured and dissected by Wireshark's tshark."""

import queue
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from labs.rig.crew import Crew

# Expert severity of Wireshark from which on an item is an error (0x800000).
SEVERITY_ERROR = 8_388_608

# Kernel buffer of the capture in MiB, so that a fast transfer loses no packets.
BUFFER_MIB = 64

# The kernel hands captured packets over in blocks, the last one this late at most.
LINGER_S = 0.5

# Seconds until the capture must have begun.
BEGIN_TIMEOUT_S = 10.0


def judge_missing() -> str | None:
    """None when the judge can be had, who also captures; else why not."""
    if reason := reader_missing():
        return reason
    if not shutil.which("dumpcap"):
        return "no dumpcap command"
    probe = subprocess.run(["dumpcap", "-D"], capture_output=True, text=True, check=False)
    return None if "lo" in probe.stdout else "dumpcap may not capture on loopback"


def reader_missing() -> str | None:
    """None when the judge can be had to read what is captured already; else why not."""
    return None if shutil.which("tshark") else "no tshark command"


@dataclass
class Verdict:
    """The verdict on some frames."""

    messages: int  # of TCPCLv4, or frames of LTP, which may hold many segments
    bundles: int  # dissected as BPv7
    faults: list[str]  # malformed frames and expert items of severity error


class Capture:
    """A capture on loopback of some ports, of TCP or UDP, where `spoken` is spoken, or what usually is."""

    def __init__(
            self, crew: Crew, file: Path, ports: Iterable[int], transport: str = "tcp", spoken: str | None = None) -> None:
        ports = list(ports)
        self.crew = crew
        self.dissection = Dissection(file, ports, transport=transport, spoken=spoken)
        if not ports:
            raise ValueError("a capture needs ports")
        expression = " or ".join(f"{transport} port {port}" for port in ports)
        # -p: loopback has no promiscuous mode; dumpcap talks on standard error, so the two are joined.
        command = ["sh", "-c", 'exec dumpcap "$@" 2>&1', "dumpcap", "-i", "lo", "-p", "-B", str(BUFFER_MIB),
                   "-f", expression, "-w", str(file)]
        self.program = crew.start(command)
        end = time.monotonic() + BEGIN_TIMEOUT_S
        while True:
            try:
                line = self.program.line(max(0.1, end - time.monotonic()))
            except queue.Empty:
                raise RuntimeError("dumpcap did not begin to capture") from None
            if line is None:
                raise RuntimeError("dumpcap ended at once")
            if line.startswith("File:"):
                return

    def stop(self) -> None:
        """Ends the capture; what was captured is on disk."""
        time.sleep(LINGER_S)
        self.program.process.send_signal(signal.SIGINT)
        self.program.wait(10)
        self.crew.dismiss(self.program)

    def verdict(self, frames: str | None = None) -> Verdict:
        """The verdict on the frames that a display filter selects; on all, if none is given."""
        return self.dissection.verdict(frames or self.dissection.transport)


@dataclass
class Dissection:
    """A file of packets as the judge reads it."""

    file: Path
    ports: list[int]  # where TCPCLv4 is spoken, or where datagrams are bundles
    more: list[str] = field(default_factory=list)  # further arguments
    transport: str = "tcp"
    spoken: str | None = None

    def verdict(self, frames: str = "tcp") -> Verdict:
        """Dissects the frames that a display filter selects, in two passes, so that later frames count too."""
        faults = self.fields(
            f"({frames}) && (_ws.malformed || _ws.expert.severity >= {SEVERITY_ERROR})",
            "frame.number", f"{self.transport}.srcport", f"{self.transport}.dstport", "_ws.expert.message",
        )
        layer, kind = ("ltp", "ltp.type") if self.spoken == "ltp" else ("tcpcl", "tcpcl.v4.mhdr.type")
        types = self.fields(f"({frames}) && {layer}", kind)
        bundles = self.fields(f"({frames}) && bpv7", "bpv7.primary.version")
        return Verdict(
            messages=sum(len(line.split(",")) if layer == "tcpcl" else 1 for line in types if line),
            bundles=sum(len(line.split(",")) for line in bundles if line),
            faults=faults,
        )

    def fields(self, selection: str, *names: str) -> list[str]:
        """Fields of the frames that a display filter selects, a line each."""
        # Two processors may capture the packets of one connection in another order than it sent them.
        command = ["tshark", "-2", "-r", str(self.file), "-o", "tcp.reassemble_out_of_order:TRUE",
                   "-Y", selection, "-T", "fields", *self.more]
        spoken = self.spoken or {"tcp": "tcpcl", "udp": "bundle"}[self.transport]
        for port in self.ports:
            command += ["-d", f"{self.transport}.port=={port},{spoken}"]
        for name in names:
            command += ["-e", name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        return done.stdout.splitlines()
