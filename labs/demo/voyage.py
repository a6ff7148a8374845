"""The run itself: contacts come and go, gamma dies once, until all has arrived."""

import time

from labs.demo.cargo import Cargo
from labs.demo.contacts import Contacts
from labs.rig.crew import Program
from labs.rig.network import Network
from labs.rig.node import Node
from labs.rig.terminal import Bar

CONTACT_S = 3.0
GAP_S = 4.0

# Gamma is killed this long after the second contact opened: in the middle of a transfer.
KILL_CONTACT = 2
KILL_AFTER_S = 1.2

# Seconds after which the demonstration gives up.
GIVE_UP_S = 120.0


class Voyage:
    """Watches over one run and turns its events."""

    def __init__(self, path: Network, cargo: Cargo, gamma: Node, receiver: Program) -> None:
        self.cargo = cargo
        self.gamma = gamma
        self.receiver = receiver
        self.contacts = Contacts(path, CONTACT_S, GAP_S)
        self.bar = Bar(cargo.expected, "bundles")
        self.gamma_down_s = 0.0
        self.killed = False
        self.killed_at: float | None = None
        self.last_arrival = time.monotonic()
        self.arrivals: list[tuple[float, int]] = []  # time and octets that had arrived by then

    def sail(self) -> None:
        """Returns when all bundles have arrived or it is time to give up."""
        start = time.monotonic()
        while self.cargo.arrived < self.cargo.expected and time.monotonic() - start < GIVE_UP_S:
            if event := self.contacts.turn():
                self.bar.interrupt(event)
            if not self.killed and self._kill_is_due():
                self._kill_gamma()
            self._take_arrivals()
            self.bar.show(self.cargo.arrived, self.cargo.arrived_octets, self.contacts.note())
            time.sleep(0.01)
        self.bar.clear()

    def _take_arrivals(self) -> None:
        for line in self.receiver.rest():
            self.cargo.take(line)
            self.last_arrival = time.monotonic()
            self.arrivals.append((self.last_arrival, self.cargo.arrived_octets))

    def _kill_is_due(self) -> bool:
        contacts = self.contacts
        return (
            len(contacts.past) == KILL_CONTACT
            and contacts.up
            and time.monotonic() - contacts.past[-1].opened >= KILL_AFTER_S
        )

    def _kill_gamma(self) -> None:
        self.killed = True
        down = self.killed_at = time.monotonic()
        self.gamma.kill()
        self.bar.interrupt("gamma is killed with SIGKILL, in the middle of a transfer")
        self.gamma.start()
        self.gamma_down_s = time.monotonic() - down
        self.bar.interrupt(f"gamma is back after {self.gamma_down_s:.2f} s, with what it had acknowledged")
