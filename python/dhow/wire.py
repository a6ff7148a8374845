"""The messages of AAP 2.0 with Dhow's extension fields (docs/aap2-dhow.proto), as octets.

Protobuf by hand: eight messages of numbers, texts and messages need no library and no generated code.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from dhow.errors import ProtocolError

# The first octet of a server's stream, and the longest message.
MAGIC = 0x2F
MESSAGE_OCTETS_MAX = 64 * 1024
VARINT_OCTETS_MAX = 10

# Kinds of messages from a server.
WELCOME, CONFIG, ADU, KEEPALIVE, REFUSAL = 1, 2, 3, 6, 1000

FLAG_ADMINISTRATIVE = 0x2
ADU_STATUS_REPORT = 3


T = TypeVar("T", int, bytes)


@dataclass(frozen=True, slots=True)
class Welcome:
    """The greeting of a node."""

    node_id: str
    extensions: int
    payload_octets_max: int


@dataclass(frozen=True, slots=True)
class Adu:
    """The head of a bundle; creation in milliseconds since 2000-01-01T00:00:00Z, 0 for unknown; level is its priority: 1 bulk, 2 normal, 3 to 257 expedited."""

    source: str
    destination: str
    creation_ms: int = 0
    sequence: int = 0
    payload_octets: int = 0
    report_to: str = ""
    lifetime_ms: int | None = None
    flags: int = 0
    delivery_id: int | None = None
    version: int = 7
    level: int | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; source, creation and lifetime are those of the bundle that was created."""

    status: int
    message: str
    source: str | None = None
    creation_ms: int = 0
    sequence: int = 0
    lifetime_ms: int = 0


@dataclass(frozen=True, slots=True)
class Keepalive:
    """The question whether this side is still there."""


def varint(value: int) -> bytes:
    """A number of at most 64 bits."""
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{value} is not a number of 64 bits")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | str | bytes | None) -> bytes:
    """One field; nothing for what is absent."""
    if value is None:
        return b""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    octets = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(octets)) + octets


def framed(message: bytes) -> bytes:
    """A message behind its length. Raises ValueError where it is longer than a node takes."""
    if len(message) > MESSAGE_OCTETS_MAX:
        raise ValueError(f"a message of {len(message)} octets is longer than {MESSAGE_OCTETS_MAX}: an endpoint ID or the secret is too long")
    return varint(len(message)) + message


def config(endpoint: str, *, subscribes: bool, secret: str, keepalive_s: int = 0, abandon: bool = False, window: int = 1) -> bytes:
    """The first message of a client."""
    body = field(1, 1 if subscribes else None) + field(3, secret or None) + field(4, endpoint or None)
    body += field(5, keepalive_s or None) + field(1000, 1 if abandon else None) + field(1001, window)
    return framed(field(CONFIG, body))


def request(adu: Adu) -> bytes:
    """A bundle to be sent; its payload follows."""
    body = field(1, adu.source or None) + field(2, adu.destination) + field(5, adu.payload_octets)
    body += field(7, adu.report_to or None) + field(1000, adu.lifetime_ms) + field(1001, adu.flags)
    body += field(1005, adu.version if adu.version != 7 else None) + field(1006, adu.level)
    return framed(field(ADU, body))


def answer(status: int, delivery_id: int | None = None) -> bytes:
    """A subscriber's answer."""
    return framed(field(1, status) + field(1004, delivery_id))


class FrameReader:
    """Cuts octets into messages and payloads."""

    def __init__(self) -> None:
        self._octets = bytearray()

    def __len__(self) -> int:
        return len(self._octets)

    def push(self, octets: bytes) -> None:
        """Octets that came."""
        self._octets += octets

    def take(self, most: int) -> bytes:
        """Up to so many octets of payload."""
        taken = bytes(self._octets[:most])
        del self._octets[:most]
        return taken

    def message(self) -> bytes | None:
        """The next whole message; None until it is there. Raises ProtocolError."""
        try:
            length, start = number(self._octets, 0)
        except EOFError:
            return None
        if length > MESSAGE_OCTETS_MAX:
            raise ProtocolError(f"a message of {length} octets is longer than {MESSAGE_OCTETS_MAX}")
        if len(self._octets) < start + length:
            return None
        message = bytes(self._octets[start:start + length])
        del self._octets[:start + length]
        return message


