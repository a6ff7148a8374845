"""Sending bundles from one endpoint."""

import contextlib
import time
from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import TypeAlias

from dhow import wire
from dhow.bundle import BundleId
from dhow.connection import Connection
from dhow.errors import STATUS_SUCCESS, Denied, Disconnected, ProtocolError, Refused, Silent, Unreachable, refused
from dhow.payload import Source
from dhow.settings import BACKOFF_MAX_S, BACKOFF_MIN_S, Settings
from dhow.world import READ_OCTETS, World

NULL_ENDPOINT = "dtn:none"

# Requests that may wait for their answers: a node goes on reading while 1 MiB of answers waits for its client.
REQUESTS_MAX = 256

Request: TypeAlias = tuple[wire.Adu, Source]


class Sender:
    """A connection that sends, made when it is needed and again when it was lost."""

    def __init__(self, world: World, settings: Settings, endpoint: str) -> None:
        self._world = world
        self._settings = settings
        self._endpoint = "" if endpoint == NULL_ENDPOINT else endpoint
        self._connection: Connection | None = None
        self._lock = world.lock()

    async def register(self, *, abandon: bool) -> None:
        """Registers the endpoint anew. Raises Refused."""
        async with self._lock:
            self.close()
            await self._connect(abandon=abandon)

    async def send(self, head: wire.Adu, source: Source) -> BundleId:
        """Has the node create a bundle; returns once it is durable there.

        Goes on when the node restarts: what it had not answered then is sent again.
        """
        return (await self.send_all(iter([(head, source)])))[0]

    async def send_all(self, requests: Iterator[Request]) -> list[BundleId]:
        """The same for many, without waiting for each: requests are written ahead of their answers.

        Raises Refused at the first one that the node refuses; of those behind it some may have been sent.
        """
        waiting: deque[Request] = deque()
        done: list[BundleId] = []
        async with self._lock:
            try:
                await self._persistently(requests, waiting, done)
            finally:
                for _, source in waiting:
                    source.close()
        return done

    async def _persistently(self, requests: Iterator[Request], waiting: deque[Request], done: list[BundleId]) -> None:
        """Goes on after the node was away, for as long as it may be."""
        deadline: float | None = None
        backoff_s, before = BACKOFF_MIN_S, 0
        while True:
            try:
                await self._pipeline(requests, waiting, done)
                return
            except Denied:
                raise
            except (Disconnected, Silent, Unreachable):
                if len(done) > before:
                    deadline, backoff_s, before = None, BACKOFF_MIN_S, len(done)
                deadline = deadline or time.monotonic() + self._settings.absence_s
                if time.monotonic() + backoff_s >= deadline:
                    raise
            await self._world.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)

    async def _pipeline(self, requests: Iterator[Request], waiting: deque[Request], done: list[BundleId]) -> None:
        """Writes what waits for an answer over the present connection, then what is new, and takes the answers in order."""
        connection = self._connection or await self._connect()
        written = 0
        try:
            for request, is_new in chain([(request, False) for request in waiting], ((request, True) for request in requests)):
                if is_new:
                    waiting.append(request)
                await self._write(connection, *request)
                written += 1
                while written >= REQUESTS_MAX:
                    await self._take(connection, waiting, done)
                    written -= 1
            while waiting:
                await self._take(connection, waiting, done)
        except Refused:
            # Answers of others may be under way.
            if waiting:
                self.close()
            raise
        except BaseException:
            self.close()
            raise

    async def _take(self, connection: Connection, waiting: deque[Request], done: list[BundleId]) -> None:
        """Takes the answer to the oldest request."""
        response = await connection.answer()
        waiting.popleft()[1].close()
        done.append(created(response))

    async def _write(self, connection: Connection, head: wire.Adu, source: Source) -> None:
        most = connection.welcome.payload_octets_max
        if 0 < most < source.length:
            raise Refused(f"the payload has {source.length} octets, and the node takes {most} at most", "send it in parts")
        source.rewind()
        octets = wire.request(head)
        left = source.length
        try:
            while left:
                piece = await self._world.call(source.read, min(left, READ_OCTETS))
                left -= len(piece)
                await connection.write(octets + piece)
                octets = b""
            if octets:
                await connection.write(octets)
        except Disconnected:
            # The node may have said why before it closed.
            with contextlib.suppress(Disconnected, Silent):
                response = await connection.answer()
                if response.status != STATUS_SUCCESS:
                    raise refused(response.status, response.message) from None
            raise

    async def _connect(self, *, abandon: bool = False) -> Connection:
        settings = self._settings
        connection = await Connection.open(self._world, settings.address, settings.greeting_s, settings.patience_s)
        try:
            message = wire.config(self._endpoint, subscribes=False, secret=settings.secret, abandon=abandon)
            await connection.configure(message, settings.greeting_s)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def close(self) -> None:
        """Ends the connection; the next request makes another."""
        if self._connection:
            self._connection.close()
            self._connection = None


def created(response: wire.Response) -> BundleId:
    """The bundle that an answer tells of. Raises Refused."""
    if response.status != STATUS_SUCCESS:
        raise refused(response.status, response.message)
    if response.source is None:
        raise ProtocolError("an answer says success and not which bundle")
    return BundleId(response.source, response.creation_ms, response.sequence)
