"""Raw TCP over the same path: one stream, plain sockets, as fast as it goes.

    python3 -m labs.rig.yardstick receive ADDRESS      prints its address, then octets and seconds
    python3 -m labs.rig.yardstick send ADDRESS SECONDS
"""

import json
import socket
import sys
import time
from dataclasses import dataclass

CHUNK_OCTETS = 1 << 18


@dataclass
class Reading:
    """The octets that one stream moved."""

    octets: int
    seconds: float

    @property
    def octets_per_s(self) -> float:
        """Goodput of the stream."""
        return self.octets / self.seconds if self.seconds else 0.0


def parse(address: str) -> tuple[str, int]:
    """`host:port` in its parts."""
    host, _, port = address.rpartition(":")
    return host, int(port)


def receive(address: str) -> Reading:
    """Takes one connection and reads it to its end; seconds count from its acceptance."""
    with socket.create_server(parse(address)) as listener:
        host, port = listener.getsockname()[:2]
        print(f"{host}:{port}", flush=True)
        stream, _ = listener.accept()
    buffer = bytearray(CHUNK_OCTETS)
    octets = 0
    start = last = time.monotonic()
    with stream:
        while taken := stream.recv_into(buffer):
            octets += taken
            last = time.monotonic()
    return Reading(octets, last - start)


def send(address: str, seconds: float) -> None:
    """Sends for so many seconds."""
    chunk = bytes(CHUNK_OCTETS)
    with socket.create_connection(parse(address)) as stream:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            stream.sendall(chunk)


def main(arguments: list[str]) -> int:
    """The program at either end."""
    match arguments:
        case ["receive", address]:
            reading = receive(address)
            print(json.dumps({"octets": reading.octets, "seconds": reading.seconds}), flush=True)
        case ["send", address, seconds]:
            send(address, float(seconds))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