def number(octets: bytes | bytearray, at: int) -> tuple[int, int]:
    """The varint at a place, and the place behind it. Raises EOFError where it has not ended, ProtocolError where it never will."""
    value = 0
    for position in range(at, at + VARINT_OCTETS_MAX):
        if position >= len(octets):
            raise EOFError
        value |= (octets[position] & 0x7F) << 7 * (position - at)
        if octets[position] < 0x80:
            return value & (1 << 64) - 1, position + 1
    raise ProtocolError("a number has more than 64 bits")


def fields(octets: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in order. Raises ProtocolError."""
    at = 0
    try:
        while at < len(octets):
            key, at = number(octets, at)
            kind = key & 7
            if kind == 0:
                value, at = number(octets, at)
                yield key >> 3, value
                continue
            if kind == 2:
                length, at = number(octets, at)
            elif kind in (1, 5):
                length = 8 if kind == 1 else 4
            else:
                raise ProtocolError(f"a field has wire type {kind}")
            piece = octets[at:at + length]
            if len(piece) != length:
                raise EOFError
            at += length
            yield key >> 3, piece
    except EOFError:
        raise ProtocolError("a message ended within a field") from None


class Fields:
    """A message's fields by number: of a field that is not repeated the last one counts."""

    def __init__(self, octets: bytes) -> None:
        self._all = list(fields(octets))
        self._last = dict(self._all)

    def number(self, name: int, default: int = 0) -> int:
        """A number. Raises ProtocolError where it is none."""
        return self._typed(name, int, default)

    def optional(self, name: int) -> int | None:
        """A number, if it is there."""
        return self.number(name) if name in self._last else None

    def octets(self, name: int) -> bytes:
        """A message within the message."""
        return self._typed(name, bytes, b"")

    def text(self, name: int) -> str:
        """A text. Raises ProtocolError where it is not UTF-8."""
        try:
            return self.octets(name).decode()
        except UnicodeDecodeError as error:
            raise ProtocolError(f"field {name} is not text: {error}") from error

    def numbers(self, name: int) -> set[int]:
        """A repeated field of numbers, one by one or packed."""
        found: set[int] = set()
        for key, value in self._all:
            if key == name and isinstance(value, int):
                found.add(value)
            elif key == name and isinstance(value, bytes):
                at = 0
                while at < len(value):
                    try:
                        one, at = number(value, at)
                    except EOFError:
                        raise ProtocolError(f"field {name} ended within a number") from None
                    found.add(one)
        return found

    def __contains__(self, name: int) -> bool:
        return name in self._last

    def _typed(self, name: int, kind: type[T], default: T) -> T:
        value = self._last.get(name, default)
        if not isinstance(value, kind):
            raise ProtocolError(f"field {name} has another type than AAP 2.0 says")
        return value


def message(octets: bytes) -> Welcome | Adu | Keepalive | Response | None:
    """A server's message; None for a kind that is not known here. Raises ProtocolError."""
    outer = Fields(octets)
    if WELCOME in outer:
        inner = Fields(outer.octets(WELCOME))
        return Welcome(inner.text(1), inner.number(1000), inner.number(1001))
    if ADU in outer:
        return adu(Fields(outer.octets(ADU)))
    if KEEPALIVE in outer:
        return Keepalive()
    if REFUSAL in outer:
        return response(outer.octets(REFUSAL))
    return None


def adu(inner: Fields) -> Adu:
    """A delivery."""
    is_record = ADU_STATUS_REPORT in inner.numbers(6)
    return Adu(
        source=inner.text(1), destination=inner.text(2), creation_ms=inner.number(3), sequence=inner.number(4),
        payload_octets=inner.number(5), report_to=inner.text(7), lifetime_ms=inner.optional(1000),
        flags=inner.number(1001, FLAG_ADMINISTRATIVE if is_record else 0), delivery_id=inner.optional(1003),
        version=inner.number(1005, 7), level=inner.optional(1006))


def response(octets: bytes) -> Response:
    """An answer to a request."""
    outer = Fields(octets)
    if 3 not in outer:
        return Response(outer.number(1), outer.text(1003))
    bundle = Fields(outer.octets(3))
    return Response(outer.number(1), outer.text(1003), bundle.text(1), bundle.number(3), bundle.number(4), bundle.number(8))
