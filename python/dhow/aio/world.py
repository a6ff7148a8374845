"""Sockets, time, files and locks under asyncio."""

import asyncio
import contextlib
import functools
import socket
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dhow.address import Address
from dhow.world import READ_OCTETS

P = ParamSpec("P")
T = TypeVar("T")


class AsyncioStream:
    """A stream of asyncio: what was read and not taken stays, also where a call is cancelled."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, timeout_s: float | None) -> bytes | None:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._reader.read(READ_OCTETS)
        except TimeoutError:
            return None

    async def write(self, octets: bytes, timeout_s: float) -> bool:
        self._writer.write(octets)
        try:
            async with asyncio.timeout(timeout_s):
                await self._writer.drain()
        except TimeoutError:
            return False
        return True

    async def end_writing(self) -> None:
        self._writer.write_eof()

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the socket with it
            self._writer.close()


class AsyncioWorld:
    """The running event loop."""

    async def connect(self, address: Address, timeout_s: float) -> AsyncioStream:
        async with asyncio.timeout(timeout_s):
            if address.path is not None:
                return AsyncioStream(*await asyncio.open_unix_connection(address.path, limit=READ_OCTETS))
            reader, writer = await asyncio.open_connection(address.host, address.port, limit=READ_OCTETS)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return AsyncioStream(reader, writer)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def call(self, function: Callable[P, T], *words: P.args, **named: P.kwargs) -> T:
        return await asyncio.to_thread(functools.partial(function, *words, **named))

    def lock(self) -> asyncio.Lock:
        return asyncio.Lock()
