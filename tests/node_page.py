"""The page of a node in a real browser: by keyboard, on a telephone, while links come and go and the node is away."""

import unittest

from labs.rig import browser
from labs.rig.node import Link, Node, Settings, free_port
from labs.rig.binary import dhow
from tests.workplace import Workplace

TOKEN = "a-token-for-the-page"
SCREENS = [320, 390, 768, 1280]


@unittest.skipUnless(browser.program(), "no browser is installed")
class NodePage(Workplace):
    """The sender's page; it has a link to the receiver and one to nobody."""

    def setUp(self) -> None:
        super().setUp()
        self.web = free_port()
        settings = self.sender.settings
        settings.links.append(Link("nobody", f"127.0.0.1:{free_port()}"))
        settings.routes.append(("dtn://far/**", "nobody"))
        settings.more = f'[admin]\ntcp = "127.0.0.1:{self.web}"\ntoken = "{TOKEN}"\n' + """
[[contact]]
from = "ipn:1.0"
to = "ipn:7.0"
start = "+10min"
end = "+20min"
rate = "1Mbit"
"""
        self.start()
        self.browser = browser.Browser()
        self.addCleanup(self.browser.__exit__)

    def shown(self, words: str) -> bool:
        """Once the page shows these words."""
        return bool(self.browser.until(f"(document.body?.innerText ?? '').includes({words!r})", 30))

    def sign_in(self) -> None:
        self.browser.open(f"http://127.0.0.1:{self.web}/#{TOKEN}")
        self.browser.until("document.querySelectorAll('#link-rows tr').length == 2", 30)

    def test_a_token_is_asked_for_and_a_wrong_one_refused(self) -> None:
        self.browser.open(f"http://127.0.0.1:{self.web}/")
        self.shown("Look at the node")
        # By keyboard alone: the field has the focus.
        self.browser.write("no-token-at-all")
        self.browser.press("Enter")
        self.shown("the request carries no valid token.")
        self.assertTrue(self.browser.evaluate("document.getElementById('all').hidden"))
        self.browser.until("document.activeElement.id == 'token'")
        self.browser.evaluate("document.getElementById('token').value = ''")
        self.browser.write(TOKEN)
        self.browser.press("Enter")
        self.shown("ipn:1.0")
        self.browser.until("document.title == 'ipn:1.0: Dhow'", 30)

    def test_the_address_does_not_keep_the_token_and_no_other_site_is_asked(self) -> None:
        self.sign_in()
        self.assertEqual(self.browser.evaluate("location.hash"), "")
        elsewhere = f"fetch('http://127.0.0.1:{self.port}/').then(() => 'taken', it => it.name)"
        self.assertEqual(self.browser.evaluate(elsewhere), "TypeError")

    def test_links_queues_and_contacts_are_shown_as_text_and_fit_every_screen(self) -> None:
        sent = self.sender.run("send", "dtn://far/<img src=x onerror=document.title='broken'>".replace(" ", "%20"), str(self.payload()))
        self.assertEqual(sent.returncode, 0, sent.stderr)
        self.sign_in()
        self.shown("far/<img")
        self.shown("Connection refused")
        self.shown("The next planned contact is with ipn:7.0 in")
        self.shown("Sessions are up with ipn:2.0.")
        self.browser.until("document.querySelector('[data-key=\"link nobody\"] td:nth-child(7)').textContent == '1'", 30)
        self.assertEqual(self.browser.evaluate("document.title"), "ipn:1.0: Dhow")
        for width in SCREENS:
            self.browser.resize(width)
            self.browser.until(f"document.documentElement.scrollWidth <= {width}", 10)

    def payload(self):
        path = self.directory / "payload"
        path.write_bytes(b"octets")
        return path

    def test_a_link_goes_down_and_up_by_keyboard_and_its_events_are_told(self) -> None:
        self.sign_in()
        row = "document.querySelector('[data-key=\"link receiver\"]')"
        self.browser.evaluate(f"{row}.querySelector('button').focus()")
        self.browser.press("Enter")
        self.browser.until("document.getElementById('sure').open")
        # The first question offers the harmless answer.
        self.assertEqual(self.browser.evaluate("document.activeElement.value"), "no")
        self.browser.press("Escape")
        self.browser.until("!document.getElementById('sure').open")
        self.assertEqual(self.sender.show("links")["links"][0]["state"], "up")
        self.browser.press("Enter")
        self.browser.until("document.getElementById('sure').open")
        self.browser.evaluate("document.querySelector('#sure button[value=yes]').focus()")
        self.browser.press("Enter")
        self.browser.until(f"{row}.innerText.includes('down')", 30)
        self.shown("session down: ")
        # The row's button still has the focus, and brings it up.
        self.browser.until("document.activeElement.textContent == 'Bring up'", 30)
        self.browser.press("Enter")
        self.browser.until(f"{row}.innerText.includes('ipn:2.0') && {row}.innerText.includes('up')", 30)
        self.shown("session up: ")

    def test_events_stand_still_while_they_are_paused_and_those_that_come_are_counted(self) -> None:
        self.sign_in()
        self.browser.evaluate("document.getElementById('pause').focus()")
        self.browser.press("Enter")
        self.browser.until("document.getElementById('pause').getAttribute('aria-pressed') == 'true'")
        self.assertEqual(self.receiver.stop(), 0)
        self.browser.until("/^Go on [(]\\d+ more[)]$/.test(document.getElementById('pause').textContent)", 30)
        self.browser.press("Enter")
        self.browser.until("document.querySelector('#events li').textContent.endsWith('left out while paused')", 30)
        self.assertEqual(self.browser.evaluate("document.getElementById('pause').textContent"), "Pause")

    def test_quantities_have_three_digits_also_where_they_round_to_the_next_unit(self) -> None:
        self.browser.open(f"http://127.0.0.1:{self.web}/")
        said = self.browser.evaluate("import('./parts.js').then(it => [0, 999, 1000, 999499, 999999, 2e15].map(it.octets).join())")
        self.assertEqual(said, "0 B,999 B,1.00 kB,999 kB,1.00 MB,2.00 PB")

    def test_why_something_waits_is_explained(self) -> None:
        sent = self.sender.run("send", "ipn:9.1", str(self.payload()))
        self.assertEqual(sent.returncode, 0, sent.stderr)
        self.sign_in()
        self.shown("no route")
        self.browser.evaluate("document.querySelector('#queue-rows button').click()")
        self.shown("Why what is for ipn:9.1 waits")
        self.shown("No route leads there: `dhow route add` makes one.")
        sent = self.sender.run("send", "dtn://far/1", str(self.payload()))
        self.assertEqual(sent.returncode, 0, sent.stderr)
        self.browser.press("Escape")
        self.browser.until("document.querySelectorAll('#queue-rows tr').length == 2", 30)
        self.browser.evaluate("document.querySelector('[data-key=\"dtn://far/1\"] button').click()")
        self.shown("Over nobody: Connection refused (os error 111); tried again in")

    def test_a_node_that_is_away_is_said_to_be_and_comes_back(self) -> None:
        self.sign_in()
        self.assertEqual(self.sender.stop(), 0)
        self.shown("The node does not answer")
        self.sender.start()
        self.browser.until("document.getElementById('fault').hidden", 30)
