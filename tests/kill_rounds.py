"""Rounds of SIGKILL: two nodes, 1,000 bundles of mixed sizes, one node killed at a random moment and restarted.

    python3 -m tests.kill_rounds [--rounds 200] [--bundles 1000] [--seed N] [--profile release]

A round is good when every bundle that the sending node accepted arrived whole, and none was delivered again
after its confirmation was durable. The seed of a bad round is printed and kept in target/kill-rounds.txt.
"""

import argparse
import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from labs.rig.binary import dhow, target_directory
from labs.rig.crew import Crew, end_on_sigterm
from labs.rig.node import Link, Node, NodeFailed, Settings, free_port
from labs.rig.terminal import Bar, say
from tests.aap2 import Refused, Subscriber
from tests.ledger import Ledger

DESTINATION = "ipn:2.42"
SOURCE = "ipn:1.9"
WINDOW = 64

# Sizes: (share of the bundles, smallest, largest) in octets.
SIZES = [(0.03, 0, 0), (0.80, 1, 2_000), (0.13, 2_000, 64_000), (0.035, 64_000, 500_000), (0.005, 500_000, 2_000_000)]

# Seconds without progress after which a round is given up.
STALL_S = 30.0


@dataclass
class Result:
    """The result of a round."""

    seed: int
    victim: str
    accepted: int
    lost: int
    damaged: int
    repeated: int
    repeated_after_durable: int
    seconds: float
    trouble: str = ""

    @property
    def good(self) -> bool:
        """Whether the round held what is promised."""
        return not (self.lost or self.damaged or self.repeated_after_durable or self.trouble)


def payloads(directory: Path, count: int, dice: random.Random) -> list[tuple[Path, str]]:
    """Files of mixed sizes and their SHA-256; no two are alike, but for the empty ones."""
    made = []
    classes = dice.choices(SIZES, weights=[share for share, _, _ in SIZES], k=count)
    for number, (_, smallest, largest) in enumerate(classes):
        path = directory / f"{number:04}"
        octets = dice.randbytes(dice.randint(smallest, largest))
        path.write_bytes(octets)
        made.append((path, hashlib.sha256(octets).hexdigest()))
    return made


class Receiving(threading.Thread):
    """Takes and confirms deliveries, across restarts of the node."""

    def __init__(self, node: Node, ledger: Ledger) -> None:
        super().__init__(daemon=True)
        self.node = node
        self.ledger = ledger
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            try:
                subscriber = Subscriber(self.node.socket, DESTINATION, WINDOW, timeout_s=0.5)
            except (OSError, Refused):
                self.over.wait(0.02)
                continue
            try:
                self._take(subscriber)
            except (OSError, ConnectionError):
                pass
            finally:
                subscriber.close()

    def _take(self, subscriber: Subscriber) -> None:
        while not self.over.is_set():
            delivery = subscriber.next()
            self.ledger.arrive(delivery)
            subscriber.confirm()
            self.ledger.confirm(delivery.bundle)


class Sending(threading.Thread):
    """Sends every file once, across restarts of the node: what was not accepted is sent again."""

    def __init__(
        self, binary: Path, node: Node, files: list[tuple[Path, str]], ledger: Ledger, words: list[str] | None = None
    ) -> None:
        super().__init__(daemon=True)
        self.binary = binary
        self.words = words or []  # further ones of `dhow send`
        self.node = node
        self.left = files
        self.ledger = ledger
        self.over = threading.Event()

    def run(self) -> None:
        while self.left and not self.over.is_set():
            words = ["send", DESTINATION, *(str(path) for path, _ in self.left), "--from", SOURCE, "--json", *self.words]
            with (self.node.directory / "send.log").open("ab") as log, subprocess.Popen(
                self.node.command(*words), stdout=subprocess.PIPE, stderr=log, text=True
            ) as command:
                assert command.stdout is not None
                for line in command.stdout:
                    self._accept(line)
            self.over.wait(0.02)

    def _accept(self, line: str) -> None:
        try:
            record = json.loads(line)
        except ValueError:
            return  # cut short by the kill
        if "creation" not in record:
            return
        time_ms, sequence = record["creation"]
        (_, digest), *self.left = self.left
        self.ledger.accept((record["source"], time_ms, sequence), digest)


