"""A neighbour that sends bundles whose endpoints nobody else names, and counts what becomes of them."""

import binascii
import socket
import struct
import time

# Octets of an endpoint's name: a text form may have 1024.
NAME_OCTETS = 1_000

# Seconds that an answer may take.
PATIENCE_S = 300.0

# TCPCLv4 (RFC 9174): message types, and the reason for a refusal that means a lack of room.
XFER_SEGMENT, XFER_ACK, XFER_REFUSE, KEEPALIVE, SESS_INIT = 1, 2, 3, 4, 7
BOTH_ENDS = 3
NO_RESOURCES = 2

# Transfers under way at a time.
WINDOW = 256

MIRRORED = bytes(int(f"{octet:08b}"[::-1], 2) for octet in range(256))


def crc16(octets: bytes) -> bytes:
    """CRC-16/X-25, in network order (RFC 9171 4.2.1)."""
    mirrored = binascii.crc_hqx(octets.translate(MIRRORED), 0xFFFF)
    return struct.pack(">H", int(f"{mirrored:016b}"[::-1], 2) ^ 0xFFFF)


def head(major: int, value: int) -> bytes:
    """The head of a CBOR item (RFC 8949 3)."""
    if value < 24:
        return bytes([major << 5 | value])
    for more, form in ((24, ">B"), (25, ">H"), (26, ">I"), (27, ">Q")):
        if value < 1 << (8 * struct.calcsize(form)):
            return bytes([major << 5 | more]) + struct.pack(form, value)
    raise ValueError(value)


def name(text: str) -> bytes:
    """A `dtn` endpoint ID."""
    part = text.encode()
    return b"\x82\x01" + head(3, len(part)) + part


def bundle(number: int, name_octets: int = NAME_OCTETS, lifetime_ms: int = 86_400_000) -> bytes:
    """A small bundle whose three endpoints no other has."""
    def far(role: str) -> bytes:
        start = f"//{role}{number:08d}"
        return name(start + "x" * (name_octets - len(start) - 3) + "/e")

    stamp = b"\x82" + head(0, int(time.time() * 1000) - 946_684_800_000) + head(0, number)
    primary = b"\x89\x07\x00\x01" + far("to") + far("from") + far("tell") + stamp + head(0, lifetime_ms)
    primary += b"\x42"
    primary += crc16(primary + b"\x00\x00")
    return b"\x9f" + primary + b"\x85\x01\x01\x00\x00\x41x" + b"\xff"


class Stranger:
    """A neighbour that sends and counts the answers."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        node_id = b"ipn:66.0"
        init = struct.pack(">BHQQH", SESS_INIT, 0, 1 << 30, 1 << 40, len(node_id)) + node_id + struct.pack(">I", 0)
        self.socket.sendall(b"dtn!\x04\x00" + init)
        self.stream = self.socket.makefile("rb")
        self._take(6)
        _, _, _, _, length = struct.unpack(">BHQQH", self._take(21))
        self._take(length)
        self._take(struct.unpack(">I", self._take(4))[0])
        self.sent = 0
        self.taken = 0
        self.refused: dict[int, int] = {}

    def _take(self, octets: int) -> bytes:
        taken = self.stream.read(octets)
        if taken is None or len(taken) < octets:
            raise ConnectionError("the node ended the session")
        return taken

    @property
    def answered(self) -> int:
        """Transfers of which the node has said what became of them."""
        return self.taken + sum(self.refused.values())

    def send(self, octets: bytes) -> None:
        """One transfer of one segment; answers are read when many are open."""
        item = struct.pack(">BHHQ", 1, 1, 8, len(octets))
        self.socket.sendall(
            struct.pack(">BBQI", XFER_SEGMENT, BOTH_ENDS, self.sent, len(item)) + item
            + struct.pack(">Q", len(octets)) + octets)
        self.sent += 1
        self.settle(WINDOW)

    def settle(self, most: int = 0) -> None:
        """Reads answers until at most so many are missing."""
        while self.sent - self.answered > most:
            (kind,) = self._take(1)
            if kind == XFER_ACK:
                flags, _, _ = struct.unpack(">BQQ", self._take(17))
                self.taken += flags & 1
            elif kind == XFER_REFUSE:
                reason, _ = struct.unpack(">BQ", self._take(9))
                self.refused[reason] = self.refused.get(reason, 0) + 1
            elif kind != KEEPALIVE:
                raise ConnectionError(f"message {kind}")

    def close(self) -> None:
        """Gone without a word."""
        self.stream.close()
        self.socket.close()
