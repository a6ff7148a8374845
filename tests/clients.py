"""The AAP 2.0 clients of ud3tn-utils, unchanged, where they are installed (`make interop` installs them)."""

import shutil
import tempfile
import unittest
from pathlib import Path

from labs.interop.clients import Ud3tnClients
from labs.interop.installation import room
from labs.rig.binary import ROOT, dhow
from labs.rig.crew import Crew


def installed() -> Path | None:
    """The directory of the clients, if they are on this machine."""
    if (own := room() / "ud3tn" / "bin" / "aap2-ping").exists():
        return own.parent
    found = shutil.which("aap2-ping")
    return Path(found).parent if found else None


class Clients(unittest.TestCase):
    """Programs that were written for another node work with this one."""

    def setUp(self) -> None:
        commands = installed()
        if commands is None:
            self.skipTest("ud3tn-utils is not installed; make interop installs it")
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