class Round:
    """Two nodes, one stream of bundles, one kill."""

    def __init__(self, crew: Crew, binary: Path, directory: Path, seed: int, bundles: int) -> None:
        self.dice = random.Random(seed)
        self.seed = seed
        self.bundles = bundles
        port = free_port()
        link = Link("receiver", f"127.0.0.1:{port}")
        self.sender = Node(crew, binary, directory / "sender", Settings(
            "ipn:1.0", links=[link], routes=[("ipn:2.*", "receiver")]))
        self.receiver = Node(crew, binary, directory / "receiver", Settings("ipn:2.0", f"127.0.0.1:{port}"))
        self.ledger = Ledger()
        (directory / "files").mkdir()
        self.files = payloads(directory / "files", bundles, self.dice)
        self.binary = binary

    def run(self) -> Result:
        """Plays the round to its end."""
        start = time.monotonic()
        victim, name = self.dice.choice([(self.sender, "sender"), (self.receiver, "receiver")])
        kill_at = self.dice.randrange(self.bundles)
        delay_s = self.dice.random() * 0.05
        trouble = ""
        receiving = Receiving(self.receiver, self.ledger)
        sending = Sending(self.binary, self.sender, self.files, self.ledger)
        try:
            self.receiver.start()
            self.sender.start()
            receiving.start()
            sending.start()
            self._wait_for(kill_at, victim)
            time.sleep(delay_s)
            self._kill(victim)
            victim.start()
            self._wait_for_all(sending)
        except NodeFailed as error:
            trouble = str(error)
        receiving.over.set()
        sending.over.set()
        receiving.join(5)
        sending.join(5)
        ledger = self.ledger
        return Result(
            self.seed, name, len(ledger.accepted), len(ledger.lost()), len(ledger.damaged()), ledger.repeated,
            len(ledger.repeated_after_durable), time.monotonic() - start, trouble)

    def _kill(self, victim: Node) -> None:
        if victim is self.receiver:
            # Bundles that were received and are no longer stored were delivered, and their deletion is durable.
            metrics = victim.metrics()
            # (Bundles that are still coming in count as stored, so this may be less than none.)
            gone = metrics["dhow_bundles_received_total"] - metrics["dhow_bundles_stored"]
            self.ledger.note_durable(max(0, int(gone)))
        victim.kill()
        if victim is self.receiver:
            self.ledger.note_restart()

    def _wait_for(self, count: int, victim: Node) -> None:
        """Until so many bundles were accepted (the sender dies) or have arrived (the receiver does)."""
        seen = self.ledger.accepted if victim is self.sender else self.ledger.arrived
        end = time.monotonic() + STALL_S
        while len(seen) < count:
            if time.monotonic() > end:
                raise NodeFailed(f"no more than {len(seen)} bundles came before the kill")
            time.sleep(0.001)

    def _wait_for_all(self, sending: Sending) -> None:
        """Until everything was accepted and has arrived, or nothing moves any more."""
        last, since = (-1, -1), time.monotonic()
        while sending.left or self.ledger.lost():
            now = (len(self.ledger.accepted), len(self.ledger.arrived))
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > STALL_S:
                raise NodeFailed(f"stalled with {now[0]} accepted and {now[1]} arrived")
            time.sleep(0.01)


def play(binary: Path, seed: int, bundles: int, kind: type[Round] = Round) -> Result:
    """One round in a directory of its own; the directory of a bad round stays."""
    directory = Path(tempfile.mkdtemp(prefix=f"dhow-kill-{seed}-"))
    with Crew() as crew:
        result = kind(crew, binary, directory, seed, bundles).run()
    if result.good:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        say(f"seed {seed}: {result}\n  kept: {directory}")
    return result


def summary(results: list[Result]) -> str:
    """The line at the end."""
    bad = [result for result in results if not result.good]
    return (
        f"{len(results)} rounds, {sum(r.accepted for r in results)} bundles accepted, "
        f"{sum(r.lost for r in results)} lost, {sum(r.damaged for r in results)} damaged, "
        f"{sum(r.repeated_after_durable for r in results)} delivered again after a durable confirmation "
        f"({sum(r.repeated for r in results)} before it), {len(bad)} rounds failed"
        + (f", seeds {' '.join(str(r.seed) for r in bad)}" if bad else "")
    )


def main(kind: type[Round] = Round, about: str = __doc__, rounds: int = 200, bundles: int = 1000) -> int:
    """Plays rounds of a kind, by default so many; 1 when one of them failed."""
    parser = argparse.ArgumentParser(description=about.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--bundles", type=int, default=bundles)
    parser.add_argument("--seed", type=int, default=1, help="seed of the first round; the next follow")
    parser.add_argument("--profile", default="debug", help="which build: debug or release")
    options = parser.parse_args()
    end_on_sigterm()
    binary = dhow(options.profile)
    bar = Bar(options.rounds, "rounds")
    results: list[Result] = []
    try:
        for seed in range(options.seed, options.seed + options.rounds):
            results.append(play(binary, seed, options.bundles, kind))
            bar.show(len(results), 0, f"seed {seed}, {results[-1].victim} killed, {results[-1].seconds:.1f} s")
    except KeyboardInterrupt:
        bar.clear()
        say("interrupted")
    bar.clear()
    print(summary(results))
    bad = [result for result in results if not result.good]
    if bad:
        with (target_directory() / "kill-rounds.txt").open("a") as file:
            file.writelines(f"{result}\n" for result in bad)
    return 1 if bad or not results else 0


if __name__ == "__main__":
    sys.exit(main())
