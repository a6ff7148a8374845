"""Pages of reports as a browser shows them: nothing is wider than a telephone, a window or a sheet of paper."""

import subprocess
import tempfile
import unittest
from pathlib import Path

from labs.rig import browser
from labs.rig.binary import dhow

SCENARIO = """
name = "A study with everything in its report"
[[node]]
name = "the-first-of-two-nodes"
[[node]]
name = "the-second-of-two-nodes"
[[link]]
between = ["the-first-of-two-nodes", "the-second-of-two-nodes"]
name = "a-link-with-a-long-name"
rate = "2Mbit"
[[contact]]
link = "a-link-with-a-long-name"
start = "1s"
for = "4s"
[[traffic]]
from = "the-first-of-two-nodes"
to = "the-second-of-two-nodes"
size = "10kB"
count = 60
lifetime = "1min"
[stop]
at = "8s"
[sweep]
"traffic.size" = ["10kB", "20kB"]
"link.rate" = ["1Mbit", "2Mbit"]
"traffic.lifetime" = ["1min", "2min"]
[runs]
repeats = 2
[full]
"runs.repeats" = 10
[energy]
host = "3W"
[report]
question = "What does it take?"
found = "A paper found something."
x = "traffic.size"
group_by = "link.rate"
more = "energy_per_mb, delay_median"
paper = "paper.csv"
"""
# Sixty variants: five sizes along three times four curves.
SIXTY = SCENARIO.split("[sweep]")[0] + """
[sweep]
"traffic.size" = ["1kB", "2kB", "5kB", "10kB", "20kB"]
"link.rate" = ["1Mbit", "2Mbit", "4Mbit"]
"link.delay" = ["1ms", "10ms", "100ms", "500ms"]
[report]
x = "traffic.size"
"""
PAPER = "x,group,value,source\n10kB,1Mbit,900000,\"Figure 7, read from the curve\"\n20kB,2Mbit,1900000,Table 2\n"


@unittest.skipUnless(browser.program(), "no chromium")
class Pages(unittest.TestCase):
    """`report.html` of labs and of simulations."""

    def setUp(self) -> None:
        self.place = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.place / "study.toml").write_text(SCENARIO)
        (self.place / "paper.csv").write_text(PAPER)

    def page(self, *words: str) -> str:
        """The page of what a command leaves."""
        command = [dhow("debug"), *words, "--out", "out"]
        subprocess.run(command, cwd=self.place, check=True, capture_output=True, timeout=120)
        return (self.place / "out" / "report.html").read_text()

    def assert_fits(self, page: str) -> None:
        """Nothing is too wide for any screen, or for paper."""
        for width in browser.SCREENS:
            with self.subTest(screen=width):
                self.assertEqual(browser.too_wide(page, width), [])
        with self.subTest(paper=browser.PAPER):
            self.assertEqual(browser.too_wide(page, browser.PAPER, on_paper=True), [])

    def test_the_page_of_a_lab_fits_every_screen_and_paper(self) -> None:
        self.assert_fits(self.page("lab", "run", "study.toml", "--backend", "sim"))

    def test_the_page_of_a_simulation_fits_every_screen_and_paper(self) -> None:
        self.assert_fits(self.page("sim", "run", "study.toml", "--seeds", "3"))

    def test_the_page_of_a_comparison_fits_every_screen_and_paper(self) -> None:
        self.page("lab", "run", "study.toml", "--backend", "sim")
        (self.place / "out").rename(self.place / "before")
        self.page("lab", "run", "study.toml", "--backend", "sim", "--set", "link.delay=90ms")
        command = [dhow("debug"), "lab", "compare", "before", "out", "--out", "comparison.html"]
        subprocess.run(command, cwd=self.place, check=True, capture_output=True, timeout=120)
        page = (self.place / "comparison.html").read_text()
        self.assertIn("link.delay=90ms", page)
        self.assertGreater(page.count('class="panel"'), 3)
        self.assert_fits(page)

    def test_the_page_of_sixty_variants_fits_and_has_few_curves_in_each_picture(self) -> None:
        (self.place / "study.toml").write_text(SIXTY)
        page = self.page("lab", "run", "study.toml", "--backend", "sim")
        self.assert_fits(page)
        first = page.split("<figure", 2)[1]
        panels = first.split('class="panel"')[1:]
        self.assertEqual(len(panels), 3)
        for panel in panels:
            self.assertEqual(panel.count('class="curve'), 4)
        self.assertEqual(first.count('class="sign"'), 4)
        self.assertIn("<th>link.rate</th><th>link.delay</th>", page)
        self.assertIn('class="wide tall"', page)

    def test_what_is_too_wide_is_found(self) -> None:
        wide = "<!doctype html><body><p style='width:500px'>too wide</p></body>"
        self.assertTrue(browser.too_wide(wide, 390))
        self.assertEqual(browser.too_wide(wide, 768), [])


if __name__ == "__main__":
    unittest.main()
