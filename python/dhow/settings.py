"""The settings that all connections to one node have in common."""

import secrets
from dataclasses import dataclass

from dhow.address import Address

# Times before a connection is tried again, first and longest.
BACKOFF_MIN_S, BACKOFF_MAX_S = 0.05, 1.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The node's address, the secret of endpoints, and the times to wait for the node, seconds.

    `greeting_s`: to be connected and greeted, and to accept a registration; `patience_s`: without an octet while this side waits
    for one; `absence_s`: until a node that went away is back, while something is sent.
    """

    address: Address
    secret: str = ""
    greeting_s: float = 30.0
    patience_s: float = 60.0
    absence_s: float = 60.0


def random_endpoint(node_id: str) -> str:
    """An endpoint of the node that nobody else uses: a random high service, as those of the command line."""
    if node_id.startswith("ipn:"):
        # Above the numbers of well-known and private services, and positive where 32 bits have a sign.
        service = secrets.randbits(30) | 1 << 30
        return f"{node_id.rpartition('.')[0]}.{service}"
    return f"{node_id}dhow-{secrets.token_hex(4)}"
