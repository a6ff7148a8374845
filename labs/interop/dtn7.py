"""dtn7-rs: a BPv7 node over TCPCLv4, driven through its own dtnsend and dtnrecv."""

import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from labs.interop import installation
from labs.interop.peer import PATIENCE_S, SERVICE, Peer, Unable, last_line
from labs.rig.node import free_port


class Dtn7(Peer):
    """dtnd with static routing to the dhow node.

    It puts no CRC on its primary blocks and does not repeat the segment's flags in acknowledgments: both are
    on the list of what lenient reading accepts.
    """

    name = f"dtn7-rs {installation.DTN7_VERSION}"
    node_number = 23
    reading = "lenient"
    transfer_max = 64_000
    resume = False

    def start(self) -> None:
        self.commands = installation.dtn7()
        self.web = str(free_port())
        work = self.directory / "dtnd"
        work.mkdir()
        self.crew.start([
            str(self.commands / "dtnd"), "-4", "--disable_nd", "-i", "0", "-n", str(self.node_number),
            "-e", str(SERVICE), "-w", self.web, "-W", str(work),
            "-C", f"tcp:port={self.port}:bind=127.0.0.1", "-s", f"tcp://127.0.0.1:{self.dhow_port}/1",
        ], log=self.directory / "dtnd.log")
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.web}/status/nodeid", timeout=1).close()
                return
            except (urllib.error.URLError, OSError):
                if time.monotonic() > end:
                    raise Unable("dtnd did not start") from None
                time.sleep(0.05)

    def _run(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.commands / command), "-p", self.web, *words],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def send(self, file: Path) -> None:
        done = self._run("dtnsend", "-r", f"ipn:1.{SERVICE}", str(file))
        if done.returncode != 0 or "Result: Sent" not in done.stdout:
            panic = next((line for line in done.stderr.splitlines() if "panicked" not in line and line.strip()), "")
            raise Unable(f"dtnsend fails: {panic or last_line(done.stdout)}")

    def received(self) -> bytes | None:
        output = self.directory / "received"
        self._run("dtnrecv", "-e", str(SERVICE), "-o", str(output))
        if not output.exists():
            return None
        payload = output.read_bytes()
        output.unlink()
        return payload
