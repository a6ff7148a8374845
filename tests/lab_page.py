"""The page of a lab while it runs, in a real browser: in virtual time and on sockets, on a telephone, by keyboard, and at the end."""

import os
import re
import signal
import socket
import subprocess
import tempfile
import time
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


# Connections that the page serves at once.
PLACES = 32

# Octets that may wait in the system for a reader: 64 KiB, with what the system itself needs for them.
WAITING_MAX = 256 << 10

# Its state is so large that it soon fills the sockets of who does not read.
MANY_NODES = """
[[grid]]
name = "village-"
width = 20
height = 20
rate = "1Mbit"
[[traffic]]
from = "village-*"
to = "village-*"
within = 6
size = "1kB"
mean = "1h"
lifetime = "10min"
[stop]
at = "300h"
"""


class Place(unittest.TestCase):
    """A directory, and a lab with a page in it."""

    def setUp(self) -> None:
        self.place = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.labs = 0

    def start(self, scenario: str, *words: str, address: str = "") -> tuple[subprocess.Popen, str]:
        """A lab with its page, and the page's first address."""
        (self.place / "study.toml").write_text(scenario)
        self.labs += 1
        out = "out" if self.labs == 1 else f"out{self.labs}"
        command = [dhow("debug"), "lab", "run", "study.toml", "--out", out, *words, "--page", *address.split()]
        lab = subprocess.Popen(command, cwd=self.place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lab.wait, PATIENCE_S)
        self.addCleanup(lab.send_signal, signal.SIGINT)
        self.addCleanup(lab.stderr.close)
        for line in lab.stderr:
            if found := re.search(r"the page is (http://\S+:\d+/)(.*)", line):
                self.others = re.findall(r"http://(\S+):\d+/", found[2])
                return lab, found[1]
        self.fail("the lab has told of no page")


@unittest.skipUnless(browser.program(), "no chromium")
class LabPage(Place):
    """`dhow lab run --page`."""

    def setUp(self) -> None:
        super().setUp()
        self.browser = browser.Browser()
        self.addCleanup(self.browser.__exit__)

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

    def test_readers_that_never_read_keep_the_page_from_nobody(self) -> None:
        lab, url = self.start(SIMULATED, "--backend", "sim", "--jobs", "1")
        mute = [self.enterContext(connected(url, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")) for _ in range(PLACES)]
        for one in mute:
            self.assertEqual(one.recv(1), b"H")
        self.browser.open(url)
        self.shown("of 8 runs done, 1 under way")
        self.browser.until("document.querySelectorAll('#graph .node').length == 3", PATIENCE_S)
        lab.send_signal(signal.SIGINT)
        self.shown("The lab was interrupted.")
        self.assertEqual(lab.wait(PATIENCE_S), 130)


class LabServer(Place):
    """The page's server, as those meet it who are no browser."""

    def simulated(self, scenario: str = SIMULATED, address: str = "") -> str:
        """A lab in virtual time, and the URL of its page."""
        return self.start(scenario, "--backend", "sim", "--jobs", "1", address=address)[1]

    def test_a_reader_that_takes_nothing_is_let_go(self) -> None:
        url = self.simulated(MANY_NODES)
        reader = self.enterContext(connected(url, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        self.assertEqual(reader.recv(1), b"H")
        most, until = 0, time.monotonic() + PATIENCE_S
        while (waiting := kept_for(reader)) is not None:
            most = max(most, waiting)
            self.assertLess(time.monotonic(), until, f"it is served still, and {waiting} octets wait for it")
            time.sleep(0.1)
        self.assertLessEqual(most, WAITING_MAX)

    def test_names_that_others_may_own_are_refused_at_every_address(self) -> None:
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0", "[::1]:0"]:
            url = self.simulated(address=address)
            with self.subTest(address):
                port = url.rpartition(":")[2]
                known = [("elsewhere.example", 403), ("127.0.0.1.elsewhere.example", 403), ("127.0.0.1", 200), ("localhost:80", 200), ("[::1]", 200), (socket.gethostname(), 200)]
                for place in [url, *(f"http://{it}:{port}" for it in self.others)]:
                    for host, status in known:
                        with self.subTest(place=place, host=host):
                            self.assertEqual(asked(place, f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")[0], status)
                self.assertEqual(asked(url, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n")[0], 403)

    def test_an_address_of_all_interfaces_is_told_as_addresses_that_lead_to_the_page(self) -> None:
        for address, first in [("0.0.0.0:0", r"127\.0\.0\.1"), ("[::]:0", r"127\.0\.0\.1")]:
            with self.subTest(address):
                url = self.simulated(address=address)
                self.assertRegex(url, rf"^http://{first}:\d+/$")
                self.assertNotRegex(url, r":0/$")
                port = url.rpartition(":")[2]
                for place in [url, *(f"http://{it}:{port}" for it in self.others)]:
                    self.assertEqual(asked(place, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")[0], 200)

    def test_head_is_answered_as_get_without_a_content_and_nothing_else_is_taken(self) -> None:
        url = self.simulated()
        for path in ["/", "/page.js", "/page.css", "/parts.js"]:
            with self.subTest(path):
                words = f"{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                status, fields, content = asked(url, f"HEAD {words}")
                self.assertEqual((status, content), (200, b""))
                self.assertEqual(int(fields["content-length"]), len(asked(url, f"GET {words}")[2]))
        status, fields, content = asked(url, "HEAD /events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.assertEqual((status, fields["content-type"], content), (200, "text/event-stream", b""))
        self.assertEqual(asked(url, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")[0], 405)
        self.assertEqual(asked(url, "GET /../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")[0], 404)
        self.assertEqual(asked(url, "nothing\r\n\r\n")[0], 400)

    def test_ctrl_c_ends_the_lab_though_nobody_reads(self) -> None:
        lab, url = self.start(MANY_NODES, "--backend", "sim", "--jobs", "1")
        for words in ["", "GET / HT", "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"]:
            self.enterContext(connected(url, words))
        lab.send_signal(signal.SIGINT)
        self.assertEqual(lab.wait(PATIENCE_S), 130)


def kept_for(reader: socket.socket) -> int | None:
    """Octets that wait for a reader at the other end of its connection, by the system's table; none once that end is closed."""
    ends = [f":{place[1]:04X}" for place in [reader.getpeername(), reader.getsockname()]]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        is_established = words[3] == "01"
        if is_established and [words[1][-5:], words[2][-5:]] == ends:
            return int(words[4].split(":")[0], 16)
    return None


def connected(url: str, words: str) -> socket.socket:
    """A connection on which this was said."""
    host, _, port = url.removeprefix("http://").rstrip("/").rpartition(":")
    stream = socket.create_connection((host.strip("[]"), int(port)), PATIENCE_S)
    stream.sendall(words.encode())
    return stream


def asked(url: str, words: str) -> tuple[int, dict[str, str], bytes]:
    """The status, the fields and the content of an answer."""
    with connected(url, words) as stream:
        answer = b"".join(iter(lambda: stream.recv(65536), b""))
    head, _, content = answer.partition(b"\r\n\r\n")
    first, *fields = head.decode().split("\r\n")
    return int(first.split()[1]), dict(it.lower().split(": ", 1) for it in fields), content


if __name__ == "__main__":
    unittest.main()
