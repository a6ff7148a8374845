"""A subscriber of AAP 2.0 in a page: it sees every delivery, also those that come again.

`dhow recv` drops repeats, as it should; a test that counts them needs a client that does not.
"""

import socket
from dataclasses import dataclass
from pathlib import Path

HELLO = 0x2F

# Protobuf field numbers of the messages that are used here.
MESSAGE_WELCOME, MESSAGE_CONFIG, MESSAGE_ADU, MESSAGE_KEEPALIVE = 1, 2, 3, 6
CONFIG_IS_SUBSCRIBER, CONFIG_SECRET, CONFIG_ENDPOINT = 1, 3, 4
CONFIG_DELIVERY_WINDOW = 1001
ADU_SOURCE, ADU_DESTINATION, ADU_CREATION_MS, ADU_SEQUENCE, ADU_PAYLOAD_OCTETS = 1, 2, 3, 4, 5
RESPONSE_STATUS = 1
SUCCESS, ACK = 1, 2

BundleId = tuple[str, int, int]  # source, creation time, sequence number


@dataclass(frozen=True)
class Delivery:
    """One delivery, confirmed or not."""

    bundle: BundleId
    payload: bytes


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | bytes) -> bytes:
    """One field: a number, or octets with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(octets: bytes) -> dict[int, int | bytes]:
    """The fields of a message; of a repeated one, the last."""
    found: dict[int, int | bytes] = {}
    position = 0

    def number() -> int:
        nonlocal position
        value = shift = 0
        while True:
            octet = octets[position]
            position += 1
            value |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                return value

    while position < len(octets):
        key = number()
        match key & 7:
            case 0:
                found[key >> 3] = number()
            case 2:
                length = number()
                found[key >> 3] = octets[position : position + length]
                position += length
            case wire_type:
                raise ValueError(f"wire type {wire_type} is not used by AAP 2.0")
    return found


class Refused(Exception):
    """The node answered with another status than success."""


class Subscriber:
    """A connection that takes deliveries. Errors of the socket are the caller's: a node may be killed."""

    def __init__(self, path: Path, endpoint: str, window: int, timeout_s: float) -> None:
        self.stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.stream.settimeout(timeout_s)
        try:
            self.stream.connect(str(path))
            self.input = self.stream.makefile("rb")
            if self._octets(1)[0] != HELLO:
                raise Refused("this is not AAP 2.0")
            if MESSAGE_WELCOME not in fields(self._message()):
                raise Refused("the node does not begin with a welcome")
            config = field(CONFIG_IS_SUBSCRIBER, 1) + field(CONFIG_SECRET, b"rounds")
            config += field(CONFIG_ENDPOINT, endpoint.encode()) + field(CONFIG_DELIVERY_WINDOW, window)
            self._send(field(MESSAGE_CONFIG, config))
            status = fields(self._message()).get(RESPONSE_STATUS)
            if status != SUCCESS:
                raise Refused(f"subscription to {endpoint} answered with status {status!r}")
        except BaseException:
            self.stream.close()
            raise

    def next(self) -> Delivery:
        """The next delivery; keepalives are answered meanwhile."""
        while True:
            message = fields(self._message())
            if MESSAGE_KEEPALIVE in message:
                self._send(field(RESPONSE_STATUS, ACK))
                continue
            adu = fields(bytes(message[MESSAGE_ADU]))
            bundle = (bytes(adu[ADU_SOURCE]).decode(), int(adu.get(ADU_CREATION_MS, 0)), int(adu.get(ADU_SEQUENCE, 0)))
            return Delivery(bundle, self._octets(int(adu.get(ADU_PAYLOAD_OCTETS, 0))))

    def confirm(self) -> None:
        """Confirms the oldest delivery that was not confirmed yet."""
        self._send(field(RESPONSE_STATUS, SUCCESS))

    def close(self) -> None:
        """Ends the connection."""
        self.stream.close()

    def _send(self, message: bytes) -> None:
        self.stream.sendall(varint(len(message)) + message)

    def _octets(self, count: int) -> bytes:
        octets = self.input.read(count)
        if len(octets) != count:
            raise ConnectionError("the node closed the connection")
        return octets

    def _message(self) -> bytes:
        length = shift = 0
        while True:
            octet = self._octets(1)[0]
            length |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                return self._octets(length)


# Small bundles that are written at a time, and how long the node may take nothing before it is believed to take no more.
WRITTEN_TOGETHER, TAKES_NO_MORE_S = 100, 1.0


def mute_sender(path: Path, endpoint: str) -> socket.socket:
    """An application that has sent small bundles until the node took no more, and has read no answer."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(TAKES_NO_MORE_S)
    stream.connect(str(path))
    config = field(MESSAGE_CONFIG, field(CONFIG_ENDPOINT, endpoint.encode()))
    stream.sendall(varint(len(config)) + config)
    payload = b"small"
    adu = field(MESSAGE_ADU, field(ADU_DESTINATION, b"ipn:9.1") + field(ADU_PAYLOAD_OCTETS, len(payload)))
    request = varint(len(adu)) + adu + payload
    try:
        while True:
            stream.sendall(request * WRITTEN_TOGETHER)
    except TimeoutError:
        return stream
