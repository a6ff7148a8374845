"""Bundles on their way under a case's eyes: what a node has received and what it holds."""

import time

from labs.rig.node import Node, NodeFailed

# Seconds without a bundle after which a measurement is given up.
STALL_S = 30.0

# Seconds between two looks at a node; each costs it less than a millisecond.
POLL_S = 0.02


def received(node: Node) -> int:
    """Bundles that a node has received from neighbours and made durable, since its start."""
    return int(node.metrics().get("dhow_bundles_received_total", 0))


def stored(node: Node) -> int:
    """Bundles that a node holds."""
    return int(node.metrics().get("dhow_bundles_stored", 0))


def wait_empty(node: Node, stall_s: float = STALL_S, left: int = 0) -> None:
    """Until a node holds no more than `left` bundles: what it forwarded is acknowledged and removed."""
    last, since = -1, time.monotonic()
    while (count := stored(node)) > left:
        now = time.monotonic()
        if count != last:
            last, since = count, now
        elif now - since > stall_s:
            raise NodeFailed(f"{count} bundles stay, {left} should\n{node.last_words()}")
        time.sleep(POLL_S)
