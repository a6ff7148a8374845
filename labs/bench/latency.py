"""The round trip to the echo service of the next node: when nothing else happens, and beside a stream."""

import json
import subprocess
from dataclasses import dataclass
from statistics import median, quantiles

from labs.bench.node_to_node import QUOTA
from labs.bench.workshop import Workshop, payload
from labs.rig.node import Link, Node, NodeFailed, Settings

IDLE = "ping, idle"
LOADED = "ping, beside a stream of 10 kB bundles"
EXPEDITED = "ping, expedited, beside a stream of 10 kB bundles"

COUNT = 200
INTERVAL_MS = 10
LOAD_OCTETS = 10_000


@dataclass
class Latency:
    """The round trips of one run."""

    case: str
    median_ms: float
    p99_ms: float
    lost: int

    def record(self) -> dict[str, object]:
        """For JSON."""
        return {"case": self.case, "median_ms": self.median_ms, "p99_ms": self.p99_ms, "lost": self.lost}


def measure(workshop: Workshop, count: int = COUNT) -> list[Latency]:
    """Two durable nodes, first idle, then under load: as all other bundles, and before them."""
    with (
        workshop.directory() as directory,
        workshop.node(directory / "receiver", Settings("ipn:2.0", quota=QUOTA)) as receiver,
    ):
        # The answers go back over the session that the sender made.
        settings = Settings(
            "ipn:1.0", links=[Link("receiver", receiver.address)], routes=[("ipn:2.*", "receiver")], quota=QUOTA)
        with workshop.node(directory / "sender", settings) as sender:
            idle = ping(sender, IDLE, count)
            file = payload(directory / "payload", LOAD_OCTETS)
            load = sender.begin("send", "ipn:2.42", str(file), "--count", "100000000")
            try:
                return [idle, ping(sender, LOADED, count), ping(sender, EXPEDITED, count, "expedited")]
            finally:
                load.kill()
                workshop.crew.dismiss(load)


def ping(node: Node, case: str, count: int, priority: str = "normal") -> Latency:
    """One run of `dhow ping`."""
    words = ["ping", "ipn:2.7", "--count", str(count), "--interval", f"{INTERVAL_MS}ms", "--timeout", "20s", "--json"]
    # A program from before priorities takes the other words.
    words += ["--priority", priority] if priority != "normal" else []
    done = subprocess.run(node.command(*words), capture_output=True, text=True, timeout=120, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    times = [line["rtt_ms"] for line in lines if "rtt_ms" in line and not line["repeated"]]
    if len(times) < 2:
        raise NodeFailed(f"dhow ping: {done.stderr.strip() or 'no answers'}")
    return Latency(case, median(times), quantiles(times, n=100)[98], count - len(times))
