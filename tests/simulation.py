"""`dhow sim run` as a person meets it: what it refuses, and what it leaves behind when it is interrupted."""

import json
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from labs.rig.binary import ROOT, dhow

LABS = ROOT / "labs"
PATIENCE_S = 120.0


class Simulation(unittest.TestCase):
    """Runs of scenarios in `labs/`."""

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="dhow-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def command(self, *words: str) -> list[str]:
        """`dhow sim run` with these words, its report in the test's directory."""
        return [str(dhow("debug")), "sim", "run", *words, "--out", str(self.directory / "report")]

    def run_to_end(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A run that ends by itself."""
        return subprocess.run(
            self.command(*words), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def test_a_value_that_is_set_holds_and_a_run_repeats_itself(self) -> None:
        words = ["labs/line.toml", "--set", "line.count=3", "--set", "traffic.to=n3", "--set", "traffic.count=20", "--json"]
        first, second = (json.loads(self.run_to_end(*words).stdout) for _ in range(2))
        self.assertEqual((first["sent"], first["delivered"], first["violations"]), (20, 20, []))
        self.assertEqual(first["trace_hash"], second["trace_hash"])

    def test_what_cannot_be_run_is_refused_before_anything_is_written(self) -> None:
        for words, said in [
            (["labs/line.toml", "--set", "trafic.size=2kB"], "did you mean 'traffic'?"),
            (["labs/line.toml", "--set", "traffic.to=n9"], "--set traffic.to=n9: there is no node 'n9'"),
            (["labs/thousand.toml", "--memory", "10MB"], "1,024 nodes and 1,984 links"),
            (["labs/none.toml"], "labs/none.toml: No such file"),
        ]:
            with self.subTest(said):
                done = self.run_to_end(*words)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(said, done.stderr)
                self.assertFalse((self.directory / "report").exists())

    def test_an_interrupted_run_leaves_the_report_of_what_ran(self) -> None:
        process = subprocess.Popen(
            self.command("labs/field.toml", "--json", "--progress", "--set", "stop.at=3d", "--set", "field.step=1min"),
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            line = process.stderr.readline()
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=PATIENCE_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        for word in ["seed 1:", "events/s", "created", "delivered", "expired", "in stores"]:
            self.assertIn(word, line)
        self.assertEqual(process.returncode, 130, stderr)
        ran = json.loads(stdout)
        self.assertTrue(0 < ran["virtual_s"] < 3 * 86_400, ran)
        self.assertEqual(ran["violations"], [])
        names = {path.name for path in (self.directory / "report").iterdir()}
        self.assertEqual(names, {"report.html", "samples.csv", "payloads.csv", "links.csv"})


if __name__ == "__main__":
    unittest.main()
