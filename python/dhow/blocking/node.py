"""A node as an application sees it, for threads: each call is that of `dhow.aio` and returns when it is done.

Several threads may send over one `Node`; a subscription and its deliveries belong to one thread.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal

from dhow import aio
from dhow.aio.node import WINDOW, WhenAway, settings
from dhow.aio.ordered import CHUNK_OCTETS
from dhow.blocking.world import BlockingWorld, run
from dhow.bundle import BundleId, ReportKind
from dhow.payload import Payload
from dhow.report import StatusReport


class Delivery:
    """A bundle, its payload, and whether the node may forget it.

    `with delivery:` confirms it when the block ends without an exception and declines it otherwise. A payload must be read before
    the next delivery is taken; octets that were not read are skipped.
    """

    def __init__(self, inner: aio.Delivery) -> None:
        self._inner = inner

    @property
    def id(self) -> BundleId:
        """The bundle's identity."""
        return self._inner.id

    @property
    def source(self) -> str:
        """Source endpoint; "dtn:none" of an anonymous bundle."""
        return self._inner.source

    @property
    def destination(self) -> str:
        """Destination endpoint."""
        return self._inner.destination

    @property
    def report_to(self) -> str:
        """Report-to endpoint; empty where the node does not say it."""
        return self._inner.report_to

    @property
    def created(self) -> datetime | None:
        """When the bundle was created; None where its source has no accurate clock."""
        return self._inner.created

    @property
    def lifetime_s(self) -> float | None:
        """Lifetime in seconds, if the node says it."""
        return self._inner.lifetime_s

    @property
    def priority(self) -> str:
        """ "bulk", "normal", "expedited" or "expedited:N", as `send` has it."""
        return self._inner.priority

    @property
    def size(self) -> int:
        """Octets of the payload."""
        return self._inner.size

    @property
    def flags(self) -> int:
        """Bundle processing control flags (RFC 9171 4.2.3)."""
        return self._inner.flags

    @property
    def version(self) -> int:
        """Version of the bundle, 6 or 7."""
        return self._inner.version

    @property
    def is_answered(self) -> bool:
        """Whether it was confirmed or declined."""
        return self._inner.is_answered

    def read(self, most: int = -1) -> bytes:
        """Up to so many octets of the payload, or all that are left; empty at its end. Raises Disconnected or Silent."""
        return run(self._inner.read(most))

    def copy_to(self, file: BinaryIO) -> int:
        """Writes what is left of the payload to a file; returns its octets."""
        return run(self._inner.copy_to(file))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes what is left of the payload to a file, which is there as a whole and on the disk, or not at all."""
        return run(self._inner.save(path))

    def report(self) -> StatusReport | None:
        """The status report that the bundle carries; None where it carries none, or one of version 6. Raises ProtocolError."""
        return run(self._inner.report())

    def confirm(self) -> None:
        """Lets the node forget the bundle."""
        run(self._inner.confirm())

    def decline(self) -> None:
        """Lets the node keep the bundle and deliver it again a second later."""
        run(self._inner.decline())

    def __enter__(self) -> "Delivery":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        return run(self._inner.__aexit__(kind, error, trace))


class Subscription:
    """Deliveries, in order: an iterator that ends when nothing has come for its timeout, and a context manager.

    It outlives a restart of the node. Bundles that were confirmed are not given out again. It is closed when nobody has it any more.
    """

    def __init__(self, inner: aio.Subscription) -> None:
        self._inner = inner
        run(inner.subscribe())

    @property
    def endpoint(self) -> str:
        """The endpoint."""
        return self._inner.endpoint

    @property
    def is_away(self) -> bool:
        """Whether the node is away at present."""
        return self._inner.is_away

    def next(self, timeout_s: float | None = None) -> Delivery | None:
        """The next delivery; None when nothing has come for so long. Raises Disconnected when the node is away then."""
        inner = run(self._inner.next(timeout_s))
        return None if inner is None else Delivery(inner)

    def close(self) -> None:
        """Ends the subscription once the node has read all confirmations; deliveries that have none come again."""
        run(self._inner.close())

    def __iter__(self) -> Iterator[Delivery]:
        return self

    def __next__(self) -> Delivery:
        try:
            return Delivery(run(self._inner.__anext__()))
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        # An iteration that was left by `break`: deliveries that were not taken go back to the node, confirmations arrive there.
        with contextlib.suppress(Exception):
            self.close()


class StreamWriter:
    """Sends octets in order; `with` ends the stream when its block ends without an exception."""

    def __init__(self, inner: aio.StreamWriter) -> None:
        self._inner = inner

    @property
    def stream(self) -> bytes:
        """The stream's identity, 16 octets."""
        return self._inner.stream

    def write(self, octets: bytes) -> None:
        """Sends octets; returns once the node has them durably. A write that failed may be tried again with the same octets."""
        run(self._inner.write(octets))

    def close(self) -> None:
        """Ends the stream: the receiver ends, too."""
        run(self._inner.close())

    def __enter__(self) -> "StreamWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        run(self._inner.__aexit__(kind, error, trace))


