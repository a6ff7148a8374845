#!/usr/bin/env python3
"""Readings of a sensor, in bundles of some each, with a receipt of each bundle that arrived.

    python3 sensor.py COLLECTOR [EVERY_S [READINGS]]      # python3 sensor.py ipn:2.70 1.0 3600

A bundle has ten readings as lines of JSON. Bundles that are a week old expire.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

import dhow
from dhow import aio

TOGETHER = 10
WEEK_S = 7 * 86_400


def reading() -> dict[str, float]:
    """The load of this machine; a thermometer would be read here."""
    return {"time_s": time.time(), "load": float(Path("/proc/loadavg").read_text().split()[0])}


async def measure(node: aio.Node, collector: str, every_s: float, count: int) -> None:
    """Reads and sends."""
    for start in range(0, count, TOGETHER):
        lines = []
        for _ in range(min(TOGETHER, count - start)):
            lines.append(json.dumps(reading()))
            await asyncio.sleep(every_s)
        await node.send(collector, "\n".join(lines).encode(), lifetime=WEEK_S, report=["delivery", "deletion"])


async def main(collector: str, every_s: float = 1.0, count: int = 3600) -> None:
    """Sends all readings and waits for the receipts of all."""
    told: set[dhow.BundleId] = set()
    async with aio.connect() as node, asyncio.TaskGroup() as tasks:
        tasks.create_task(measure(node, collector, every_s, count))
        async for report in node.reports():
            print(f"{report.bundle}: {', '.join(report.events)} at {report.reporter}", flush=True)
            told.add(report.bundle)
            if len(told) * TOGETHER >= count:
                break


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1], *[kind(word) for kind, word in zip((float, int), sys.argv[2:])]))
