"""A BPv7 node over TCPCLv4 made of the Hardy libraries: the program under hardy-peer/."""

import queue
from pathlib import Path

from labs.interop import installation
from labs.interop.peer import PATIENCE_S, SERVICE, Peer, Unable


class Hardy(Peer):
    """The Hardy-based node; it dials the dhow node, and is dialled by it."""

    name = f"Hardy ({installation.HARDY_VERSION})"
    node_number = 3

    def start(self) -> None:
        self.inbox = self.directory / "hardy-inbox"
        self.inbox.mkdir()
        self.program = self.crew.start(
            [str(installation.hardy()), f"ipn:{self.node_number}.0", f"127.0.0.1:{self.port}", str(SERVICE),
             str(self.inbox)],
            log=self.directory / "hardy.log", typed=True)
        self._expect("ready")
        self.program.type(f"connect 127.0.0.1:{self.dhow_port}")
        self._expect("connected")

    def _expect(self, word: str) -> str:
        try:
            while (line := self.program.line(PATIENCE_S)) is not None:
                if line.startswith(word):
                    return line
                if line.startswith("failed"):
                    raise Unable(line)
        except queue.Empty:
            raise Unable(f"the peer did not say '{word}'") from None
        raise Unable("the peer ended")

    def send(self, file: Path) -> None:
        self.program.type(f"send ipn:1.{SERVICE} {file}")
        self._expect("sent")

    def received(self) -> bytes | None:
        path = Path(self._expect("received").split()[1])
        payload = path.read_bytes()
        path.unlink()
        return payload
