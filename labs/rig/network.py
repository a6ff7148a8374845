"""The path of a lab: a chain of hosts of which one link is rate-limited and can be cut.

Two kinds: network namespaces joined by veth pairs, where the cut is the interface going down and the kernel's
tbf limits the rate; and loopback, where a relay between the two nodes limits the rate and drops connections.
"""

import ipaddress
import os
import shutil
import subprocess
from typing import Protocol

from labs.rig.relay import Relay

# The bucket of tbf: 20 ms at the rate, at least 16 kB, so that segmentation offload is not cut into drops.
TBF_BURST_S = 0.02
TBF_BURST_MIN_OCTETS = 16_384
TBF_LATENCY_MS = 50


class Network(Protocol):
    """A chain of hosts; the link between `weak` and `weak + 1` can be cut."""

    kind: str

    def namespace(self, host: int) -> str | None:
        """The network namespace of a host; None for the machine's own."""

    def listen(self, host: int) -> str:
        """The address on which a host listens for all its neighbours."""

    def dial(self, host: int, neighbour: int) -> str:
        """The address at which a host reaches its neighbour."""

    def limit(self, octets_per_s: float) -> None:
        """Limits the rate of the weak link, each direction."""

    def cut(self) -> None:
        """Takes the weak link down."""

    def join(self) -> None:
        """Brings the weak link up."""

    def close(self) -> None:
        """Removes everything that was made."""


def namespaces_possible() -> str | None:
    """None where network namespaces can be made; else why not."""
    if os.geteuid() != 0:
        return "not root"
    for command in ("ip", "tc"):
        if not shutil.which(command):
            return f"no {command} command"
    probe = f"dhow-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return made.stderr.strip() or "namespaces are not allowed"
    subprocess.run(["ip", "netns", "delete", probe], check=False)
    return None


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Namespaces:
    """Hosts as network namespaces, neighbours joined by veth pairs."""

    kind = "network namespaces joined by veth"

    def __init__(self, names: list[str], weak: int, port: int) -> None:
        self.names = [f"dhow-{os.getpid()}-{name}" for name in names]
        self.weak = weak
        self.port = port
        self.made: list[str] = []
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        for name in self.names:
            _ip("netns", "add", name)
            self.made.append(name)
            _ip("-n", name, "link", "set", "lo", "up")
        for left in range(len(self.names) - 1):
            right = left + 1
            _ip("link", "add", "right", "netns", self.names[left],
                "type", "veth", "peer", "name", "left", "netns", self.names[right])
            _ip("-n", self.names[left], "address", "add", f"{self._address(left, right)}/30", "dev", "right")
            _ip("-n", self.names[right], "address", "add", f"{self._address(right, left)}/30", "dev", "left")
            _ip("-n", self.names[left], "link", "set", "right", "up")
            _ip("-n", self.names[right], "link", "set", "left", "up")

    @staticmethod
    def _address(host: int, neighbour: int) -> ipaddress.IPv4Address:
        """The host's own address on the link to its neighbour (198.18.0.0/15 is kept for such tests, RFC 2544)."""
        link = min(host, neighbour)
        return ipaddress.IPv4Address("198.18.0.0") + 4 * link + (1 if host < neighbour else 2)

    def _weak_ends(self) -> list[tuple[str, str]]:
        return [(self.names[self.weak], "right"), (self.names[self.weak + 1], "left")]

    def namespace(self, host: int) -> str | None:
        return self.names[host]

    def listen(self, host: int) -> str:
        return f"0.0.0.0:{self.port}"

    def dial(self, host: int, neighbour: int) -> str:
        return f"{self._address(neighbour, host)}:{self.port}"

    def limit(self, octets_per_s: float) -> None:
        burst = max(TBF_BURST_MIN_OCTETS, int(octets_per_s * TBF_BURST_S))
        for namespace, device in self._weak_ends():
            command = ["tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf",
                       "rate", f"{int(octets_per_s * 8)}bit", "burst", str(burst),
                       "latency", f"{TBF_LATENCY_MS}ms"]
            subprocess.run(command, check=True, capture_output=True)

    def cut(self) -> None:
        for namespace, device in self._weak_ends():
            _ip("-n", namespace, "link", "set", device, "down")

    def join(self) -> None:
        for namespace, device in reversed(self._weak_ends()):
            _ip("-n", namespace, "link", "set", device, "up")

    def close(self) -> None:
        while self.made:
            subprocess.run(["ip", "netns", "delete", self.made.pop()], capture_output=True, check=False)


class Loopback:
    """Hosts as ports of 127.0.0.1; a relay stands between the two ends of the weak link."""

    kind = "loopback with a relay in the weak link"

    def __init__(self, ports: list[int], weak: int) -> None:
        self.ports = ports
        self.weak = weak
        self.relays = {
            (weak, weak + 1): Relay(("127.0.0.1", ports[weak + 1])),
            (weak + 1, weak): Relay(("127.0.0.1", ports[weak])),
        }

    def namespace(self, host: int) -> str | None:
        return None

    def listen(self, host: int) -> str:
        return f"127.0.0.1:{self.ports[host]}"

    def dial(self, host: int, neighbour: int) -> str:
        relay = self.relays.get((host, neighbour))
        return relay.address if relay else f"127.0.0.1:{self.ports[neighbour]}"

    def limit(self, octets_per_s: float) -> None:
        for relay in self.relays.values():
            relay.limit(octets_per_s)

    def cut(self) -> None:
        for relay in self.relays.values():
            relay.cut()

    def join(self) -> None:
        for relay in self.relays.values():
            relay.join()

    def close(self) -> None:
        for relay in self.relays.values():
            relay.close()
