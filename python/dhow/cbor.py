"""As much CBOR (RFC 8949) as status reports and chunks of streams have: definite lengths, no tags, no floating point."""

from typing import TypeAlias

from dhow.errors import ProtocolError

# Arrays in arrays, at most: a status report has four.
DEPTH_MAX = 8

UNSIGNED, BYTES, TEXT, ARRAY, SIMPLE = 0, 2, 3, 4, 7
FALSE, TRUE = 20, 21

Item: TypeAlias = "int | bytes | str | bool | list[Item]"


def head(kind: int, value: int) -> bytes:
    """Major type and argument in their shortest form."""
    if value < 24:
        return bytes([kind << 5 | value])
    for code, width in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if value < 1 << 8 * width:
            return bytes([kind << 5 | code]) + value.to_bytes(width, "big")
    raise ValueError(f"{value} has more than 64 bits")


def encode(item: "Item") -> bytes:
    """The octets of one item."""
    match item:
        case bool():
            return head(SIMPLE, TRUE if item else FALSE)
        case int():
            return head(UNSIGNED, item)
        case bytes():
            return head(BYTES, len(item)) + item
        case str():
            return head(TEXT, len(item.encode())) + item.encode()
        case list():
            return head(ARRAY, len(item)) + b"".join(map(encode, item))


def decode(octets: bytes, at: int = 0, depth: int = 0) -> tuple["Item", int]:
    """The item at a place, and the place behind it. Raises ProtocolError."""
    kind, value, end = decode_head(octets, at)
    match kind:
        case 0:
            return value, end
        case 2 | 3:
            piece = octets[end:end + value]
            if len(piece) != value:
                raise ProtocolError("a CBOR string is longer than what holds it")
            try:
                return (piece if kind == BYTES else piece.decode()), end + value
            except UnicodeDecodeError as error:
                raise ProtocolError(f"a CBOR text is not UTF-8: {error}") from error
        case 4:
            # Each item takes an octet, so an array never has more of them than octets that follow.
            if depth >= DEPTH_MAX or value > len(octets) - end:
                raise ProtocolError("a CBOR array is too deep or too long")
            items: list[Item] = []
            for _ in range(value):
                item, end = decode(octets, end, depth + 1)
                items.append(item)
            return items, end
        case 7 if value in (FALSE, TRUE) and end == at + 1:
            return value == TRUE, end
    raise ProtocolError(f"CBOR of major type {kind} is not expected")


def decode_head(octets: bytes, at: int) -> tuple[int, int, int]:
    """Major type, argument, and the place behind them. Raises ProtocolError."""
    if at >= len(octets):
        raise ProtocolError("CBOR ended within an item")
    kind, code = octets[at] >> 5, octets[at] & 31
    if code < 24:
        return kind, code, at + 1
    width = {24: 1, 25: 2, 26: 4, 27: 8}.get(code)
    if width is None or len(octets) < at + 1 + width:
        raise ProtocolError("a CBOR head is malformed or of indefinite length")
    return kind, int.from_bytes(octets[at + 1:at + 1 + width], "big"), at + 1 + width
