"""The messages of Dhow's external socket (docs/external.md): frames of a length and a CBOR array, with the standard library alone."""

import socket

FRAME_OCTETS_MAX = 128 << 10
WIDTHS = {24: 1, 25: 2, 26: 4, 27: 8}


def encode(item):
    """Numbers, octets, texts and lists as CBOR (RFC 8949)."""
    if isinstance(item, int):
        return head(0, item)
    if isinstance(item, bytes):
        return head(2, len(item)) + item
    if isinstance(item, str):
        return head(3, len(item.encode())) + item.encode()
    return head(4, len(item)) + b"".join(map(encode, item))


def head(kind, value):
    if value < 24:
        return bytes([kind << 5 | value])
    for code, width in WIDTHS.items():
        if value < 1 << 8 * width:
            return bytes([kind << 5 | code]) + value.to_bytes(width, "big")
    raise ValueError(f"{value} has more than 64 bits")


def decode(octets, at=0):
    """The item at a place, and the place behind it."""
    kind, code = octets[at] >> 5, octets[at] & 31
    end = at + 1 + WIDTHS.get(code, 0)
    value = int.from_bytes(octets[at + 1:end], "big") if code in WIDTHS else code
    if kind == 0:
        return value, end
    if kind in (2, 3):
        text = octets[end:end + value]
        return (text if kind == 2 else text.decode()), end + value
    items = []
    for _ in range(value):
        item, end = decode(octets, end)
        items.append(item)
    return items, end


class Connection:
    """A connection to the external socket of a node."""

    def __init__(self, path, *greeting):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.buffer = b""
        self.say(0, 1, *greeting)

    def say(self, *message):
        octets = encode(message)
        self.socket.sendall(len(octets).to_bytes(4, "big") + octets)

    def hear(self):
        """All whole messages once some have come; EOFError where the node has ended the connection."""
        octets = self.socket.recv(65_536)
        if not octets:
            raise EOFError("the node has ended the connection")
        self.buffer += octets
        while len(self.buffer) >= 4 and len(self.buffer) >= (end := 4 + int.from_bytes(self.buffer[:4], "big")):
            message, self.buffer = self.buffer[4:end], self.buffer[end:]
            yield decode(message)[0]
