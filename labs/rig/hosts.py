"""Hosts as network namespaces, joined two by two: by veth pairs, or by `dhow channel` where a path must take time."""

import ipaddress
import json
import os
import queue
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labs.rig.crew import Crew, Program
from labs.rig.node import process_cpu_seconds

# The bucket of tbf: 20 ms at the rate, at least 16 kB, so that segmentation offload is not cut into drops.
TBF_BURST_S = 0.02
TBF_BURST_MIN_OCTETS = 16_384
TBF_LATENCY_MS = 50

# Seconds until a channel must be ready.
READY_TIMEOUT_S = 10.0

# Addresses kept for such tests (RFC 2544), apart from those of labs/rig/network.py.
FIRST_NETWORK = ipaddress.IPv4Address("198.18.128.0")

class HostsFailed(Exception):
    """Hosts could not be made or joined; says why."""


def run(*words: str) -> str:
    """Runs a command to its end; its output."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HostsFailed(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


@dataclass
class End:
    """A host's end of a link."""

    namespace: str
    device: str
    address: str

    def set(self, state: str) -> None:
        """Takes the interface `up` or `down`."""
        run("ip", "-n", self.namespace, "link", "set", self.device, state)

    def octets_sent(self) -> int:
        """Octets that left through the interface since it was made, all headers of IP and below included."""
        shown = json.loads(run("ip", "-n", self.namespace, "-json", "-statistics", "link", "show", self.device))
        return int(shown[0]["stats64"]["tx"]["bytes"])


class Veth:
    """A link that the kernel makes: a cable with no length."""

    def __init__(self, left: End, right: End) -> None:
        self.left, self.right = left, right
        run("ip", "link", "add", left.device, "netns", left.namespace,
            "type", "veth", "peer", "name", right.device, "netns", right.namespace)
        for end in (left, right):
            run("ip", "-n", end.namespace, "address", "add", f"{end.address}/30", "dev", end.device)
            run("ip", "-n", end.namespace, "link", "set", end.device, "up")

    def limit(self, octets_per_s: float, latency_ms: int = TBF_LATENCY_MS) -> None:
        """Limits the rate of each direction (tbf); what would wait longer than the latency is dropped."""
        burst = max(TBF_BURST_MIN_OCTETS, int(octets_per_s * TBF_BURST_S))
        for end in (self.left, self.right):
            run("tc", "-n", end.namespace, "qdisc", "replace", "dev", end.device, "root", "tbf",
                "rate", f"{int(octets_per_s * 8)}bit", "burst", str(burst), "latency", f"{latency_ms}ms")

    def cut(self) -> None:
        """Takes both interfaces down."""
        for end in (self.left, self.right):
            end.set("down")

    def join(self) -> None:
        """Brings both interfaces up."""
        for end in (self.right, self.left):
            end.set("up")


class Emulated:
    """A link that `dhow channel` makes: rate, delay, loss; cut and joined without its ends noticing."""

    def __init__(self, crew: Crew, dhow: Path, left: End, right: End, *options: str, log: Path | None = None) -> None:
        self.left, self.right = left, right
        places = [f"{end.namespace}:{end.device}/{end.address}/30" for end in (left, right)]
        argv = [str(dhow), "channel", "--left", places[0], "--right", places[1], *options, "--stdin", "--json"]
        self.program: Program = crew.start(argv, log=log, typed=True)
        try:
            line = self.program.line(READY_TIMEOUT_S)
        except queue.Empty:
            line = None
        if line is None:
            said = log.read_text(errors="replace").strip() if log and log.exists() else "no reason given"
            raise HostsFailed(f"dhow channel did not start: {said}")
        self.ready: dict[str, Any] = json.loads(line)

    def cut(self) -> None:
        """Ends the contact silently."""
        self.program.type("down")

    def join(self) -> None:
        """Begins the contact silently."""
        self.program.type("up")

    def cpu_seconds(self) -> float:
        """Processor time of the emulator so far."""
        return process_cpu_seconds(self.program.pid)

    def stop(self) -> dict[str, Any]:
        """Ends the link; what became of packets."""
        self.program.stop()
        return json.loads(self.program.rest()[-1])


class Hosts:
    """Network namespaces of this lab; leaving the context removes them."""

    def __init__(self, *names: str) -> None:
        self.names = [f"dhow-{os.getpid()}-{name}" for name in names]
        self._links = 0
        self._made: list[str] = []

    def __enter__(self) -> "Hosts":
        try:
            for name in self.names:
                run("ip", "netns", "add", name)
                self._made.append(name)
                run("ip", "-n", name, "link", "set", "lo", "up")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes the namespaces with everything in them."""
        while self._made:
            subprocess.run(["ip", "netns", "delete", self._made.pop()], capture_output=True, check=False)

    def set_kernel(self, name: str, value: str) -> None:
        """Sets a value of the kernel (sysctl) in every namespace."""
        for namespace in self.names:
            run("ip", "netns", "exec", namespace, "sysctl", "-q", "-w", f"{name}={value}")

    def ends(self, left: int, right: int) -> tuple[End, End]:
        """The two ends of a new link between two hosts: interfaces named after the other side, new addresses."""
        network = FIRST_NETWORK + 4 * self._links
        number, self._links = self._links, self._links + 1
        return (
            End(self.names[left], f"to{right}-{number}", str(network + 1)),
            End(self.names[right], f"to{left}-{number}", str(network + 2)),
        )

    def veth(self, left: int, right: int) -> Veth:
        """Joins two hosts by a cable."""
        return Veth(*self.ends(left, right))

    def emulated(self, crew: Crew, dhow: Path, left: int, right: int, *options: str, log: Path) -> Emulated:
        """Joins two hosts by `dhow channel` with these options."""
        return Emulated(crew, dhow, *self.ends(left, right), *options, log=log)
