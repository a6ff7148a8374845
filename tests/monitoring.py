"""Monitoring: the alerts by promtool, and the configuration, alerts and dashboard of docs/monitoring by a Prometheus that reads a node."""

import json
import re
import shutil
import subprocess
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from labs.rig.binary import ROOT
from labs.rig.node import free_port
from tests.workplace import Exchange

FILES = ROOT / "docs" / "monitoring"

# A step takes no longer than this, seconds.
PATIENCE_S = 60.0

TOKEN = "a-secret-of-the-tests"


def queries() -> dict[str, str]:
    """The queries of the dashboard by the title of their panel, as Grafana would send them for all nodes."""
    found = {}
    for panel in json.loads((FILES / "dashboard.json").read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"].replace("$instance", ".*").replace("$__rate_interval", "10s")
            found[f"{panel['title']} {target['refId']}"] = expression
    return found


def names(text: str) -> set[str]:
    """Metrics of a node that a text names."""
    return set(re.findall(r"\bdhow_[a-z_]+", text)) - {"dhow_"}


class Rules(unittest.TestCase):
    """The alerts alone."""

    def setUp(self) -> None:
        if not shutil.which("promtool"):
            self.skipTest("no promtool: the package prometheus has it")

    def promtool(self, *words: str) -> None:
        """Runs it in the directory of the files."""
        done = subprocess.run(["promtool", *words], cwd=FILES, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_alerts_and_configuration_are_well_formed(self) -> None:
        self.promtool("check", "rules", "alerts.yml")
        self.promtool("check", "config", "prometheus.yml")

    def test_alerts_fire_when_they_should_and_only_then(self) -> None:
        self.promtool("test", "rules", "alerts_test.yml")

    def test_every_alert_has_a_test(self) -> None:
        alerts = set(re.findall(r"- alert: (\w+)", (FILES / "alerts.yml").read_text(encoding="utf-8")))
        self.assertGreater(len(alerts), 10)
        tested = set(re.findall(r"alertname: (\w+)\n\s+exp_alerts:\n", (FILES / "alerts_test.yml").read_text(encoding="utf-8")))
        self.assertEqual(alerts - tested, set())


class Watched(Exchange):
    """Two nodes of which one is read by a Prometheus."""

    def setUp(self) -> None:
        if not shutil.which("prometheus"):
            self.skipTest("no prometheus: the package prometheus has it")
        self.admin = f"127.0.0.1:{free_port()}"
        self.more = f'[admin]\ntcp = "{self.admin}"\ntoken = "{TOKEN}"\n'
        super().setUp()
        # One address is for one node.
        self.receiver.settings.more = ""
        self.start()

    def prometheus(self) -> str:
        """Starts it with the files of docs/monitoring; its address."""
        place = self.directory / "prometheus"
        place.mkdir()
        shutil.copy(FILES / "alerts.yml", place)
        text = (FILES / "prometheus.yml").read_text(encoding="utf-8")
        for shown, used in (("127.0.0.1:4243", self.admin), ("choose-a-long-secret", TOKEN), ("interval: 30s", "interval: 1s")):
            self.assertIn(shown, text)
            text = text.replace(shown, used)
        (place / "prometheus.yml").write_text(text, encoding="utf-8")
        address = f"127.0.0.1:{free_port()}"
        self.crew.start(
            ["prometheus", f"--config.file={place / 'prometheus.yml'}", f"--storage.tsdb.path={place / 'data'}", f"--web.listen-address={address}"],
            log=place / "log")
        return address

    def ask(self, address: str, path: str, **words: str) -> dict:
        """The data of an answer of Prometheus; empty while it does not answer yet."""
        url = f"http://{address}/api/v1/{path}?{urllib.parse.urlencode(words)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return {}
            self.fail(f"{words}: {error.read().decode()}")
        except urllib.error.URLError:
            return {}

    def test_the_counters_of_a_neighbour_outlast_its_sessions(self) -> None:
        def sent() -> list[str]:
            lines = self.sender.admin("/metrics").splitlines()
            return [line for line in lines if line.startswith("dhow_neighbour_sent_bundles_total")]

        self.send(self.sender, "ipn:2.42", 1_000, 2_000)
        self.take(self.receiver, "ipn:2.42", 1_000, 2_000)
        deadline = time.monotonic() + PATIENCE_S
        while sent() != (two := ['dhow_neighbour_sent_bundles_total{peer="ipn:2.0"} 2']):
            self.assertLess(time.monotonic(), deadline, sent())
            time.sleep(0.1)
        self.assertEqual(self.sender.run("link", "down", "receiver").returncode, 0)
        while self.sender.show("links")["sessions"]:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        self.assertEqual(sent(), two)
        self.send(self.sender, "ipn:2.42", 3_000)
        self.assertIn('dhow_neighbour_queued_bundles{peer="ipn:2.0"} 1', self.sender.admin("/metrics"))
        self.assertEqual(self.sender.run("link", "up", "receiver").returncode, 0)
        self.take(self.receiver, "ipn:2.42", 3_000)
        while sent() != ['dhow_neighbour_sent_bundles_total{peer="ipn:2.0"} 3']:
            self.assertLess(time.monotonic(), deadline, sent())
            time.sleep(0.1)

    def test_every_query_of_the_dashboard_and_every_alert_finds_what_a_node_tells(self) -> None:
        address = self.prometheus()
        self.send(self.sender, "ipn:2.42", 1_000, 2_000)
        self.take(self.receiver, "ipn:2.42", 1_000, 2_000)
        self.send(self.receiver, "ipn:1.42", 3_000)
        self.take(self.sender, "ipn:1.42", 3_000)
        self.send(self.sender, "ipn:9.1", 500)  # there is no route: it waits
        told = set(self.sender.metrics())
        wanted = queries()
        self.assertGreater(len(wanted), 20)
        for text in (*wanted.values(), (FILES / "alerts.yml").read_text(encoding="utf-8")):
            self.assertEqual(names(text) - told, set(), "metrics that no node has")
        deadline = time.monotonic() + PATIENCE_S
        while wanted:
            self.assertLess(time.monotonic(), deadline, f"found nothing for {wanted}")
            wanted = {title: query for title, query in wanted.items() if not self.ask(address, "query", query=query).get("result")}
            time.sleep(0.2)
        while not (groups := self.ask(address, "rules").get("groups")) or any(rule["health"] == "unknown" for rule in groups[0]["rules"]):
            self.assertLess(time.monotonic(), deadline, "the alerts were not evaluated")
            time.sleep(0.2)
        self.assertEqual({rule["name"]: rule.get("lastError") for rule in groups[0]["rules"] if rule["health"] != "ok"}, {})
        # A day has not passed, but the bundle that has no route is seen.
        self.assertEqual({rule["name"] for rule in groups[0]["rules"] if rule["state"] != "inactive"}, {"DhowNoRoute"})
