"""The yardstick (labs/yardstick): frames of the same size with the same durability, over TCP into a log."""

import json
import subprocess

from labs.bench.sample import Kind, Sample
from labs.bench.workshop import Workshop
from labs.rig.node import NodeFailed

CASE = "yardstick"

# The duration of one measurement, about, and the rate that it is taken to have: several times that of any node.
SECONDS = 1.0
OCTETS_PER_S = 2.0e9
FRAMES_PER_S = 8.0e6

# Octets of each side's log. The file is kept from measurement to measurement, as a node recycles its own.
LOG_MIB = 256


def frames_of(size: int, scale: float) -> int:
    """The number of frames of a size that make a measurement."""
    return max(8, int(scale * SECONDS / max(size / OCTETS_PER_S, 1 / FRAMES_PER_S)))


def measure(workshop: Workshop, kind: Kind, scale: float) -> Sample:
    """One run of both sides."""
    frames = frames_of(kind.size, scale)
    logs = workshop.room / "yardstick"
    logs.mkdir(exist_ok=True)
    done = subprocess.run(
        [str(workshop.yardstick), "run", "--size", str(kind.size), "--count", str(frames), "--mode", kind.durability,
         "--flush-delay", str(kind.flush_delay_ms), "--log-mib", str(LOG_MIB), "--dir", str(logs)],
        capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise NodeFailed(done.stderr.strip())
    told = json.loads(done.stdout)
    cpu = told["sender_cpu_s"] + told["receiver_cpu_s"]
    return Sample(Kind(CASE, kind.size, kind.durability, kind.flush_delay_ms), frames, told["seconds"], cpu)
