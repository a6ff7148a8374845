"""One connection to a node: its greeting, messages and payloads, each within a time."""

import time

from dhow import wire
from dhow.address import Address
from dhow.errors import HINT_NOBODY, STATUS_SUCCESS, Disconnected, ProtocolError, refused
from dhow.world import Stream, World, silent, unreachable



class Connection:
    """A connection that has been greeted."""

    def __init__(self, stream: Stream, patience_s: float) -> None:
        self._stream = stream
        self._reader = wire.FrameReader()
        self._patience_s = patience_s
        self.welcome = wire.Welcome("", 0, 0)

    @classmethod
    async def open(cls, world: World, address: Address, timeout_s: float, patience_s: float) -> "Connection":
        """Connects and takes the greeting within `timeout_s`; from then on the node may be silent for `patience_s`.

        Raises Unreachable, Silent or ProtocolError.
        """
        end = time.monotonic() + timeout_s
        try:
            stream = await world.connect(address, timeout_s)
        except TimeoutError:
            raise silent(timeout_s) from None
        except OSError as error:
            raise unreachable(address, error) from error
        connection = cls(stream, patience_s)
        try:
            await connection._greeting(end, timeout_s)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _greeting(self, end: float, timeout_s: float) -> None:
        while not len(self._reader):
            if not await self._fill(end):
                raise silent(timeout_s)
        first = self._reader.take(1)[0]
        if first != wire.MAGIC:
            hint = "name the node's API socket, not its operator's socket or a listener for neighbours"
            raise ProtocolError(f"a stream that begins with 0x{first:02x} is not AAP 2.0", hint)
        octets = await self.message(end)
        if octets is None:
            raise silent(timeout_s)
        welcome = wire.message(octets)
        if not isinstance(welcome, wire.Welcome) or not welcome.node_id:
            raise ProtocolError("the first message is no Welcome")
        self.welcome = welcome

    async def configure(self, message: bytes, timeout_s: float) -> None:
        """Says what the connection is for. Raises Refused when the endpoint is not to be had."""
        await self.write(message)
        octets = await self.message(time.monotonic() + timeout_s)
        if octets is None:
            raise silent(timeout_s)
        response = wire.response(octets)
        if response.status != STATUS_SUCCESS:
            raise refused(response.status, response.message)

    async def message(self, end: float | None) -> bytes | None:
        """The next message; None when the time (of the monotonic clock) is over."""
        while (octets := self._reader.message()) is None:
            if not await self._fill(end):
                return None
        return octets

    async def answer(self) -> wire.Response:
        """The answer to a request. Raises Silent where no octet comes for as long as this side is patient."""
        octets = await self.message(time.monotonic() + self._patience_s)
        if octets is None:
            raise silent(self._patience_s)
        return wire.response(octets)

    async def payload(self, most: int) -> bytes:
        """Up to so many octets of payload, at least one."""
        while not len(self._reader):
            if not await self._fill(time.monotonic() + self._patience_s):
                raise silent(self._patience_s)
        return self._reader.take(most)

    async def write(self, octets: bytes) -> None:
        """Everything."""
        try:
            if not await self._stream.write(octets, self._patience_s):
                raise silent(self._patience_s)
        except OSError as error:
            raise lost(error) from error

    async def finish(self, timeout_s: float) -> None:
        """Says that nothing more comes and waits for the node to have read everything; never fails."""
        try:
            await self._stream.end_writing()
            end = time.monotonic() + timeout_s
            while time.monotonic() < end and await self._fill(end):
                self._reader = wire.FrameReader()
        except (Disconnected, OSError):
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Ends the connection at once."""
        self._stream.close()

    async def _fill(self, end: float | None) -> bool:
        """Reads what the stream has; False when the time was over first."""
        timeout_s = None if end is None else max(0.0, end - time.monotonic())
        try:
            octets = await self._stream.read(timeout_s)
        except OSError as error:
            raise lost(error) from error
        if octets is None:
            return False
        if not octets:
            raise lost(None)
        self._reader.push(octets)
        return True


def lost(error: OSError | None) -> Disconnected:
    """The exception for a connection that is gone."""
    why = f": {error.strerror or error}" if error else ""
    return Disconnected(f"the node closed the connection{why}", HINT_NOBODY)