class StreamReader:
    """Octets in order, as an iterator of chunks that ends with the stream; a chunk is confirmed when the next one is asked for."""

    def __init__(self, inner: aio.StreamReader) -> None:
        self._inner = inner

    @property
    def stream(self) -> bytes | None:
        """The stream's identity, once a chunk of it has come."""
        return self._inner.stream

    def read(self) -> bytes:
        """The octets of the next chunk; empty at the end of the stream. Raises Silent when nothing of it came for the timeout."""
        return run(self._inner.read())

    def close(self) -> None:
        """Ends the subscription; what was not confirmed stays at the node."""
        run(self._inner.close())

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return run(self._inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> "StreamReader":
        run(self._inner.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        run(self._inner.__aexit__(kind, error, trace))


class Node:
    """A node that answered; `node_id` is its ID and `endpoint` an endpoint of it that nobody else uses."""

    def __init__(self, inner: aio.Node) -> None:
        self._inner = inner

    @property
    def node_id(self) -> str:
        """The node's ID."""
        return self._inner.node_id

    @property
    def endpoint(self) -> str:
        """An endpoint of the node that nobody else uses: the source of bundles where none is said."""
        return self._inner.endpoint

    @property
    def payload_octets_max(self) -> int | None:
        """The largest payload that the node takes, octets, where it says so."""
        return self._inner.payload_octets_max

    def send(
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
        return run(self._inner.send(
            to, payload, lifetime=lifetime, report=report, report_to=report_to, source=source, fragment=fragment, version=version,
            priority=priority))

    def send_all(
        self, to: str, payloads: Iterable[Payload], *, lifetime: float | timedelta | None = None,
        report: ReportKind | Sequence[ReportKind] = (), report_to: str = "", source: str | None = None,
        fragment: bool = True, version: Literal[6, 7] = 7, priority: str | None = None,
    ) -> list[BundleId]:
        """Sends a bundle of each payload, without waiting for each, and returns their identities in order; the rest is as with `send`.

        Raises Refused or PayloadError at the first payload that the node refuses or that cannot be read: others may have been sent.
        """
        return run(self._inner.send_all(
            to, payloads, lifetime=lifetime, report=report, report_to=report_to, source=source, fragment=fragment, version=version,
            priority=priority))

    def receive(
        self, endpoint: str | None = None, *, timeout: float | None = None, window: int = WINDOW, when_away: WhenAway = "keep",
    ) -> Subscription:
        """The deliveries at an endpoint of the node (`endpoint` where it is not said), from now on.

        The iteration ends when nothing has come for `timeout` seconds; without it never. `window`: deliveries that may be
        unconfirmed at a time, 1 to 1024; `when_away`: whether bundles wait while nobody receives at the endpoint.

        Raises Refused, Unreachable or Silent.
        """
        return Subscription(self._inner.receive(endpoint, timeout=timeout, window=window, when_away=when_away))

    def reports(self, endpoint: str | None = None, *, timeout: float | None = None) -> Iterator[StatusReport]:
        """The status reports that come to an endpoint (`endpoint` where it is not said); other bundles there are dropped."""
        with self.receive(endpoint, timeout=timeout) as deliveries:
            for delivery in deliveries:
                with delivery:
                    report = delivery.report()
                if report:
                    yield report

    def register(self, endpoint: str, *, when_away: WhenAway = "keep") -> None:
        """Registers an endpoint, also for what becomes of its bundles while nobody receives there. Raises Refused where others hold it."""
        run(self._inner.register(endpoint, when_away=when_away))

    def stream_to(
        self, to: str, *, lifetime: float | timedelta | None = None, source: str | None = None, chunk: int = CHUNK_OCTETS,
    ) -> StreamWriter:
        """Ordered octets to an endpoint (docs/stream.md), in chunks of at most so many."""
        return StreamWriter(self._inner.stream_to(to, lifetime=lifetime, source=source, chunk=chunk))

    def stream_from(
        self, endpoint: str, *, stream: bytes | None = None, first: int = 0, timeout: float | None = None,
    ) -> StreamReader:
        """Ordered octets at an endpoint: of the first stream that is heard of, or of `stream`, from chunk `first` on."""
        return StreamReader(self._inner.stream_from(endpoint, stream=stream, first=first, timeout=timeout))

    def close(self) -> None:
        """Ends all connections that send; subscriptions go on."""
        run(self._inner.close())

    def __enter__(self) -> "Node":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def connect(
    node: str | os.PathLike[str] | None = None, *, secret: str = "", timeout: float = 30.0, patience: float = 60.0,
    absence: float = 60.0,
) -> Node:
    """A connection to a node: `with dhow.connect() as node:`.

    `node`: the socket's path, or HOST:PORT of an API on TCP; without it DHOW_NODE, or dhow.sock here, in $XDG_RUNTIME_DIR or in
    /run/dhow. `secret`: what all connections to an endpoint share. `timeout`: seconds for the node to greet; `patience`: seconds
    for which it may take and give nothing while it is waited for; `absence`: seconds for which `send` waits for a node that went away.

    Raises Unreachable, Denied, Silent or ProtocolError.
    """
    chosen = settings(node, secret=secret, timeout=timeout, patience=patience, absence=absence)
    return Node(run(aio.Node.open(BlockingWorld(), chosen)))
