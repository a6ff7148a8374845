"""A node as an application sees it."""

import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Generator, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal

from dhow import wire
from dhow.address import locate
from dhow.aio.ordered import CHUNK_OCTETS, StreamReader, StreamWriter
from dhow.aio.sender import Sender
from dhow.aio.subscription import WINDOW_MAX, Subscription
from dhow.aio.world import AsyncioWorld
from dhow.bundle import FLAG_MUST_NOT_FRAGMENT, BundleId, ReportKind, level, milliseconds, report_flags
from dhow.connection import Connection
from dhow.payload import Payload, source as source_of
from dhow.report import StatusReport
from dhow.settings import Settings, random_endpoint
from dhow.world import World

# Endpoints that keep a connection to send from; the one that was not used for longest gives way.
SENDERS_MAX = 16

# The deliveries that a node gives before one of them is confirmed.
WINDOW = 16

WhenAway = Literal["keep", "drop"]


class Node:
    """A node that answered; `node_id` is its ID and `endpoint` an endpoint of it that nobody else uses."""

    def __init__(self, world: World, settings: Settings, welcome: wire.Welcome) -> None:
        self.node_id = welcome.node_id
        self.payload_octets_max = welcome.payload_octets_max or None
        self.endpoint = random_endpoint(welcome.node_id)
        self._world = world
        self._settings = settings
        self._senders: OrderedDict[str, Sender] = OrderedDict()

    @classmethod
    async def open(cls, world: World, settings: Settings) -> "Node":
        """Asks the node who it is. Raises Unreachable, Denied, Silent or ProtocolError."""
        connection = await Connection.open(world, settings.address, settings.greeting_s, settings.patience_s)
        connection.close()
        return cls(world, settings, connection.welcome)

    async def send(
        self, to: str, payload: Payload, *, lifetime: float | timedelta | None = None,
        report: ReportKind | Sequence[ReportKind] = (), report_to: str = "", source: str | None = None,
        fragment: bool = True, version: Literal[6, 7] = 7, priority: str | None = None,
    ) -> BundleId:
        """Sends a bundle and returns its identity, once the node has it durably.

        `payload`: octets, a path, or an open file of any length; `lifetime`: seconds or a timedelta (the node's default is a day);
        `report`: the status reports asked for, which go to `report_to` or else to the source; `source`: an endpoint of the node
        (`endpoint` where it is not said, "dtn:none" for an anonymous bundle); `fragment=False`: the bundle stays in one piece;
        `priority`: "bulk", "normal", "expedited" or "expedited:N", N from 0 to 254 the more urgent the greater.
        If the node restarts meanwhile, what it had not answered is sent again: the bundle may then exist twice.

        Raises Refused, Disconnected (the node was away for too long), Silent or PayloadError.
        """
        head = self._head(to, lifetime, report, report_to, source, fragment, version, priority)
        content = await self._world.call(source_of, payload)
        try:
            return await self._sender(source or self.endpoint).send(replace(head, payload_octets=content.length), content)
        finally:
            content.close()

    async def send_all(
        self, to: str, payloads: Iterable[Payload], *, lifetime: float | timedelta | None = None,
        report: ReportKind | Sequence[ReportKind] = (), report_to: str = "", source: str | None = None,
        fragment: bool = True, version: Literal[6, 7] = 7, priority: str | None = None,
    ) -> list[BundleId]:
        """Sends a bundle of each payload, without waiting for each, and returns their identities in order; the rest is as with `send`.

        Raises Refused or PayloadError at the first payload that the node refuses or that cannot be read: others may have been sent.
        """
        head = self._head(to, lifetime, report, report_to, source, fragment, version, priority)
        contents = map(source_of, payloads)
        requests = ((replace(head, payload_octets=content.length), content) for content in contents)
        return await self._sender(source or self.endpoint).send_all(requests)

    @staticmethod
    def _head(
        to: str, lifetime: float | timedelta | None, report: ReportKind | Sequence[ReportKind], report_to: str, source: str | None,
        fragment: bool, version: int, priority: str | None,
    ) -> wire.Adu:
        """The fields that bundles of one call have in common."""
        return wire.Adu(
            source=source if source == "dtn:none" else "", destination=to, report_to=report_to,
            lifetime_ms=None if lifetime is None else milliseconds(lifetime), version=version, level=None if priority is None else level(priority),
            flags=report_flags(report) | (0 if fragment else FLAG_MUST_NOT_FRAGMENT))

    def receive(
        self, endpoint: str | None = None, *, timeout: float | None = None, window: int = WINDOW, when_away: WhenAway = "keep",
    ) -> Subscription:
        """The deliveries at an endpoint of the node (`endpoint` where it is not said).

        The iteration ends when nothing has come for `timeout` seconds; without it never. `window`: deliveries that may be
        unconfirmed at a time, 1 to 1024; `when_away`: whether bundles wait while nobody receives at the endpoint.
        """
        return Subscription(
            self._world, self._settings, endpoint or self.endpoint, timeout, window, abandon=when_away == "drop")

    async def reports(self, endpoint: str | None = None, *, timeout: float | None = None) -> AsyncIterator[StatusReport]:
        """The status reports that come to an endpoint (`endpoint` where it is not said); other bundles there are dropped."""
        async with self.receive(endpoint, timeout=timeout) as deliveries:
            async for delivery in deliveries:
                async with delivery:
                    report = await delivery.report()
                if report:
                    yield report

    async def register(self, endpoint: str, *, when_away: WhenAway = "keep") -> None:
        """Registers an endpoint, also for what becomes of its bundles while nobody receives there. Raises Refused where others hold it."""
        await self._sender(endpoint).register(abandon=when_away == "drop")

    def stream_to(
        self, to: str, *, lifetime: float | timedelta | None = None, source: str | None = None, chunk: int = CHUNK_OCTETS,
    ) -> StreamWriter:
        """Ordered octets to an endpoint (docs/stream.md), in chunks of at most so many."""

        async def send_all(payloads: Iterable[bytes]) -> list[BundleId]:
            return await self.send_all(to, payloads, lifetime=lifetime, source=source)

        return StreamWriter(send_all, chunk)

    def stream_from(
        self, endpoint: str, *, stream: bytes | None = None, first: int = 0, timeout: float | None = None,
    ) -> StreamReader:
        """Ordered octets at an endpoint: of the first stream that is heard of, or of `stream`, from chunk `first` on."""
        return StreamReader(self.receive(endpoint, window=WINDOW_MAX), stream, first, timeout)

    async def close(self) -> None:
        """Ends all connections that send; subscriptions go on."""
        for sender in self._senders.values():
            sender.close()
        self._senders.clear()

    def _sender(self, endpoint: str) -> Sender:
        sender = self._senders.pop(endpoint, None) or Sender(self._world, self._settings, endpoint)
        self._senders[endpoint] = sender
        if len(self._senders) > SENDERS_MAX:
            self._senders.popitem(last=False)[1].close()
        return sender

    async def __aenter__(self) -> "Node":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


