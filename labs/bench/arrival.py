"""When all bundles have arrived, found out with few questions: each costs the node a little."""

import time

from labs.rig.node import Node, NodeFailed

# Seconds between two questions, at least: one costs a node about 0.1 ms.
SHORTEST_S = 0.005

# The part of the time that should be left after which the next question is asked; what is left often comes faster than
# what came until now.
PART = 0.5

# How late the end may be noticed, as a part of the time that has passed.
LATE = 0.02

# Seconds without progress after which a measurement is given up.
STALL_S = 30.0

# Bundles that a node has received from neighbours and stored as its durability says.
RECEIVED = "dhow_bundles_received_total"


def count_of(node: Node, counter: str = RECEIVED) -> int:
    """What a counter of the node says now."""
    return int(node.metrics().get(counter, 0.0))


def wait_for(node: Node, bundles: int, counter: str = RECEIVED) -> float:
    """Waits until a counter of the node has come so far; returns when it was seen there (time.monotonic)."""
    began = moved = time.monotonic()
    first = last = node.metrics().get(counter, 0.0)
    while last < bundles:
        elapsed = time.monotonic() - began
        rate = (last - first) / elapsed if elapsed else 0.0
        left = (bundles - last) / rate if rate else elapsed
        time.sleep(max(min(left * PART, elapsed * LATE), SHORTEST_S))
        asked = time.monotonic()
        count = node.metrics().get(counter, 0.0)
        if count > last:
            last, moved = count, asked
        elif asked - moved > STALL_S:
            raise NodeFailed(f"stalled with {count:.0f} of {bundles} bundles\n{node.last_words()}")
    return time.monotonic()
