"""Ordered octets over bundles, as `dhow stream` has them (docs/stream.md)."""

import os
import time
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType

from dhow import chunk
from dhow.aio.delivery import Delivery
from dhow.aio.subscription import Subscription
from dhow.bundle import BundleId
from dhow.errors import DhowError, ProtocolError, Silent

# Octets of a chunk where nothing else is said.
CHUNK_OCTETS = 64 * 1024

# Chunks and octets that are held until those before them come.
HELD, HELD_OCTETS = 512, 64 << 20

# Chunks of other streams that may be in the way.
OTHERS = 256


class StreamWriter:
    """Sends octets in order; `async with` ends the stream when its block ends without an exception."""

    def __init__(self, send_all: Callable[[Iterable[bytes]], Awaitable[list[BundleId]]], chunk_octets: int) -> None:
        if not 1 <= chunk_octets <= chunk.CHUNK_OCTETS_MAX:
            raise ValueError(f"a chunk has 1 to {chunk.CHUNK_OCTETS_MAX} octets, not {chunk_octets}")
        self.stream = os.urandom(chunk.STREAM_OCTETS)
        self._send_all = send_all
        self._chunk_octets = chunk_octets
        self._next = 0
        self._ended = False

    async def write(self, octets: bytes) -> None:
        """Sends octets; returns once the node has them durably. A write that failed may be tried again with the same octets."""
        if self._ended:
            raise DhowError("the stream has ended")
        pieces = [octets[at:at + self._chunk_octets] for at in range(0, len(octets), self._chunk_octets)]
        await self._put(pieces, last=False)

    async def close(self) -> None:
        """Ends the stream: the receiver ends, too."""
        if not self._ended:
            await self._put([b""], last=True)
            self._ended = True

    async def _put(self, pieces: list[bytes], *, last: bool) -> None:
        chunks = (chunk.Chunk(self.stream, self._next + at, bytes(piece), last).encode() for at, piece in enumerate(pieces))
        await self._send_all(chunks)
        self._next += len(pieces)

    async def __aenter__(self) -> "StreamWriter":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            await self.close()


class StreamReader:
    """Octets in order, as an asynchronous iterator of chunks that ends with the stream.

    It takes the first stream that it hears of, or the one that is named. A chunk is confirmed when the next one is asked for.
    """

    def __init__(self, subscription: Subscription, stream: bytes | None, first: int, timeout_s: float | None) -> None:
        self.stream = stream
        self.next = first
        self._subscription = subscription
        self._timeout_s = timeout_s
        self._held: dict[int, tuple[chunk.Chunk, Delivery]] = {}
        self._held_octets = 0
        self._others = 0
        self._given: Delivery | None = None
        self._ended = False

    async def read(self) -> bytes:
        """The octets of the next chunk; empty at the end of the stream. Raises Silent when nothing of it came for the timeout."""
        await self._confirm_given()
        heard = time.monotonic()
        while not self._ended:
            if found := self._held.pop(self.next, None):
                piece, self._given = found
                self._held_octets -= len(piece.octets)
                self.next += 1
                if piece.last:
                    self._ended = True
                    await self._confirm_given()
                return piece.octets
            left_s = None if self._timeout_s is None else max(0.0, heard + self._timeout_s - time.monotonic())
            delivery = await self._subscription.next(left_s)
            if delivery is None:
                raise Silent(f"nothing of the stream came for {self._timeout_s:g} s", f"it goes on from chunk {self.next}")
            self._forget_lost(delivery)
            if await self._place(delivery):
                heard = time.monotonic()
        return b""

    async def close(self) -> None:
        """Ends the subscription; what was not confirmed stays at the node."""
        await self._subscription.close()

    async def _confirm_given(self) -> None:
        given, self._given = self._given, None
        if given:
            await given.confirm()

    def _forget_lost(self, newest: Delivery) -> None:
        """Held chunks of a connection that was lost come again."""
        if any(held.connection is not newest.connection for _, held in self._held.values()):
            self._held.clear()
            self._held_octets = self._others = 0

    async def _place(self, delivery: Delivery) -> bool:
        """Holds a chunk; whether it is of this stream. A delivery that is not a chunk is confirmed and dropped."""
        try:
            if delivery.size > chunk.CHUNK_OCTETS_MAX + chunk.HEADER_OCTETS_MAX:
                raise ProtocolError("the bundle is too large for a chunk")
            piece = chunk.decode(await delivery.read())
        except ProtocolError:
            await delivery.confirm()
            return False
        self.stream = self.stream or piece.stream
        if piece.stream != self.stream:
            self._others += 1
            if self._others > OTHERS:
                raise DhowError(f"{OTHERS} chunks of other streams are in the way", "name the stream to receive")
            return False
        if piece.number < self.next or piece.number in self._held:
            await delivery.confirm()
            return True
        full = len(self._held) >= HELD or self._held_octets + len(piece.octets) > HELD_OCTETS
        if full and piece.number != self.next:
            latest = max(self._held, default=piece.number)
            if latest <= piece.number:
                await delivery.decline()
                return True
            dropped, declined = self._held.pop(latest)
            self._held_octets -= len(dropped.octets)
            await declined.decline()
        self._held[piece.number] = (piece, delivery)
        self._held_octets += len(piece.octets)
        return True

    def __aiter__(self) -> "StreamReader":
        return self

    async def __anext__(self) -> bytes:
        octets = await self.read()
        if not octets and self._ended:
            await self.close()
            raise StopAsyncIteration
        return octets

    async def __aenter__(self) -> "StreamReader":
        await self._subscription.subscribe()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            await self._confirm_given()
        await self.close()
