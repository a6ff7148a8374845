"""Raw TCP: one stream of iperf3, over loopback or between two network namespaces."""

import json
import subprocess

from labs.rig.crew import Crew
from labs.rig.node import NodeFailed, free_port

SECONDS = 1


def mbit_per_s(
    crew: Crew, address: str = "127.0.0.1", namespaces: tuple[str | None, str | None] = (None, None),
    seconds: int = SECONDS,
) -> float:
    """The octets that one stream moved from the first namespace to the second, as its receiver saw them."""
    port = str(free_port())
    near, far = namespaces
    server = crew.start(
        ["iperf3", "--server", "--one-off", "--port", port, "--bind", address, "--forceflush"], namespace=far)
    server.line(10)  # its banner: it listens
    prefix = ["ip", "netns", "exec", near] if near else []
    client = subprocess.run(
        [*prefix, "iperf3", "--client", address, "--port", port, "--time", str(seconds), "--json"],
        capture_output=True, text=True, timeout=seconds + 30, check=False,
    )
    if client.returncode != 0:
        raise NodeFailed(f"iperf3: {client.stdout.strip()[-300:]}{client.stderr.strip()}")
    server.wait(10)
    crew.dismiss(server)
    return json.loads(client.stdout)["end"]["sum_received"]["bits_per_second"] / 1e6
