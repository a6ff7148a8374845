"""Payloads to send: octets, files by their path, and files that are open."""

import io
import os
import shutil
import tempfile
from typing import BinaryIO, TypeAlias

from dhow.errors import PayloadError

Payload: TypeAlias = bytes | bytearray | memoryview | os.PathLike[str] | BinaryIO

# Octets of a stream that are copied into memory before a file takes them.
SPOOL_OCTETS = 8 * 1024 * 1024


class Source:
    """A payload that may be read more than once: `length` octets of `file` from `start` on."""

    def __init__(self, file: BinaryIO, start: int, length: int, owned: bool) -> None:
        self.file = file
        self.start = start
        self.length = length
        self._owned = owned

    def rewind(self) -> None:
        """Begins anew."""
        self.file.seek(self.start)

    def read(self, most: int) -> bytes:
        """The next octets. Raises PayloadError at an early end."""
        try:
            octets = self.file.read(most)
        except OSError as error:
            raise PayloadError(f"the payload cannot be read: {error}") from error
        if not octets:
            raise PayloadError("the payload ended before its length", "do not change a file while it is sent")
        return octets

    def close(self) -> None:
        """Lets go of a file that was opened here."""
        if self._owned:
            self.file.close()


def source(payload: Payload) -> Source:
    """A payload as a file of a known length; what cannot be rewound is copied first. Raises PayloadError or TypeError."""
    if isinstance(payload, str):
        raise TypeError("a payload is octets, a path or a file: encode a text, or name a file by pathlib.Path")
    if isinstance(payload, bytes | bytearray | memoryview):
        octets = bytes(payload)
        return Source(io.BytesIO(octets), 0, len(octets), owned=True)
    try:
        if isinstance(payload, os.PathLike):
            file = open(payload, "rb")
            return Source(file, 0, file.seek(0, os.SEEK_END), owned=True)
        if payload.seekable():
            start = payload.tell()
            return Source(payload, start, payload.seek(0, os.SEEK_END) - start, owned=False)
        spool = tempfile.SpooledTemporaryFile(SPOOL_OCTETS)
        shutil.copyfileobj(payload, spool)
        return Source(spool, 0, spool.tell(), owned=True)  # type: ignore[arg-type]
    except OSError as error:
        raise PayloadError(f"the payload cannot be read: {error}") from error
