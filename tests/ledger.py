"""The ledger of one round: which bundles a node took, which came, which came again after they must not."""

import hashlib
import threading
from dataclasses import dataclass, field

from tests.aap2 import BundleId, Delivery


@dataclass
class Ledger:
    """Written by the sender's and the receiver's thread, read by both and by the round."""

    accepted: dict[BundleId, str] = field(default_factory=dict)  # to the SHA-256 of the payload
    arrived: dict[BundleId, str] = field(default_factory=dict)
    confirmed: list[BundleId] = field(default_factory=list)  # in this life of the receiving node, in order
    durable: set[BundleId] = field(default_factory=set)  # confirmations that the node had made durable
    repeated: int = 0
    repeated_after_durable: list[BundleId] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def accept(self, bundle: BundleId, digest: str) -> None:
        """The sending node has told that a bundle is durable."""
        with self.lock:
            self.accepted[bundle] = digest

    def arrive(self, delivery: Delivery) -> None:
        """A delivery has come."""
        with self.lock:
            if delivery.bundle in self.arrived:
                self.repeated += 1
            if delivery.bundle in self.durable:
                self.repeated_after_durable.append(delivery.bundle)
            self.arrived[delivery.bundle] = hashlib.sha256(delivery.payload).hexdigest()

    def confirm(self, bundle: BundleId) -> None:
        """A confirmation was written to the node."""
        with self.lock:
            self.confirmed.append(bundle)

    def note_durable(self, count: int) -> None:
        """The receiving node has made so many confirmations durable: the first ones, since it takes them in order."""
        with self.lock:
            self.durable.update(self.confirmed[:count])

    def note_restart(self) -> None:
        """The receiving node has started again and counts from nothing."""
        with self.lock:
            self.confirmed.clear()

    def lost(self) -> list[BundleId]:
        """Bundles that were accepted and have not arrived."""
        with self.lock:
            return [bundle for bundle in self.accepted if bundle not in self.arrived]

    def damaged(self) -> list[BundleId]:
        """Bundles whose payload is not what was sent."""
        with self.lock:
            return [
                bundle for bundle, digest in self.accepted.items()
                if self.arrived.get(bundle, digest) != digest
            ]
