"""The cost of receipts: goodput without reports, with a plain report on each bundle, and with aggregated ones.

Two nodes over loopback, `sync`. Bundles wait while the link is closed; the clock runs from its opening until the
receiver's application has them all and the sender's has heard so of each (`dhow send --wait`), in turns.
"""

import subprocess
import time
from statistics import median

from labs.cases.case import Outcome, Workplace
from labs.cases.traffic import stored, wait_empty
from labs.rig.node import Link, Node, NodeFailed, Settings
from labs.rig.terminal import Bar, octets

# Bundles of each size in one transfer.
SIZES = {1_000: 100_000, 10_000: 40_000}
QUICK_SIZES = {1_000: 20_000}
ROUNDS, QUICK_ROUNDS = 5, 2

WITHOUT, PLAIN, AGGREGATED = "no reports", "plain", "aggregated"
MODES = {WITHOUT: "100ms", PLAIN: "0", AGGREGATED: "100ms"}  # and how long reports wait for each other

# Of the goodput without reports, the least that is left with aggregated ones.
LEAST = 0.8

# Seconds that one transfer may take.
PATIENCE_S = 300.0

Sample = tuple[float, float, float]


def pair(place: Workplace, mode: str) -> tuple[Node, Node]:
    """Two nodes, of which the receiving one reports deliveries in this way."""
    name = mode.replace(" ", "-")
    reports = f'[reports]\ngenerate = ["delivery"]\nper_second = 10000000\ncollect = "{MODES[mode]}"\n'
    receiver = Node(place.crew, place.dhow, place.directory / f"receiver-{name}", Settings(
        "ipn:2.0", routes=[("ipn:1.*", "ipn:1.0")], more=reports))
    receiver.start()
    sender = Node(place.crew, place.dhow, place.directory / f"sender-{name}", Settings(
        "ipn:1.0", links=[Link("receiver", receiver.address, "enabled = false")], routes=[("ipn:2.*", "receiver")]))
    sender.start()
    return sender, receiver


def begin(node: Node, *words: str) -> subprocess.Popen[bytes]:
    """A command whose output nobody reads."""
    with (node.directory / "commands.log").open("ab") as log:
        return subprocess.Popen(node.command(*words), stdout=subprocess.DEVNULL, stderr=log)


def transfer(place: Workplace, nodes: tuple[Node, Node], mode: str, size: int, bundles: int) -> Sample:
    """Bundles a second, processor microseconds of both nodes and octets of reports per bundle."""
    sender, receiver = nodes
    words = ["send", "ipn:2.42", str(place.payload(size)), "--count", str(bundles), "--lifetime", "1h"]
    sending = begin(sender, *words, *([] if mode == WITHOUT else ["--wait"]))
    commands = [sending]
    try:
        deadline = time.monotonic() + PATIENCE_S
        while stored(sender) < bundles and time.monotonic() < deadline:
            time.sleep(0.1)
        commands.append(begin(receiver, "recv", "ipn:2.42", "--count", str(bundles), "--stdout", "--timeout", "5min"))
        before, cpu = back(receiver), sender.cpu_seconds() + receiver.cpu_seconds()
        start = time.monotonic()
        sender.link_up("receiver")
        codes = [command.wait(PATIENCE_S) for command in commands]
        elapsed = time.monotonic() - start
    except subprocess.TimeoutExpired as late:
        raise NodeFailed(f"{mode}: {late}\n{receiver.last_words()}") from None
    finally:
        for command in commands:
            command.kill()
            command.wait()
    if any(codes):
        said = (sender.directory / "commands.log").read_text()
        raise NodeFailed(f"{mode}: exit codes {codes} of send and recv\n{said}")
    cpu = sender.cpu_seconds() + receiver.cpu_seconds() - cpu
    sent_back = back(receiver) - before
    wait_empty(sender)
    wait_empty(receiver)
    place.run(sender, "link", "down", "receiver")
    return bundles / elapsed, cpu / bundles * 1e6, sent_back / bundles


def back(receiver: Node) -> float:
    """Octets of bundles that the receiving node has sent to the other: the reports."""
    return receiver.metrics()["dhow_bundles_forwarded_octets_total"]


def measure(place: Workplace) -> Outcome:
    """Turns, and the medians side by side."""
    sizes, rounds = (QUICK_SIZES, QUICK_ROUNDS) if place.quick else (SIZES, ROUNDS)
    pairs = {mode: pair(place, mode) for mode in MODES}
    samples: dict[tuple[int, str], list[Sample]] = {}
    bar = Bar(len(sizes) * len(MODES) * rounds, "transfers")
    for _ in range(rounds):
        for size, bundles in sizes.items():
            for mode, nodes in pairs.items():
                sample = transfer(place, nodes, mode, size, bundles)
                samples.setdefault((size, mode), []).append(sample)
                bar.show(sum(map(len, samples.values())), 0, f"{octets(size)}, {mode}: {sample[0]:,.0f} bundles/s")
    bar.clear()
    rows, figures, shares = [], [], []
    for size in sizes:
        base = median(rate for rate, _, _ in samples[size, WITHOUT])
        for mode in MODES:
            rate, cpu, octets_back = (median(column) for column in zip(*samples[size, mode], strict=True))
            if mode == AGGREGATED:
                shares.append(rate / base)
            rows.append([octets(size), mode, f"{rate:,.0f}", f"{rate * size * 8 / 1e6:,.0f}", f"{rate / base:.2f}",
                         f"{cpu:.1f}", f"{octets_back:.1f}"])
            figures.append({"size_octets": size, "reports": mode, "bundles_per_s": rate, "share": rate / base,
                            "cpu_us_per_bundle": cpu, "report_octets_per_bundle": octets_back})
    return Outcome(
        f"with aggregated reports at least {LEAST:.0%} of the goodput without reports is left",
        all(share >= LEAST for share in shares),
        ["size", "reports", "bundles/s", "Mbit/s", "÷ no reports", "CPU µs/bundle", "report octets/bundle"],
        rows,
        {"rows": figures},
        [f"medians of {rounds}; sync; reports of delivery, waited for by the sending application"],
    )
