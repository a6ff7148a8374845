"""The page of a lab while it runs, in a real browser: in virtual time and on sockets, on a telephone, by keyboard, and at the end."""

import os
import re
import signal
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

from labs.rig import browser
from labs.rig.binary import dhow
from labs.rig.network import namespaces_possible

SCREENS = [320, 390, 768, 1280]

# A run takes this at most; it is only there to end what hangs.
PATIENCE_S = 120

NETWORK = """
[[node]]
name = "town"
[[node]]
name = "bus <img src=x onerror=document.title='broken'>"
[[node]]
name = "village"
[[link]]
name = "to-town"
between = ["bus <img src=x onerror=document.title='broken'>", "town"]
rate = "4Mbit"
[[link]]
name = "to-village"
between = ["bus <img src=x onerror=document.title='broken'>", "village"]
rate = "2Mbit"
"""

# It goes on for so long that the test ends it.
SIMULATED = NETWORK + """
[[contact]]
link = "to-town"
start = "1min"
for = "5min"
every = "15min"
[[contact]]
link = "to-village"
start = "7min"
for = "5min"
every = "15min"
[[traffic]]
from = "town"
to = "village"
size = "10kB"
count = 1000000
every = "1s"
[sweep]
"traffic.size" = ["10kB", "20kB"]
[runs]
repeats = 4
[stop]
at = "300h"
"""

# The bus leaves the town, with a load that it keeps until the village.
ON_SOCKETS = NETWORK.replace(" <img src=x onerror=document.title='broken'>", "") + """
[[contact]]
link = "to-town"
start = "1s"
for = "5s"
[[contact]]
link = "to-village"
start = "12s"
for = "6s"
[[traffic]]
from = "town"
to = "village"
size = "10kB"
count = 30
every = "50ms"
[stop]
at = "18s"
"""


@unittest.skipUnless(browser.program(), "no chromium")
class LabPage(unittest.TestCase):
    """`dhow lab run --page`."""

    def setUp(self) -> None:
        self.place = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.browser = browser.Browser()
        self.addCleanup(self.browser.__exit__)

    def start(self, scenario: str, *words: str) -> tuple[subprocess.Popen, str]:
        """A lab with its page, and the page's address."""
        (self.place / "study.toml").write_text(scenario)
        command = [dhow("debug"), "lab", "run", "study.toml", "--out", "out", *words, "--page"]
        lab = subprocess.Popen(command, cwd=self.place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lab.wait, PATIENCE_S)
        self.addCleanup(lab.send_signal, signal.SIGINT)
        self.addCleanup(lab.stderr.close)
        for line in lab.stderr:
            if found := re.search(r"the page is (http://127\.0\.0\.1:\d+/)", line):
                return lab, found[1]
        self.fail("the lab has told of no page")

    def shown(self, words: str) -> None:
        """Once the page shows these words."""
        self.browser.until(f"(document.body?.innerText ?? '').includes({words!r})", PATIENCE_S)

    def row(self, body: str, name: str) -> list[str]:
        """The cells of a line of a table, by the beginning of its first."""
        script = f"[...document.querySelectorAll('#{body} tr')].filter(it => it.cells[0].textContent.startsWith({name!r})).map(it => [...it.cells].map(cell => cell.textContent))[0]"
        return self.browser.evaluate(script)

    def test_runs_in_virtual_time_are_shown_by_their_own_values_and_fit_every_screen(self) -> None:
        lab, url = self.start(SIMULATED, "--backend", "sim", "--jobs", "2")
        self.browser.open(url)
        self.shown("of 8 runs done, 2 under way")
        self.shown("traffic.size=")
        # Names are text, and no part of the page.
        self.shown("bus <img src=x")
        self.browser.until("document.querySelectorAll('#graph .node').length == 3 && document.querySelectorAll('#graph .link').length == 2", PATIENCE_S)
        self.browser.until("[...document.querySelectorAll('#queue-rows td:nth-child(3)')].some(it => parseInt(it.textContent) > 0)", PATIENCE_S)
        self.browser.until("document.querySelectorAll('#timeline .planned').length > 2", PATIENCE_S)
        self.assertNotIn("broken", self.browser.evaluate("document.title"))
        self.assertRegex(self.row("link-rows", "to-town")[2], r"^(up|down) in ")
        for width in SCREENS:
            with self.subTest(screen=width):
                self.browser.resize(width)
                self.browser.until(f"document.documentElement.scrollWidth <= {width}", 10)
        # By keyboard alone: the log of events stands still, and goes on.
        self.browser.evaluate("document.getElementById('pause').focus()")
        self.browser.press("Enter")
        self.browser.until("document.getElementById('pause').getAttribute('aria-pressed') == 'true'", 10)
        self.browser.press("Enter")
        self.browser.until("document.getElementById('pause').getAttribute('aria-pressed') == 'false'", 10)
        lab.send_signal(signal.SIGINT)
        self.shown("The lab was interrupted.")
        self.assertEqual(lab.wait(PATIENCE_S), 130)

    @unittest.skipIf(namespaces_possible(), f"no network namespaces: {namespaces_possible()}")
    @unittest.skipUnless(os.geteuid() == 0, "the network of a user's lab is one of its own, which no browser reaches")
    def test_a_run_on_sockets_is_shown_to_its_end_with_what_waits_at_nodes(self) -> None:
        lab, url = self.start(ON_SOCKETS)
        # A reader that does not read is no hindrance.
        port = int(url.rstrip("/").rpartition(":")[2])
        mute = self.enterContext(socket.create_connection(("127.0.0.1", port)))
        mute.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.browser.open(url)
        self.shown("Run 0001 after")
        # Between both contacts the whole load waits on the bus, by the word of its node.
        links = "[...document.querySelectorAll('#link-rows tr')].map(it => it.cells[1].textContent + ' ' + it.cells[2].textContent)"
        self.browser.until(f"/^down none planned,down up in /.test({links}.join())", PATIENCE_S)
        self.browser.until("document.querySelector('#queue-rows tr')?.innerText.replace(/\\s+/g, ' ').startsWith('bus up 30 ')", PATIENCE_S)
        self.shown("link to-town is up")
        self.shown("The lab has ended: all runs are done.")
        # The report was given to the page, which has it when the lab is gone.
        self.browser.until("!document.getElementById('report').hidden", 10)
        self.assertEqual(lab.wait(PATIENCE_S), 0)
        self.shown(str((self.place / "out" / "report.html").resolve()))
        self.browser.evaluate("location.assign(document.getElementById('report').href)")
        self.shown("Data for a repetition")
        # With its style, which is in it.
        self.assertEqual(self.browser.evaluate("getComputedStyle(document.querySelector('svg.slim')).display"), "none")

    def test_an_address_that_is_taken_is_refused_before_anything_runs(self) -> None:
        (self.place / "study.toml").write_text(SIMULATED)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            command = [dhow("debug"), "lab", "run", "study.toml", "--backend", "sim", "--out", "out", "--page", address]
            said = subprocess.run(command, cwd=self.place, capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(said.returncode, 1)
        self.assertIn("cannot serve the page", said.stderr)


if __name__ == "__main__":
    unittest.main()
