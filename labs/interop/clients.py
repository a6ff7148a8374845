"""ud3tn-utils: the AAP 2.0 clients of µD3TN, unchanged, at two dhow nodes."""

import subprocess
from pathlib import Path

from labs.interop import installation
from labs.interop.peer import PATIENCE_S, SERVICE, Unable, last_line
from labs.rig.crew import Crew
from labs.rig.node import Link, Node, Settings

# Above this, the receiving client reads a payload with one recv and may cut it: the client's limit, not ours.
RECEIVE_MAX_OCTETS = 16_000


class Ud3tnClients:
    """aap2-send at one node, aap2-receive at the next, aap2-ping across."""

    name = f"ud3tn-utils {installation.UD3TN_VERSION}"

    def __init__(self, crew: Crew, dhow: Path, directory: Path, commands: Path | None = None) -> None:
        self.crew = crew
        self.directory = directory
        directory.mkdir(parents=True)
        self.commands = commands or installation.ud3tn()
        self.receiver = Node(crew, dhow, directory / "receiver", Settings("ipn:2.0"))
        self.receiver.start()
        self.sender = Node(crew, dhow, directory / "sender", Settings(
            "ipn:1.0", links=[Link("receiver", self.receiver.address)], routes=[("ipn:2.*", "receiver")]))
        self.sender.start()

    def send(self, file: Path) -> None:
        """aap2-send to `dhow recv`. Raises Unable."""
        inbox = self.directory / "inbox"
        with file.open("rb") as payload:
            done = subprocess.run(
                [str(self.commands / "aap2-send"), "--socket", str(self.sender.socket), f"ipn:2.{SERVICE}"],
                stdin=payload, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if done.returncode != 0:
            raise Unable(f"aap2-send: {last_line(done.stderr)}")
        done = self.receiver.run(
            "recv", f"ipn:2.{SERVICE}", "--count", "1", "--out", str(inbox), "--timeout", "20s")
        if done.returncode != 0:
            raise Unable("it did not arrive")
        arrived = [path.read_bytes() for path in inbox.iterdir()]
        for path in inbox.iterdir():
            path.unlink()
        if arrived != [file.read_bytes()]:
            raise Unable("what arrived is not what was sent")

    def receive(self, file: Path) -> None:
        """`dhow send` to aap2-receive. Raises Unable."""
        if file.stat().st_size > RECEIVE_MAX_OCTETS:
            raise Unable(f"the client cuts above {RECEIVE_MAX_OCTETS // 1000} kB")
        output = self.directory / "received"
        program = self.crew.start(
            [str(self.commands / "aap2-receive"), "--socket", str(self.receiver.socket),
             "--agentid", str(SERVICE + 1), "--count", "1", "--output", str(output)],
            log=self.directory / "receive.log")
        done = self.sender.run("send", f"ipn:2.{SERVICE + 1}", str(file))
        if done.returncode != 0:
            raise Unable(f"dhow send: {last_line(done.stderr)}")
        try:
            code = program.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Unable("aap2-receive got nothing") from None
        finally:
            self.crew.dismiss(program)
        if code != 0 or not output.exists() or output.read_bytes() != file.read_bytes():
            raise Unable("what arrived is not what was sent")
        output.unlink()

    def ping(self, count: int = 3) -> None:
        """aap2-ping across both nodes to the echo service. Raises Unable unless every echo comes."""
        program = self.crew.start(
            [str(self.commands / "aap2-ping"), "--socket", str(self.sender.socket), "--count", str(count),
             "--interval", "0.2", "--timeout", "10", "ipn:2.7"], log=self.directory / "ping.log")
        try:
            code = program.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Unable("aap2-ping did not end") from None
        finally:
            self.crew.dismiss(program)
        if code != 0:
            raise Unable(last_line((self.directory / "ping.log").read_text()))
