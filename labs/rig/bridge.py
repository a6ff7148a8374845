"""Hosts as network namespaces on switched networks, where multicast reaches everybody on a network."""

import os
import subprocess
import time
from collections.abc import Sequence

# Seconds that addresses may take to settle.
SETTLE_TIMEOUT_S = 10.0


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Bridge:
    """Hosts and the networks that they are on; without any networks named, all hosts are on one, by `eth0`."""

    def __init__(self, hosts: int, networks: Sequence[Sequence[int]] | None = None) -> None:
        self.networks = [list(range(hosts))] if networks is None else [list(them) for them in networks]
        self.switch = f"dhow-{os.getpid()}-switch"
        self.hosts = [f"dhow-{os.getpid()}-host{at + 1}" for at in range(hosts)]
        self.made: list[str] = []
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        for name in (self.switch, *self.hosts):
            _ip("netns", "add", name)
            self.made.append(name)
            _ip("-n", name, "link", "set", "lo", "up")
        for network, hosts in enumerate(self.networks):
            bridge = f"bridge{network}"
            _ip("-n", self.switch, "link", "add", bridge, "type", "bridge")
            _ip("-n", self.switch, "link", "set", bridge, "up")
            for at in hosts:
                name, port = self.hosts[at], f"port{network}-{at + 1}"
                device = self.device(network)
                _ip("link", "add", device, "netns", name, "type", "veth", "peer", "name", port, "netns", self.switch)
                _ip("-n", name, "address", "add", f"{self.address(at, network)}/24", "dev", device)
                _ip("-n", name, "link", "set", device, "up")
                _ip("-n", self.switch, "link", "set", port, "master", bridge)
                _ip("-n", self.switch, "link", "set", port, "up")

    @staticmethod
    def device(network: int = 0) -> str:
        """The interface by which hosts are on a network."""
        return f"eth{network}"

    @staticmethod
    def address(host: int, network: int = 0) -> str:
        """A host's address on a network (198.18.0.0/15 is kept for such tests, RFC 2544)."""
        return f"198.18.{7 + network}.{host + 1}"

    def settle(self) -> None:
        """Waits until all addresses may be used: those of IPv6 are first looked for at others (RFC 4862 5.4)."""
        end = time.monotonic() + SETTLE_TIMEOUT_S
        command = ["ip", "-6", "address", "show", "tentative"]
        for name in self.hosts:
            while subprocess.run([command[0], "-n", name, *command[1:]], capture_output=True, check=False).stdout:
                if time.monotonic() > end:
                    raise RuntimeError(f"{name} has addresses that are not settled")
                time.sleep(0.1)

    def close(self) -> None:
        """Removes the namespaces."""
        while self.made:
            subprocess.run(["ip", "netns", "delete", self.made.pop()], capture_output=True, check=False)
