"""A store with a million bundles: how long a node takes from its start to ready, and its memory per bundle.

    python3 -m labs.store_million [--bundles 1000000] [--octets 100]
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from labs.rig.binary import dhow
from labs.rig.crew import Crew, end_on_sigterm
from labs.rig.machine import machine
from labs.rig.node import Node, NodeFailed, Settings
from labs.rig.terminal import say, table

# Memory that a node may take for each bundle: about twice what it takes, the cache of the log and the buffers included.
INDEX_OCTETS = 400

# Octets of a block as the kernel counts what a file takes (stat(2)): most of the log's length is holes.
BLOCK_OCTETS = 512

DESTINATION = "ipn:9.1"  # nobody serves it: the bundles stay


def measure(node: Node, bundles: int, size: int) -> dict[str, float]:
    """Fills the store, stops the node, starts it again."""
    node.start()
    empty_octets = node.memory_octets()
    payload = node.directory / "payload"
    payload.write_bytes(bytes(size))
    say(f"sending {bundles} bundles of {size} B to nobody")
    start = time.monotonic()
    done = node.run("send", DESTINATION, str(payload), "--count", str(bundles), "--lifetime", "7d", timeout_s=1800)
    enqueue_s = time.monotonic() - start
    if done.returncode != 0:
        raise NodeFailed(f"dhow send: {done.stderr.strip()}")
    full_octets = node.memory_octets()
    if (code := node.stop()) != 0:
        raise NodeFailed(f"the node ended with {code}\n{node.last_words()}")
    say("both stopped; starting again")
    start = time.monotonic()
    node.start(timeout_s=600)
    ready_s = time.monotonic() - start
    restarted_octets = node.memory_octets()
    index_octets = int(node.metrics().get("dhow_index_octets", 0))
    kept = int(node.metrics().get("dhow_bundles_stored", 0))
    log_octets = sum(path.stat().st_blocks * BLOCK_OCTETS for path in (node.directory / "store").rglob("*") if path.is_file())
    return {
        "bundles": bundles, "kept": kept, "octets": size, "enqueue_s": enqueue_s, "ready_s": ready_s,
        "memory_empty": empty_octets, "memory_full": full_octets, "memory_restarted": restarted_octets,
        "index_per_bundle": index_octets / bundles, "memory_per_bundle": (restarted_octets - empty_octets) / bundles, "store_octets": log_octets,
    }


def main() -> int:
    """Measures and prints; 1 when bundles are missing after the restart."""
    parser = argparse.ArgumentParser(prog="make million", description=__doc__.split("\n")[0])
    parser.add_argument("--bundles", type=int, default=1_000_000)
    parser.add_argument("--octets", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    end_on_sigterm()
    directory = Path(tempfile.mkdtemp(prefix="dhow-million-"))
    settings = Settings(
        "ipn:1.0", quota="16GiB",
        node_policy=f'memory = "{max(1024, options.bundles * INDEX_OCTETS >> 20)}MiB"',
        store_policy=f"quota_bundles = {options.bundles * 5 // 4}",
    )
    try:
        with Crew() as crew:
            figures = measure(Node(crew, dhow("release"), directory, settings), options.bundles, options.octets)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if options.json:
        print(json.dumps(figures | {"machine": machine()}))
    else:
        print(table(["figure", "value"], [
            ["bundles in the store after the restart", f"{figures['kept']:,} of {figures['bundles']:,}"],
            ["start to ready", f"{figures['ready_s']:.2f} s"],
            ["memory of the restarted node", f"{figures['memory_restarted'] / 1e6:.1f} MB"],
            ["memory per bundle", f"{figures['memory_per_bundle']:.0f} B"],
            ["of that the index, as the node counts it", f"{figures['index_per_bundle']:.0f} B"],
            ["store on disk", f"{figures['store_octets'] / 1e6:.1f} MB"],
            ["taken from one dhow send", f"{figures['bundles'] / figures['enqueue_s']:,.0f} bundles/s"],
        ]))
        print(f"machine: {machine()}")
    return 0 if figures["kept"] == figures["bundles"] else 1


if __name__ == "__main__":
    sys.exit(main())
