"""Chunks of ordered octets as payloads (docs/stream.md)."""

from dataclasses import dataclass

from dhow import cbor
from dhow.errors import ProtocolError

MAGIC = "dhow-stream"
VERSION = 1
STREAM_OCTETS = 16
CHUNK_NUMBER_MAX = (1 << 63) - 1
CHUNK_OCTETS_MAX = 16 << 20
HEADER_OCTETS_MAX = 41


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk: the stream's 16 octets, its number from 0 on, its octets, and whether it is the end."""

    stream: bytes
    number: int
    octets: bytes
    last: bool

    def encode(self) -> bytes:
        """The chunk as a payload."""
        return cbor.encode([MAGIC, VERSION, self.stream, self.number, self.last]) + self.octets


def decode(payload: bytes) -> Chunk:
    """The chunk in a payload. Raises ProtocolError."""
    try:
        header, end = cbor.decode(payload)
    except ProtocolError as error:
        raise ProtocolError(f"the payload is not a chunk of a stream: {error}") from error
    match header:
        case ["dhow-stream", int(version), bytes(stream), int(number), bool(last)]:
            octets = payload[end:]
            if version != VERSION:
                raise ProtocolError(f"the header of a chunk has version {version}, and {VERSION} is known")
            if cbor.encode(header) != payload[:end] or len(stream) != STREAM_OCTETS or number > CHUNK_NUMBER_MAX:
                raise ProtocolError("the header of a chunk is malformed")
            if len(octets) > CHUNK_OCTETS_MAX or (last and octets):
                raise ProtocolError(f"a chunk has {len(octets)} octets")
            return Chunk(stream, number, octets, last)
    raise ProtocolError("the payload is not a chunk of a stream")
