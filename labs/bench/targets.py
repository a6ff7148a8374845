"""The floors that must be met and the goals that are after them, in one table."""

from dataclasses import dataclass
from enum import Enum

from labs.bench import latency, narrow, node_to_node, relay
from labs.bench.sample import Kind


class Unit(Enum):
    """The base of a target that is a share."""

    YARDSTICK = "of the yardstick"
    IPERF3 = "of iperf3"
    UNDELAYED = "of the same without flush delay"
    VERSION_7 = "of version 7 over TCPCLv4"
    API_SEND = "of API send"
    BUNDLES_PER_S = "bundles/s"


@dataclass(frozen=True)
class Target:
    """The target of a figure."""

    unit: Unit
    floor: float
    goal: float | None = None


# Node to node, durable, without a flush delay.
_DURABLE = {
    100: (0.06, 0.12), 1_000: (0.25, 0.45), 2_000: (0.35, 0.60), 10_000: (0.55, 0.85), 50_000: (0.65, 0.90),
    100_000: (0.75, 0.95), 1_000_000: (0.75, 0.95), 16_000_000: (0.75, 0.95),
}

# Through a durable node; the floors are what the fastest relay that keeps nothing durable reaches, the goal twice
# that below 100 kB.
_RELAY = {1_000: (0.03, 0.06), 10_000: (0.17, 0.34), 100_000: (0.32, None), 1_000_000: (0.50, None)}

# 10 and 20 Gbit/s on a machine where iperf3 moves 30.
_API_SEND = {
    1_000: Target(Unit.BUNDLES_PER_S, 300_000, 800_000),
    100_000: Target(Unit.IPERF3, 10 / 30, 20 / 30),
    1_000_000: Target(Unit.IPERF3, 10 / 30, 20 / 30),
}

# Of what the same node takes from an application.
_API_RECEIVE = Target(Unit.API_SEND, 0.5)

# With a disk whose flushes take 5 ms, beside one whose flushes take none.
_DELAYED = Target(Unit.UNDELAYED, 0.8)

# Version 6 over TCPCLv3.
_VERSION_6 = Target(Unit.VERSION_7, 0.8)


def target(kind: Kind) -> Target | None:
    """The target of a kind of measurement, where it has one."""
    if kind.durability != "sync" or kind.threads > 1:
        return None
    if kind.version == 6:
        return _VERSION_6
    if kind.case == node_to_node.CASE and kind.flush_delay_ms:
        return _DELAYED
    if kind.case == node_to_node.CASE and kind.size in _DURABLE:
        return Target(Unit.YARDSTICK, *_DURABLE[kind.size])
    if kind.case == relay.CASE and kind.size in _RELAY and not kind.flush_delay_ms:
        return Target(Unit.IPERF3, *_RELAY[kind.size])
    if kind.case == node_to_node.API_SEND and not kind.flush_delay_ms:
        return _API_SEND.get(kind.size)
    if kind.case == node_to_node.API_RECEIVE and not kind.flush_delay_ms:
        return _API_RECEIVE
    return None


@dataclass(frozen=True)
class Comparison:
    """Two figures of which one should reach a share of the other."""

    name: str
    case: str
    flush_delay_ms: int
    target: Target


SMALL, LARGE = 2_000, 50_000

# The rate of small bundles as a share of that of large ones.
COMPARISONS = [
    Comparison("2 kB beside 50 kB, node to node, sync", node_to_node.CASE, 0, Target(Unit.YARDSTICK, 0.4, 0.55)),
    Comparison("2 kB beside 50 kB on 24 Mbit/s, sync", narrow.CASE, 0, Target(Unit.YARDSTICK, 0.95)),
]

# Median round trips between two nodes on loopback: idle, and beside a stream where a flush takes a millisecond.
PING_MS = {latency.IDLE: 1.0, latency.LOADED: 20.0, latency.EXPEDITED: 5.0}
