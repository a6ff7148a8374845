"""Independent nodes in the same table: two of a kind, node to node over TCPCLv4, as `make interop` installed them."""

import http.client
import json
import queue
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from labs.bench.sample import Kind, Sample
from labs.bench.workshop import Workshop, payload
from labs.interop import installation
from labs.interop.peer import Unable
from labs.rig.crew import Program
from labs.rig.node import free_port, process_cpu_seconds, process_memory

SERVICE = 42

# Seconds within which something must happen.
PATIENCE_S = 60.0

# Seconds between two looks at a counter.
LOOK_S = 0.01


class PairOfPeers(ABC):
    """Two nodes of a kind; neither keeps anything durable as it is run here."""

    name: str
    case: str
    bundles: ClassVar[dict[int, int]]  # of each size, so that a measurement takes a second or two

    @staticmethod
    @abstractmethod
    def binary() -> Path | None:
        """The program, where it is installed."""

    @classmethod
    @abstractmethod
    def measure(cls, workshop: Workshop, size: int, scale: float) -> Sample:
        """Bundles wait at the first, the link opens, the clock runs until all are at the second. Raises Unable."""

    @classmethod
    def sample(cls, size: int, bundles: int, seconds: float, cpu_s: float, nodes: list[Program]) -> Sample:
        """The sample of a measurement."""
        peaks = {str(number): process_memory(node.pid, "VmHWM") / 1e6 for number, node in enumerate(nodes)}
        return Sample(Kind(cls.case, size, "memory"), bundles, seconds, cpu_s, peaks)

    @staticmethod
    def end(workshop: Workshop, nodes: list[Program]) -> None:
        """Ends both nodes."""
        for node in nodes:
            workshop.crew.dismiss(node)


def until(ask: Callable[[], bool], failure: str) -> float:
    """Waits for something and returns when it was seen. Raises Unable."""
    end = time.monotonic() + PATIENCE_S
    while not ask():
        if time.monotonic() > end:
            raise Unable(failure)
        time.sleep(LOOK_S)
    return time.monotonic()


class Dtn7Pair(PairOfPeers):
    """Two dtnd with their store in memory, asked over HTTP.

    The second is made known to the first while that runs; it dials at its next janitor's turn, so the clock runs
    from the first arrival that is seen, not from the opening.
    """

    name = f"dtn7-rs {installation.DTN7_VERSION}"
    case = "node-to-node dtn7-rs"
    bundles: ClassVar = {1_000: 3_000, 10_000: 60, 100_000: 60}

    @staticmethod
    def binary() -> Path | None:
        path = installation.room() / "dtn7" / "bin" / "dtnd"
        return path if path.exists() else None

    @classmethod
    def measure(cls, workshop: Workshop, size: int, scale: float) -> Sample:
        bundles = max(10, int(cls.bundles[size] * scale))
        program = cls.binary()
        with workshop.directory() as directory:
            nodes, webs, ports = [], [free_port(), free_port()], [free_port(), free_port()]
            try:
                for number, (web, port) in enumerate(zip(webs, ports, strict=True), 11):
                    work = directory / str(number)
                    work.mkdir()
                    nodes.append(workshop.crew.start([
                        "env", "RUST_LOG=error", str(program), "-4", "--disable_nd", "-i", "0", "-j", "1s",
                        "-n", str(number), "-e", str(SERVICE), "-w", str(web), "-W", str(work), "-D", "mem",
                        "-r", "epidemic", "-C", f"tcp:port={port}:bind=127.0.0.1"]))
                for web in webs:
                    until(lambda web=web: cls._ask(web, "GET", "/status/nodeid") is not None, "dtnd did not start")
                return cls._transfer(nodes, webs, ports[1], bytes(size), bundles)
            finally:
                cls.end(workshop, nodes)

    @classmethod
    def _transfer(cls, nodes: list[Program], webs: list[int], port: int, octets: bytes, bundles: int) -> Sample:
        connection = http.client.HTTPConnection("127.0.0.1", webs[0], timeout=PATIENCE_S)
        for _ in range(bundles):
            connection.request("POST", f"/send?dst=ipn:12.{SERVICE}&lifetime=3600000", octets)
            connection.getresponse().read()
        connection.close()
        before = sum(process_cpu_seconds(node.pid) for node in nodes)
        cls._ask(webs[0], "GET", f"/peers/add?p=tcp://127.0.0.1:{port}/12&p_t=STATIC")
        start = until(lambda: cls._incoming(webs[1]) > 0, "nothing arrived")
        first = cls._incoming(webs[1])
        end = until(lambda: cls._incoming(webs[1]) >= bundles, f"not all of {bundles} bundles arrived")
        cpu = sum(process_cpu_seconds(node.pid) for node in nodes) - before
        if first >= bundles:
            raise Unable("all had arrived at the first look")
        return cls.sample(len(octets), bundles - first, end - start, cpu, nodes)

    @staticmethod
    def _ask(web: int, method: str, path: str) -> bytes | None:
        connection = http.client.HTTPConnection("127.0.0.1", web, timeout=PATIENCE_S)
        try:
            connection.request(method, path)
            return connection.getresponse().read()
        except OSError:
            return None
        finally:
            connection.close()

    @classmethod
    def _incoming(cls, web: int) -> int:
        return int(json.loads(cls._ask(web, "GET", "/status/info") or b"{}").get("incoming", 0))


class HardyPair(PairOfPeers):
    """Two nodes of the Hardy crates with their stores in memory; the second writes each payload into a file."""

    name = f"Hardy ({installation.HARDY_VERSION})"
    case = "node-to-node hardy"
    bundles: ClassVar = {1_000: 8_000, 10_000: 5_000, 100_000: 1_500}

    @staticmethod
    def binary() -> Path | None:
        path = installation.room() / "hardy-build" / "release" / "hardy-peer"
        return path if path.exists() else None

    @classmethod
    def measure(cls, workshop: Workshop, size: int, scale: float) -> Sample:
        bundles = max(10, int(cls.bundles[size] * scale))
        with workshop.directory() as directory:
            nodes, ports = [], [free_port(), free_port()]
            try:
                for number, port in enumerate(ports, 11):
                    inbox = directory / str(number)
                    inbox.mkdir()
                    words = [f"ipn:{number}.0", f"127.0.0.1:{port}", str(SERVICE), str(inbox)]
                    node = workshop.crew.start([str(cls.binary()), *words], typed=True)
                    nodes.append(node)
                    cls._expect(node, "ready")
                file = payload(directory / "payload", size)
                for _ in range(bundles):
                    nodes[0].type(f"send ipn:12.{SERVICE} {file}")
                for _ in range(bundles):
                    cls._expect(nodes[0], "sent")
                before = sum(process_cpu_seconds(node.pid) for node in nodes)
                start = time.monotonic()
                nodes[0].type(f"connect 127.0.0.1:{ports[1]}")
                for _ in range(bundles):
                    cls._expect(nodes[1], "received")
                seconds = time.monotonic() - start
                cpu = sum(process_cpu_seconds(node.pid) for node in nodes) - before
                return cls.sample(size, bundles, seconds, cpu, nodes)
            finally:
                cls.end(workshop, nodes)

    @staticmethod
    def _expect(node: Program, word: str) -> None:
        try:
            while (line := node.line(PATIENCE_S)) is not None:
                if line.startswith(word):
                    return
                if line.startswith("failed"):
                    raise Unable(line)
        except queue.Empty:
            raise Unable(f"it did not say '{word}'") from None
        raise Unable("it ended")


PEERS: list[type[PairOfPeers]] = [HardyPair, Dtn7Pair]
