"""The package `dhow` under asyncio: the same names, with `await`, `async with` and `async for`."""

from dhow.aio.admin import Admin
from dhow.aio.delivery import Delivery
from dhow.aio.node import Node, connect
from dhow.aio.ordered import StreamReader, StreamWriter
from dhow.aio.subscription import Subscription
from dhow.bundle import BundleId, ReportKind
from dhow.report import StatusReport

__all__ = ["Admin", "BundleId", "Delivery", "Node", "ReportKind", "StatusReport", "StreamReader", "StreamWriter", "Subscription", "connect"]
