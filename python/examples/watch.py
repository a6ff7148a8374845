#!/usr/bin/env python3
"""Files that are put into a directory leave as bundles, and become files again at the other side.

    python3 watch.py send DIRECTORY ENDPOINT       # each file is removed once the node has it
    python3 watch.py receive ENDPOINT DIRECTORY

A bundle is the name of a file, a line end, and the file. `dhow outbox` does more: times, permissions, subdirectories.
"""

import sys
import time
from pathlib import Path

import dhow

EVERY_S = 0.2
NAME_OCTETS = 255


def send(directory: Path, to: str) -> None:
    """For ever: sends files that did not change since they were last looked at."""
    seen: dict[Path, tuple[int, float]] = {}
    with dhow.connect() as node:
        while True:
            for path in sorted(path for path in directory.iterdir() if path.is_file() and not path.name.startswith(".")):
                state = path.stat()
                if seen.get(path) == (state.st_size, state.st_mtime):
                    node.send(to, path.name.encode() + b"\n" + path.read_bytes())
                    path.unlink()
                seen[path] = (state.st_size, state.st_mtime)
            seen = {path: state for path, state in seen.items() if path.exists()}
            time.sleep(EVERY_S)


def receive(endpoint: str, directory: Path) -> None:
    """For ever: writes files, each as a whole; names that lead elsewhere are refused."""
    directory.mkdir(parents=True, exist_ok=True)
    with dhow.connect() as node:
        for delivery in node.receive(endpoint):
            with delivery:
                name, _, content = delivery.read().partition(b"\n")
                path = directory / Path(name[:NAME_OCTETS].decode(errors="replace")).name
                if path.parent == directory and not path.name.startswith("."):
                    part = directory / f".{path.name[:200]}.part"
                    part.write_bytes(content)
                    print(part.replace(path), flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["send", directory, to]:
            send(Path(directory), to)
        case ["receive", endpoint, directory]:
            receive(endpoint, Path(directory))
        case _:
            sys.exit(__doc__)
