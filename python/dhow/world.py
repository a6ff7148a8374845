"""The surroundings of a conversation with a node; `dhow.aio` and the blocking package each bring their own.

The conversation itself is written once, as coroutines. Under asyncio they wait; over blocking sockets they never suspend.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import ParamSpec, Protocol, TypeVar

from dhow.address import Address
from dhow.errors import HINT_DENIED, HINT_NOBODY, HINT_SILENT, Denied, Silent, Unreachable

# Octets that are read from a socket or a file at a time.
READ_OCTETS = 256 * 1024

P = ParamSpec("P")
T = TypeVar("T")


class Stream(Protocol):
    """A connected stream of octets. Failures of the system are OSErrors."""

    async def read(self, timeout_s: float | None) -> bytes | None:
        """The octets that are there, waiting for them at most so long; empty at the end of the stream, None when the time is over."""

    async def write(self, octets: bytes, timeout_s: float) -> bool:
        """Everything; False when the other side took nothing for so long."""

    async def end_writing(self) -> None:
        """Says that nothing more will be written."""

    def close(self) -> None:
        """Ends the connection at once."""


class World(Protocol):
    """Sockets, time, files and locks."""

    async def connect(self, address: Address, timeout_s: float) -> Stream:
        """A connection; TimeoutError when it takes longer."""

    async def sleep(self, seconds: float) -> None:
        """Waits for a time."""

    async def call(self, function: Callable[P, T], *words: P.args, **named: P.kwargs) -> T:
        """The value of a function that reads or writes files."""

    def lock(self) -> AbstractAsyncContextManager[object]:
        """A lock."""


def unreachable(address: Address, error: OSError) -> Unreachable:
    """Why nobody was reached."""
    why = error.strerror or str(error)
    if isinstance(error, PermissionError):
        return Denied(f"cannot open {address}: {why}", HINT_DENIED)
    return Unreachable(f"nobody answers at {address}: {why}", HINT_NOBODY)


def silent(seconds: float) -> Silent:
    """That the node did not answer in time."""
    return Silent(f"the node did not answer within {seconds:g} s", HINT_SILENT)
