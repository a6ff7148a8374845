"""Sockets, time, files and locks for threads; coroutines over them never suspend."""

import socket
import threading
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from dhow.address import Address
from dhow.world import READ_OCTETS

# The time after which a connection is tried again where the listener's queue is full.
QUEUE_FULL_S = 0.05

# Least time to wait, since none at all would mean not to wait for what is there.
WAIT_MIN_S = 0.001

P = ParamSpec("P")
T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The value of a coroutine whose every wait blocks."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    coroutine.close()
    raise AssertionError("a coroutine over blocking sockets never suspends")


class BlockingStream:
    """A socket."""

    def __init__(self, stream: socket.socket) -> None:
        self._socket = stream

    async def read(self, timeout_s: float | None) -> bytes | None:
        self._socket.settimeout(None if timeout_s is None else max(WAIT_MIN_S, timeout_s))
        try:
            return self._socket.recv(READ_OCTETS)
        except TimeoutError:
            return None

    async def write(self, octets: bytes, timeout_s: float) -> bool:
        self._socket.settimeout(timeout_s)
        rest = memoryview(octets)
        try:
            while rest:
                rest = rest[self._socket.send(rest):]
        except TimeoutError:
            return False
        return True

    async def end_writing(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()


class BlockingLock:
    """A lock of threads in the shape of one of asyncio."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lock.release()


class BlockingWorld:
    """The thread that calls."""

    async def connect(self, address: Address, timeout_s: float) -> BlockingStream:
        if address.path is None:
            stream = socket.create_connection((address.host, address.port), timeout_s)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return BlockingStream(stream)
        return BlockingStream(connect_unix(address.path, time.monotonic() + timeout_s))

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def call(self, function: Callable[P, T], *words: P.args, **named: P.kwargs) -> T:
        return function(*words, **named)

    def lock(self) -> BlockingLock:
        return BlockingLock()


def connect_unix(path: str, end: float) -> socket.socket:
    """A Unix socket connected before `end` of the monotonic clock; TimeoutError otherwise."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        while True:
            stream.settimeout(max(WAIT_MIN_S, end - time.monotonic()))
            try:
                stream.connect(path)
                return stream
            except BlockingIOError:
                # A listener that accepts nothing lets no more than its queue holds connect.
                if time.monotonic() >= end:
                    raise TimeoutError from None
                time.sleep(QUEUE_FULL_S)
    except BaseException:
        stream.close()
        raise
