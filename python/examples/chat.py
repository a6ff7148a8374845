#!/usr/bin/env python3
"""A chat between two nodes: what is typed here is said there, whenever there is a path.

    python3 chat.py MINE THEIRS          # python3 chat.py ipn:1.50 ipn:2.50, and the other way round there
"""

import sys
import threading
from datetime import timedelta

import dhow


def listen(node: dhow.Node, mine: str) -> None:
    """Prints what comes; a line is confirmed once it was shown."""
    for delivery in node.receive(mine):
        with delivery:
            said = delivery.created.astimezone().strftime("%H:%M:%S") if delivery.created else "some time"
            print(f"[{said}] {delivery.source}: {delivery.read().decode(errors='replace')}", flush=True)


def main(mine: str, theirs: str) -> None:
    """Until the end of the input."""
    with dhow.connect() as node:
        threading.Thread(target=listen, args=(node, mine), daemon=True).start()
        for line in sys.stdin:
            node.send(theirs, line.rstrip("\n").encode(), source=mine, lifetime=timedelta(days=7))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except dhow.DhowError as error:
        sys.exit(f"error: {error}")
