"""The address of a node: the path of its API socket, or host and port."""

import os
from dataclasses import dataclass
from pathlib import Path

from dhow.errors import HINT_NOBODY, DhowError, Unreachable

ADMIN_SUFFIX = ".admin"
SOCKET_NAME = "dhow.sock"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a node's socket: either `path`, or `host` and `port`."""

    path: str | None = None
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return self.path if self.path is not None else f"tcp:{self.host}:{self.port}"


def parse(text: str | os.PathLike[str]) -> Address:
    """An address as the command line takes it: a path, `unix:PATH`, `tcp:HOST:PORT`, or HOST:PORT where no file has that name."""
    if not isinstance(text, str):
        return Address(path=os.fspath(text))
    if text.startswith("unix:"):
        return Address(path=text.removeprefix("unix:"))
    explicit = text.startswith("tcp:")
    host, separator, port = text.removeprefix("tcp:").removeprefix("//" if explicit else "").rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) < 1 << 16
    if separator and host and is_port and (explicit or ("/" not in host and not os.path.exists(text))):
        return Address(host=host.removeprefix("[").removesuffix("]"), port=int(port))
    if explicit:
        raise DhowError(f"'{text}' is not an address", "an address on TCP is written tcp:HOST:PORT")
    return Address(path=text)


def candidates() -> list[Path]:
    """The places in which a socket is looked for when none is named."""
    paths = [Path(SOCKET_NAME)]
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        paths.append(Path(runtime) / SOCKET_NAME)
    return [*paths, Path("/run/dhow") / SOCKET_NAME]


def locate(named: str | os.PathLike[str] | None) -> Address:
    """The address that is named, or that of DHOW_NODE, or the first default socket that exists.

    Raises Unreachable where there is none, and DhowError where the operator's socket is named.
    """
    named = named or os.environ.get("DHOW_NODE") or None
    if named is not None:
        address = parse(named)
        api = (address.path or "").removesuffix(ADMIN_SUFFIX)
        if address.path not in (None, api) and os.path.exists(str(address.path)) and not os.path.exists(f"{address.path}{ADMIN_SUFFIX}"):
            raise DhowError(f"{address.path} is the operator's socket of a node", f"name the API socket beside it: {api}")
        return address
    tried = candidates()
    for path in tried:
        if path.exists():
            return Address(path=str(path))
    raise Unreachable(f"cannot find a node: no socket at {', '.join(map(str, tried))}", HINT_NOBODY)
