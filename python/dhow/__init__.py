"""Send and receive bundles over a Dhow node, and operate it.

    import dhow

    with dhow.connect() as node:
        node.send("ipn:2.42", b"hello")
        for delivery in node.receive("ipn:1.7", timeout=10):
            with delivery:
                print(delivery.source, delivery.read())

`dhow.aio` has the same names for asyncio, `dhow.Admin` is the operator's side, `dhow.results` reads what labs and simulations leave.
"""

from dhow.admin import Admin
from dhow.blocking.node import Delivery, Node, StreamReader, StreamWriter, Subscription, connect
from dhow.bundle import BundleId, ReportKind
from dhow.errors import (
    Denied, DhowError, Disconnected, PayloadError, ProtocolError, Refused, Silent, Unreachable)
from dhow.report import StatusReport

__all__ = [
    "Admin", "BundleId", "Delivery", "Denied", "DhowError", "Disconnected", "Node", "PayloadError", "ProtocolError", "Refused",
    "ReportKind", "Silent", "StatusReport", "StreamReader", "StreamWriter", "Subscription", "Unreachable", "connect",
]
