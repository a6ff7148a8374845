"""The documents' own commands, run as they stand there."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from labs.rig.binary import ROOT, dhow
from labs.rig.node import free_port

# Two nodes start and a few commands follow; this is only there to end what hangs.
PATIENCE_S = 120


class Readme(unittest.TestCase):
    """The commands that a newcomer copies into a shell."""

    def run_block(self, document: str, heading: str) -> tuple[Path, str]:
        """Runs the first block of commands below a heading; returns its directory and what was said."""
        text = (ROOT / document).read_text(encoding="utf-8")
        block = re.search(rf"^{heading}\n.*?```sh\n(.*?)```", text, re.MULTILINE | re.DOTALL)
        if block is None:
            self.fail(f"{document} has no block of commands below {heading!r}")
        script = block.group(1).replace("4602", str(free_port()))
        directory = Path(tempfile.mkdtemp(prefix="dhow-readme-"))
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        environment = os.environ | {"PATH": f"{dhow('debug').parent}:{os.environ['PATH']}"}
        shell = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", f"trap 'kill $(jobs -p); wait' EXIT\n{script}"], cwd=directory,
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )
        try:
            said, _ = shell.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            said, _ = shell.communicate()
            self.fail(f"the commands of {document} did not end:\n{said}")
        self.assertEqual(shell.returncode, 0, said)
        return directory, said

    def test_the_two_nodes_of_the_readme_exchange_a_bundle(self) -> None:
        directory, said = self.run_block("README.md", "## Two nodes")
        arrived = list((directory / "received").iterdir())
        self.assertEqual(len(arrived), 1, said)
        self.assertEqual(arrived[0].read_bytes(), (directory / "alpha" / "node.toml").read_bytes())

    def test_the_nodes_of_the_tls_document_prove_who_they_are(self) -> None:
        if not shutil.which("openssl"):
            self.skipTest("no openssl command")
        _, said = self.run_block(os.path.join("docs", "tls.md"), "# Sessions under TLS")
        self.assertIn("2 sent, 2 received", said)
        self.assertRegex(said, r"ipn:2\.0 +two +yes")

    def test_the_first_scenario_of_the_lab_runs_as_the_document_shows_it(self) -> None:
        text = (ROOT / "docs" / "lab.md").read_text(encoding="utf-8")
        shown = re.search(r"^## A first scenario\n.*?```toml\n(.*?)```", text, re.MULTILINE | re.DOTALL)
        if shown is None:
            self.fail("docs/lab.md shows no first scenario")
        self.assertEqual(shown.group(1), (ROOT / "labs" / "first.toml").read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory(prefix="dhow-readme-") as directory:
            (Path(directory) / "first.toml").write_text(shown.group(1), encoding="utf-8")
            command = [dhow("debug"), "lab", "run", "first.toml", "--backend", "sim"]
            ran = subprocess.run(
                command, cwd=directory, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stdout.count("done; 100 of 100 payloads delivered"), 4, ran.stdout)

    def test_the_house_is_told_at_a_glance(self) -> None:
        lines = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
        self.assertLessEqual(len(lines), 200)
