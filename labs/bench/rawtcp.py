"""The yardstick: one TCP stream of iperf3 over loopback."""

import json
import subprocess

from labs.rig.crew import Crew
from labs.rig.node import free_port

SECONDS = 2


def mbit_per_s(crew: Crew) -> float:
    """What one stream moved, as its receiver saw it."""
    port = str(free_port())
    server = crew.start(["iperf3", "--server", "--one-off", "--port", port, "--bind", "127.0.0.1", "--forceflush"])
    server.line(10)  # its banner: it listens
    client = subprocess.run(
        ["iperf3", "--client", "127.0.0.1", "--port", port, "--time", str(SECONDS), "--json"],
        capture_output=True, text=True, timeout=SECONDS + 30, check=True,
    )
    server.wait(10)
    crew.dismiss(server)
    return json.loads(client.stdout)["end"]["sum_received"]["bits_per_second"] / 1e6
