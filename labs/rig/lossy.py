"""A relay of datagrams over loopback that loses some of them."""

import random
import socket
import threading

DATAGRAM_OCTETS = 65_535


class LossyRelay:
    """Passes datagrams between two addresses, loses some of them, and sends from ports at which nobody takes segments."""

    def __init__(self, lost: float, seed: int) -> None:
        self.lost, self.random = lost, random.Random(seed)
        self.sockets: list[socket.socket] = []
        self.is_over = False
        self.passed = 0

    def towards(self, address: tuple[str, int]) -> int:
        """The port of a way to an address."""
        inner = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        outer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        inner.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        inner.bind(("127.0.0.1", 0))
        inner.settimeout(0.2)
        self.sockets += [inner, outer]
        threading.Thread(target=self.carry, args=(inner, outer, address), daemon=True).start()
        return int(inner.getsockname()[1])

    def carry(self, inner: socket.socket, outer: socket.socket, address: tuple[str, int]) -> None:
        while not self.is_over:
            try:
                datagram = inner.recv(DATAGRAM_OCTETS)
            except TimeoutError:
                continue
            except OSError:
                return
            if self.random.random() >= self.lost:
                self.passed += 1
                outer.sendto(datagram, address)

    def close(self) -> None:
        self.is_over = True
        for it in self.sockets:
            it.close()
