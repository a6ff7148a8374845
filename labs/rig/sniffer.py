"""When octets that are looked for pass an interface: packets with the kernel's own timestamps.

    python3 -m labs.rig.sniffer INTERFACE TEXT      a line for each packet out or in that holds TEXT

A line: seconds since 1970 as the kernel stamped it, `out` or `in`, octets of the packet. The first line is `ready`.
It runs in the namespace of the interface (`ip netns exec`), and needs root.
"""

import socket
import struct
import sys

ETH_P_ALL = 0x0003
PACKET_OUTGOING = 4

# Not in every Python's socket module.
SO_TIMESTAMPNS = 35

PACKET_OCTETS_MAX = 1 << 16
BUFFER_OCTETS = 8 << 20


def sniff(interface: str, text: bytes) -> None:
    """Prints until its standard output is closed."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as packets:
        packets.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_OCTETS)
        packets.bind((interface, 0))
        print("ready", flush=True)
        while True:
            try:
                packet, ancillary, _, address = packets.recvmsg(PACKET_OCTETS_MAX, 128)
            except OSError:
                continue  # the interface went down
            if text not in packet:
                continue
            stamp = stamped(ancillary)
            direction = "out" if address[2] == PACKET_OUTGOING else "in"
            print(f"{stamp:.6f} {direction} {len(packet)}", flush=True)


def stamped(ancillary: list[tuple[int, int, bytes]]) -> float:
    """The kernel's timestamp of a packet."""
    for level, kind, value in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
            seconds, nanoseconds = struct.unpack("@ll", value[:16])
            return seconds + nanoseconds / 1e9
    return 0.0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    try:
        sniff(sys.argv[1], sys.argv[2].encode())
    except KeyboardInterrupt:
        sys.exit(130)