class Connecting:
    """A node that is awaited, or entered by `async with`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._node: Node | None = None

    def __await__(self) -> Generator[Any, None, Node]:
        return Node.open(AsyncioWorld(), self._settings).__await__()

    async def __aenter__(self) -> Node:
        self._node = await Node.open(AsyncioWorld(), self._settings)
        return self._node

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._node:
            await self._node.close()


def settings(
    node: str | os.PathLike[str] | None = None, *, secret: str = "", timeout: float = 30.0, patience: float = 60.0,
    absence: float = 60.0,
) -> Settings:
    """The settings of connections. Raises Unreachable where no node is named and no socket is found."""
    for name, value in (("timeout", timeout), ("patience", patience)):
        if not 0 < value < float("inf"):
            raise ValueError(f"{name} is a number of seconds above 0, not {value}")
    return Settings(locate(node), secret, timeout, patience, max(0.0, absence))


def connect(
    node: str | os.PathLike[str] | None = None, *, secret: str = "", timeout: float = 30.0, patience: float = 60.0,
    absence: float = 60.0,
) -> Connecting:
    """A connection to a node: `async with connect() as node:`, or `node = await connect()`.

    `node`: the socket's path, or HOST:PORT of an API on TCP; without it DHOW_NODE, or dhow.sock here, in $XDG_RUNTIME_DIR or in
    /run/dhow. `secret`: what all connections to an endpoint share. `timeout`: seconds for the node to greet; `patience`: seconds
    for which it may take and give nothing while it is waited for; `absence`: seconds for which `send` waits for a node that went away.
    """
    return Connecting(settings(node, secret=secret, timeout=timeout, patience=patience, absence=absence))
