"""When all bundles have arrived, found out with few questions: each costs the node a little."""

import time

from labs.rig.node import Node, NodeFailed

# Seconds between two questions: as long as what is missing should still take, within these bounds. The shortest is
# how late the end may be noticed; a question costs a node about 0.1 ms.
SHORTEST_S = 0.003
LONGEST_S = 0.25

# The part of the time that should be left after which the next question is asked.
PART = 0.7

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
        left = (bundles - last) / rate if rate else SHORTEST_S * 4
        time.sleep(min(max(left * PART, SHORTEST_S), LONGEST_S))
        asked = time.monotonic()
        count = node.metrics().get(counter, 0.0)
        if count > last:
            last, moved = count, asked
        elif asked - moved > STALL_S:
            raise NodeFailed(f"stalled with {count:.0f} of {bundles} bundles\n{node.last_words()}")
    return time.monotonic()
