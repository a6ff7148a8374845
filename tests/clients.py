"""The AAP 2.0 clients of ud3tn-utils, unchanged; installed under target/interop when they are missing."""

import shutil
import tempfile
import unittest
from pathlib import Path

from labs.interop.clients import Ud3tnClients
from labs.interop.installation import NotInstalled, room, ud3tn
from labs.rig.binary import ROOT, dhow
from labs.rig.crew import Crew


def installed() -> Path:
    """The directory of the clients. Raises NotInstalled."""
    if (own := room() / "ud3tn" / "bin" / "aap2-ping").exists():
        return own.parent
    found = shutil.which("aap2-ping")
    return Path(found).parent if found else ud3tn()


class Clients(unittest.TestCase):
    """Programs that were written for another node work with this one."""

    def setUp(self) -> None:
        try:
            commands = installed()
        except NotInstalled as reason:
            self.skipTest(str(reason))
        directory = Path(tempfile.mkdtemp(prefix="dhow-aap2-"))
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        crew = Crew()
        self.addCleanup(crew.close)
        self.clients = Ud3tnClients(crew, dhow("debug"), directory / "run", commands)

    def test_aap2_send_reaches_dhow_recv(self) -> None:
        self.clients.send(ROOT / "LICENSE")

    def test_aap2_receive_gets_what_dhow_send_sends(self) -> None:
        self.clients.receive(ROOT / "LICENSE")

    def test_aap2_ping_gets_its_echoes(self) -> None:
        self.clients.ping()
