"""One bundle being received."""

import os
import secrets
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from dhow import wire
from dhow.bundle import BundleId, priority
from dhow.connection import Connection
from dhow.errors import STATUS_ERROR, STATUS_SUCCESS, DhowError, Disconnected, Silent
from dhow.report import StatusReport, status_report
from dhow.world import READ_OCTETS, World

# Payloads up to here are read before the delivery is given out, so that a lost connection is no matter of the application.
READ_AHEAD_OCTETS = 1024 * 1024

# The longest administrative record that is read: status reports have some dozens of octets.
RECORD_OCTETS_MAX = 64 * 1024


class Delivery:
    """A bundle, its payload, and whether the node may forget it.

    `async with delivery:` confirms it when the block ends without an exception and declines it otherwise. A payload must be read
    before the next delivery is taken; octets that were not read are skipped.
    """

    def __init__(self, world: World, connection: Connection, head: wire.Adu, answer: Callable[["Delivery", int], Awaitable[None]]) -> None:
        self._world = world
        self.connection = connection
        self._head = head
        self._answer = answer
        self._left = head.payload_octets
        self._ahead = bytearray()
        self._record: bytes | None = None
        self._broken: DhowError | None = None
        self.is_answered = False

    @property
    def id(self) -> BundleId:
        """The bundle's identity."""
        return BundleId(self._head.source, self._head.creation_ms, self._head.sequence)

    @property
    def source(self) -> str:
        """Source endpoint; "dtn:none" of an anonymous bundle."""
        return self._head.source or "dtn:none"

    @property
    def destination(self) -> str:
        """Destination endpoint."""
        return self._head.destination

    @property
    def report_to(self) -> str:
        """Report-to endpoint; empty where the node does not say it."""
        return self._head.report_to

    @property
    def created(self) -> datetime | None:
        """When the bundle was created; None where its source has no accurate clock."""
        return self.id.created

    @property
    def lifetime_s(self) -> float | None:
        """Lifetime in seconds, if the node says it."""
        return None if self._head.lifetime_ms is None else self._head.lifetime_ms / 1000

    @property
    def priority(self) -> str:
        """ "bulk", "normal", "expedited" or "expedited:N", as `send` has it."""
        return priority(self._head.level)

    @property
    def size(self) -> int:
        """Octets of the payload."""
        return self._head.payload_octets

    @property
    def flags(self) -> int:
        """Bundle processing control flags (RFC 9171 4.2.3)."""
        return self._head.flags

    @property
    def version(self) -> int:
        """Version of the bundle, 6 or 7."""
        return self._head.version

    @property
    def delivery_id(self) -> int | None:
        """The node's number for this delivery."""
        return self._head.delivery_id

    async def read(self, most: int = -1) -> bytes:
        """Up to so many octets of the payload, or all that are left; empty at its end. Raises Disconnected or Silent."""
        wanted = len(self._ahead) + self._left if most < 0 else most
        taken = bytearray(self._ahead[:wanted])
        del self._ahead[:len(taken)]
        while self._left and len(taken) < wanted:
            taken += await self._receive(wanted - len(taken))
        return bytes(taken)

    async def copy_to(self, file: BinaryIO) -> int:
        """Writes what is left of the payload to a file; returns its octets."""
        written = 0
        while piece := await self.read(READ_OCTETS):
            await self._world.call(file.write, piece)
            written += len(piece)
        return written

    async def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes what is left of the payload to a file, which is there as a whole and on the disk, or not at all."""
        target = Path(path)
        part = target.with_name(f".{secrets.token_hex(8)}.part")
        try:
            with part.open("xb") as file:
                await self.copy_to(file)
                await self._world.call(file.flush)
                await self._world.call(os.fsync, file.fileno())
            os.replace(part, target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return target

    async def report(self) -> StatusReport | None:
        """The status report that the bundle carries; None where it carries none, or one of version 6. Raises ProtocolError."""
        if not self.flags & wire.FLAG_ADMINISTRATIVE or self.version != 7 or self.size > RECORD_OCTETS_MAX:
            return None
        if self._record is None:
            self._record = await self.read()
        return status_report(self._record, self.source)

    async def confirm(self) -> None:
        """Lets the node forget the bundle."""
        await self._say(STATUS_SUCCESS)

    async def decline(self) -> None:
        """Lets the node keep the bundle and deliver it again a second later."""
        await self._say(STATUS_ERROR)

    async def __aenter__(self) -> "Delivery":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        # The bundle comes again on the next connection, so the loss of this one is no failure of the application.
        if error is not None and error is self._broken:
            return True
        if not self.is_answered:
            await (self.confirm() if error is None else self.decline())
        return False

    async def read_ahead(self) -> None:
        """Reads a small payload."""
        if self.size <= READ_AHEAD_OCTETS:
            while self._left:
                self._ahead += await self._receive(self._left)

    async def skip(self) -> None:
        """Drops what was not read."""
        self._ahead.clear()
        while self._left:
            await self._receive(self._left)

    async def _receive(self, most: int) -> bytes:
        if self._broken:
            raise self._broken
        try:
            octets = await self.connection.payload(min(most, self._left))
        except (Disconnected, Silent) as error:
            self._broken = error
            raise
        self._left -= len(octets)
        return octets

    async def _say(self, status: int) -> None:
        if self.is_answered:
            raise DhowError(f"bundle {self.id} was confirmed or declined already")
        self.is_answered = True
        await self._answer(self, status)
