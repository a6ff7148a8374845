"""When all bundles have arrived: the node says how long ago the last one did, so few questions are enough."""

import time

from labs.rig.node import Node, NodeFailed

# Seconds between two questions, at least: one costs about 0.4 ms of processor time, most of it the asker's.
SHORTEST_S = 0.005

# The part of the time that should be left after which the next question is asked; what is left often comes faster than
# what came until now.
PART = 0.5

# The part of the time that has passed after which the next question is asked at the latest, and at the earliest.
PAUSE_MOST = 0.2
PAUSE_LEAST = 0.05

# Seconds without progress after which a measurement is given up.
STALL_S = 30.0

# Bundles that a node has received from neighbours and stored as its durability says.
RECEIVED = "dhow_bundles_received_total"

# Seconds since the last of them was stored, when the node was asked.
AGE = "dhow_bundles_received_age_seconds"


def count_of(node: Node) -> int:
    """Bundles that a node has received by now."""
    return int(node.metrics().get(RECEIVED, 0.0))


def wait_for(node: Node, bundles: int) -> float:
    """Waits until a node has received so many bundles; returns when the last of them was stored (time.monotonic)."""
    began = moved = time.monotonic()
    first = last = node.metrics().get(RECEIVED, 0.0)
    while True:
        metrics = node.metrics()
        # The age was taken before the answer came: the end is not told earlier than it was.
        now = time.monotonic()
        count = metrics.get(RECEIVED, 0.0)
        if count >= bundles:
            return now - metrics[AGE]
        if count > last:
            last, moved = count, now
        elif now - moved > STALL_S:
            raise NodeFailed(f"stalled with {count:.0f} of {bundles} bundles\n{node.last_words()}")
        elapsed = now - began
        rate = (last - first) / elapsed if elapsed else 0.0
        left = (bundles - last) / rate if rate else elapsed
        time.sleep(max(min(left * PART, elapsed * PAUSE_MOST), elapsed * PAUSE_LEAST, SHORTEST_S))
