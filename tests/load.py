"""The load of a contact is stored at a node before the contact begins, and refused payloads fail the run."""

import csv
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from labs.rig.binary import dhow
from labs.rig.network import namespaces_possible

PATIENCE_S = 100.0

# A load that takes eight times as long to come to the node in the middle as there is until the contact.
FERRY = """
[[node]]
name = "alpha"
[[node]]
name = "beta"
{node}
[[node]]
name = "gamma"
[[link]]
between = ["alpha", "beta"]
rate = "4Mbit"
[[link]]
name = "radio"
between = ["beta", "gamma"]
rate = "32Mbit"
at_end = "silence"
[[contact]]
link = "radio"
start = "2s"
for = "3s"
[[traffic]]
from = "alpha"
to = "gamma"
size = "20kB"
total = "4MB"
{more}
[stop]
at = "7s"
"""


@unittest.skipIf(namespaces_possible(), f"no network namespaces: {namespaces_possible()}")
class Load(unittest.TestCase):
    """`dhow lab run` with loads that are stored ahead of a contact."""

    def setUp(self) -> None:
        self.place = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def lab(self, text: str, *words: str) -> tuple[int, str]:
        """Does something with a scenario; the exit code, and what was said."""
        (self.place / "study.toml").write_text(text)
        done = subprocess.run(
            [dhow("debug"), "lab", *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False,
            cwd=self.place, env={**os.environ, "DHOW_LAB_DIR": str(self.place / "labs")})
        return done.returncode, done.stdout + done.stderr

    def run_lab(self, text: str, out: str) -> tuple[int, str]:
        """Runs the lab."""
        return self.lab(text, "run", "study.toml", "--out", out)

    def table(self, out: str, name: str) -> list[dict[str, str]]:
        """A table of the results."""
        with (self.place / out / name).open() as file:
            return list(csv.DictReader(file))

    def test_time_stands_still_until_the_load_is_where_the_contact_begins(self) -> None:
        without = FERRY.format(node="", more="")
        code, said = self.run_lab(without, "without")
        self.assertEqual(code, 0, said)
        paused = FERRY.format(node="", more='[pause]\nat = "1s"\nuntil_stored_at = "beta"')
        code, said = self.run_lab(paused, "paused")
        self.assertEqual(code, 0, said)
        delivered = {out: int(self.table(out, "runs.csv")[0]["delivered"]) for out in ("without", "paused")}
        # 0.5 MB/s come in beside, and 4 MB/s go out.
        self.assertLess(delivered["without"], 150)
        self.assertGreater(delivered["paused"], 150)
        contact = self.table("paused", "contacts.csv")[-1]
        self.assertAlmostEqual(float(contact["start_s"]), 2.0, delta=0.5)
        self.assertLess(float(self.table("paused", "runs.csv")[0]["duration_s"]), 9.0)

    def test_refused_payload_fails_the_run_where_that_is_not_allowed(self) -> None:
        small = 'quota = "1MB"'
        text = FERRY.format(node="", more="").replace('name = "alpha"', f'name = "alpha"\n{small}', 1)
        code, said = self.run_lab(text, "refused")
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"payloads were refused \(hint: 'quota' of nodes")
        code, said = self.run_lab(text + "may_refuse = true\n", "allowed")
        self.assertEqual(code, 0, said)

    def test_payload_larger_than_its_store_is_refused_without_being_sent(self) -> None:
        text = FERRY.format(node="", more="").replace("20kB", "300GB", 1)
        code, said = self.run_lab(text + "may_refuse = true\n", "huge")
        self.assertEqual(code, 0, said)
        run = self.table("huge", "runs.csv")[0]
        self.assertEqual((run["sent"], run["refused"]), ("1", "1"))

    def test_rate_of_tcp_is_no_processor_where_nobody_measures_it(self) -> None:
        text = FERRY.format(node='cpu = "24Mbit"', more="")
        code, said = self.lab(text, "up", "study.toml")
        self.assertEqual(code, 1, said)
        self.assertIn("'cpu' of 'beta' is a rate of TCP", said)
        self.assertIn("`dhow lab run` measures it", said)


if __name__ == "__main__":
    unittest.main()
