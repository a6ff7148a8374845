"""Rounds of SIGKILL with custody: three nodes in a row, bundles of version 6, and each node killed at a random moment.

    python3 -m tests.custody_rounds [--rounds 100] [--bundles 300] [--seed N] [--profile release]

The second hop is STCP, which acknowledges nothing: what is in its sockets when a node dies is lost, and custody alone brings it again. A
round is good when every bundle that the first node accepted arrived whole and once, and all three stores are empty at its end: nobody is
custodian of anything. A delivery whose confirmation was not durable when its node was killed may come again, as in `make kill`.
"""

import sys
import time
from pathlib import Path

from labs.rig.crew import Crew
from labs.rig.node import Link, Node, NodeFailed, Settings, free_port
from tests.kill_rounds import Receiving, Result, Round, Sending, main

# Signals gather for less than a custodian waits.
CUSTODY = '[custody]\ndelay = "200ms"\nretry = "2s"\n'

# Seconds that custody may take to end behind the last delivery: a signal is lost, its bundle comes again, and waits twice as long.
RESOLVED_S = 60.0


class CustodyRound(Round):
    """Three nodes, one stream of bundles in custody, and a kill of each."""

    def __init__(self, crew: Crew, binary: Path, directory: Path, seed: int, bundles: int) -> None:
        super().__init__(crew, binary, directory, seed, bundles)
        ports: set[int] = set()
        while len(ports) < 3:
            ports.add(free_port())
        first, there, back = (f"127.0.0.1:{port}" for port in sorted(ports))
        self.relay = Node(crew, binary, directory / "relay", Settings(
            "ipn:3.0", first, links=[Link("receiver", there, 'peer = "ipn:2.0"\n', "stcp")],
            routes=[("ipn:2.*", "receiver"), ("ipn:1.*", "ipn:1.0")],
            more=f'{CUSTODY}[[listen]]\nprotocol = "stcp"\naddress = "{back}"\npeer = "ipn:2.0"\n'))
        self.sender.settings = Settings(
            "ipn:1.0", links=[Link("relay", first, "", "tcpcl3")], routes=[("ipn:2.*", "relay"), ("ipn:3.*", "relay")], more=CUSTODY)
        self.receiver.settings = Settings(
            "ipn:2.0", there, "stcp", links=[Link("relay", back, 'peer = "ipn:3.0"\n', "stcp")],
            routes=[("ipn:1.*", "relay"), ("ipn:3.*", "relay")], listen_policy='peer = "ipn:3.0"\n', more=CUSTODY)
        self.nodes = {"sender": self.sender, "relay": self.relay, "receiver": self.receiver}

    def run(self) -> Result:
        start = time.monotonic()
        victims = self.dice.sample(sorted(self.nodes), len(self.nodes))
        moments = sorted(self.dice.randrange(self.bundles) for _ in victims)
        trouble = ""
        receiving = Receiving(self.receiver, self.ledger)
        sending = Sending(self.binary, self.sender, self.files, self.ledger, ["--version", "6", "--custody"])
        try:
            for node in self.nodes.values():
                node.start()
            receiving.start()
            sending.start()
            for name, moment in zip(victims, moments, strict=True):
                victim = self.nodes[name]
                self._wait_for(moment, victim)
                time.sleep(self.dice.random() * 0.05)
                self._kill(victim)
                victim.start()
            self._wait_for_all(sending)
            self._wait_for_custody()
        except NodeFailed as error:
            trouble = str(error)
        receiving.over.set()
        sending.over.set()
        receiving.join(5)
        sending.join(5)
        ledger = self.ledger
        return Result(
            self.seed, " ".join(victims), len(ledger.accepted), len(ledger.lost()), len(ledger.damaged()), ledger.repeated,
            len(ledger.repeated_after_durable), time.monotonic() - start, trouble)

    def _wait_for_custody(self) -> None:
        """Until no node has anything."""
        end = time.monotonic() + RESOLVED_S
        while left := {name: held for name, node in self.nodes.items() if (held := int(node.metrics()["dhow_bundles_stored"]))}:
            if time.monotonic() > end:
                raise NodeFailed(f"custody is not resolved: {left}")
            time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main(CustodyRound, __doc__, rounds=100, bundles=300))
