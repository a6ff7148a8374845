"""A dhow node under a lab's control: its configuration, its life, and what it says of itself."""

import http.client
import json
import queue
import random
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labs.rig.crew import Crew, Program

# Seconds within which a node must be ready; a big store takes longer and says so itself.
READY_TIMEOUT_S = 60.0

# The kind of clock that counts what the scheduler gave to a process (Linux).
CPUCLOCK_SCHED = 2


class NodeFailed(Exception):
    """A node did not start or ended by itself."""


@dataclass
class Link:
    """A neighbour that a node dials."""

    name: str
    address: str  # none of a link that has no connection
    policy: str = ""  # further keys of its table, as TOML
    protocol: str = "tcpcl"


@dataclass
class Settings:
    """The content of a node's configuration file."""

    node_id: str
    listen: str = "127.0.0.1:0"
    listen_protocol: str = "tcpcl"
    links: list[Link] = field(default_factory=list)
    routes: list[tuple[str, str]] = field(default_factory=list)  # pattern, name of a link
    durability: str = "sync"
    quota: str = "4GiB"
    listen_policy: str = ""
    node_policy: str = ""  # further keys of [node], as TOML
    store_policy: str = ""  # further keys of [store], as TOML
    more: str = ""  # further tables, as TOML

    def toml(self) -> str:
        """The configuration file."""
        parts = [
            f'[node]\nid = "{self.node_id}"\n{self.node_policy}\n',
            f'[store]\npath = "store"\ndurability = "{self.durability}"\nquota = "{self.quota}"\n{self.store_policy}\n',
            '[api]\nsocket = "dhow.sock"\n',
            f'[[listen]]\nprotocol = "{self.listen_protocol}"\naddress = "{self.listen}"\n{self.listen_policy}\n',
        ]
        parts += [
            f'[[link]]\nname = "{link.name}"\nprotocol = "{link.protocol}"\n'
            + (f'address = "{link.address}"\n' if link.address else "") + f"{link.policy}\n"
            for link in self.links
        ]
        parts += [f'[[route]]\nto = "{to}"\nvia = "{via}"\n' for to, via in self.routes]
        return "\n".join([*parts, self.more])


class AdminConnection(http.client.HTTPConnection):
    """HTTP over the node's administration socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Node:
    """One node in a directory of its own."""

    def __init__(
        self, crew: Crew, binary: Path, directory: Path, settings: Settings, namespace: str | None = None
    ) -> None:
        self.crew = crew
        self.binary = binary
        self.directory = directory
        self.settings = settings
        self.namespace = namespace
        self.under: list[str] = []  # a program that runs the node, such as strace
        self.how: list[str] = []  # further words of `dhow node run`
        self.program: Program | None = None
        self.ready: dict[str, Any] = {}
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def socket(self) -> Path:
        """The application API's socket."""
        return self.directory / "dhow.sock"

    @property
    def log(self) -> Path:
        """The file with the node's standard error, over all its lives."""
        return self.directory / "node.log"

    @property
    def address(self) -> str:
        """The address at which the node listens, once it is ready."""
        first = self.ready["listen"][0]
        return first if isinstance(first, str) else first["address"]

    def start(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Starts the node and waits until it is ready."""
        (self.directory / "node.toml").write_text(self.settings.toml())
        argv = [*self.under, str(self.binary), "node", "run", "--config", str(self.directory / "node.toml"), *self.how]
        self.program = self.crew.start(argv, log=self.log, namespace=self.namespace)
        try:
            line = self.program.line(timeout_s)
        except queue.Empty:
            message = f"{self.settings.node_id} was not ready in {timeout_s:.0f} s\n{self.last_words()}"
            raise NodeFailed(message) from None
        if line is None:
            raise NodeFailed(f"{self.settings.node_id} ended at its start\n{self.last_words()}")
        self.ready = json.loads(line)

    def last_words(self, lines: int = 15) -> str:
        """The end of the node's log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def kill(self) -> None:
        """SIGKILL."""
        if self.program:
            self.program.kill()
            self.crew.dismiss(self.program)
            self.program = None

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self.program, "stop before start"
        code = self.program.stop()
        self.crew.dismiss(self.program)
        self.program = None
        return code

    def command(self, *words: str) -> list[str]:
        """The words of a `dhow` command that speaks to this node."""
        return [str(self.binary), *words, "--node", str(self.socket)]

    def begin(self, *words: str, log: Path | None = None) -> Program:
        """Starts a command and lets it run."""
        return self.crew.start(self.command(*words), log=log or self.directory / "commands.log")

    def run(self, *words: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=timeout_s, check=False
        )

    def show(self, *words: str) -> Any:
        """The output of a command with --json."""
        done = self.run(*words, "--json")
        if done.returncode != 0:
            raise NodeFailed(f"dhow {' '.join(words)}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def admin(self, path: str, method: str = "GET") -> str:
        """The body of the answer to a request on the administration socket."""
        connection = AdminConnection(self.socket.with_name(self.socket.name + ".admin"))
        try:
            connection.request(method, path)
            response = connection.getresponse()
            body = response.read().decode()
        finally:
            connection.close()
        if response.status != 200:
            raise NodeFailed(f"{method} {path}: {response.status} {body}")
        return body

    def link_up(self, name: str) -> None:
        """Lets a link go up, without a process of its own for it."""
        self.admin(f"/v1/links/{name}/up", "POST")

    def link_down(self, name: str) -> None:
        """Takes a link down."""
        self.admin(f"/v1/links/{name}/down", "POST")

    def metrics(self) -> dict[str, float]:
        """The counters of /metrics by name; series of one name are added up."""
        values: dict[str, float] = {}
        for line in self.admin("/metrics").splitlines():
            if line and not line.startswith("#"):
                series, _, value = line.rpartition(" ")
                name = series.partition("{")[0]
                values[name] = values.get(name, 0.0) + float(value)
        return values

    def memory_octets(self) -> int:
        """Resident memory of the node's process."""
        assert self.program, "memory before start"
        return process_memory(self.program.pid, "VmRSS")

    def peak_memory_octets(self) -> int:
        """The most resident memory that the node's process had."""
        assert self.program, "memory before start"
        return process_memory(self.program.pid, "VmHWM")

    def forget_peak_memory(self) -> None:
        """Lets `peak_memory_octets` begin anew."""
        assert self.program, "memory before start"
        Path(f"/proc/{self.program.pid}/clear_refs").write_text("5")

    @property
    def pid(self) -> int:
        """The process ID."""
        assert self.program, "a process before start"
        return self.program.pid

    def cpu_seconds(self) -> float:
        """Processor time of the node's process so far, user and system."""
        assert self.program, "processor time before start"
        return process_cpu_seconds(self.program.pid)


def process_memory(pid: int, line: str) -> int:
    """Octets of a line of a process's status; 0 where it is not there."""
    for text in Path(f"/proc/{pid}/status").read_text().splitlines():
        if text.startswith(line + ":"):
            return int(text.split()[1]) * 1024
    return 0


def process_cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, user and system, to the nanosecond (clock_getcpuclockid)."""
    return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port, of TCP if nothing else is said, that nobody uses now, below those that the kernel gives to outgoing connections."""
    for _ in range(200):
        port = random.randrange(20_000, 32_000)
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise NodeFailed("no free port between 20000 and 32000")
