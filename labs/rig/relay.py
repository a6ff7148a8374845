"""A TCP relay that limits the rate, each direction by itself, and cuts what passes through it."""

import contextlib
import socket
import threading
import time

CHUNK_OCTETS = 16_384

# The octets that may lie in the relay's sockets, each side: a cut loses at most this much, as a short cable would.
BUFFER_OCTETS = 65_536

# The time for which a direction may send at once after a pause, in seconds at its rate.
BURST_S = 0.02


class Bucket:
    """A token bucket: take() returns when so many octets may pass."""

    def __init__(self) -> None:
        self.octets_per_s = float("inf")
        self.taken_octets = 0
        self._lock = threading.Lock()
        self._free_at = 0.0

    def take(self, octets: int) -> None:
        """Waits until the octets may pass."""
        with self._lock:
            now = time.monotonic()
            self.taken_octets += octets
            self._free_at = max(self._free_at, now - BURST_S) + octets / self.octets_per_s
            wait = self._free_at - now
        if wait > 0:
            time.sleep(wait)


class Relay:
    """Accepts on a port of its own and passes each connection on to one target."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_OCTETS)
        self._open = threading.Event()
        self._open.set()
        self._lock = threading.Lock()
        self._streams: set[socket.socket] = set()
        self._buckets = (Bucket(), Bucket())
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """The address at which the relay accepts."""
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    @property
    def passed_octets(self) -> int:
        """Octets of all connections in both directions."""
        return sum(bucket.taken_octets for bucket in self._buckets)

    def limit(self, octets_per_s: float) -> None:
        """Limits the rate of each direction, all connections together."""
        for bucket in self._buckets:
            bucket.octets_per_s = octets_per_s

    def cut(self) -> None:
        """Drops every connection, and each new one at once."""
        self._open.clear()
        with self._lock:
            streams, self._streams = self._streams, set()
        for stream in streams:
            # A reset, so that neither side believes that what lay in the buffers has arrived.
            with contextlib.suppress(OSError):
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                stream.shutdown(socket.SHUT_RDWR)
            stream.close()

    def join(self) -> None:
        """Lets connections pass."""
        self._open.set()

    def close(self) -> None:
        """Ends the relay."""
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if not self._open.is_set():
                    near.close()
                    continue
                far = socket.socket()
                try:
                    far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_OCTETS)
                    far.connect(self.target)
                except OSError:
                    near.close()
                    far.close()
                    continue
                for stream in (near, far):
                    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._lock:
                    self._streams |= {near, far}
                threading.Thread(target=self._pass, args=(near, far, self._buckets[0]), daemon=True).start()
                threading.Thread(target=self._pass, args=(far, near, self._buckets[1]), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(CHUNK_OCTETS):
                bucket.take(len(chunk))
                sink.sendall(chunk)
            sink.shutdown(socket.SHUT_WR)
        with self._lock:
            self._streams.discard(source)
