"""A node that takes up another configuration while it runs: `dhow reload`, SIGHUP, and what an operator adds and deletes."""

import json
import os
import pty
import signal
import socket
import subprocess
import threading
import time

from labs.rig.binary import dhow
from labs.rig.node import Node, Settings, free_port
from tests.workplace import Exchange

# Seconds within which what was asked for must have happened.
PATIENCE_S = 30.0


class Reload(Exchange):
    """The sender's configuration changes; a third node is beside the receiver."""

    def setUp(self) -> None:
        super().setUp()
        self.third = self.node("third", Settings("ipn:3.0", f"127.0.0.1:{free_port()}"))
        self.config = self.sender.directory / "node.toml"

    def node(self, name: str, settings: Settings) -> Node:
        """One node more."""
        return Node(self.crew, dhow("debug"), self.directory / name, settings)

    def start(self) -> None:
        super().start()
        self.third.start()
        self.until_sessions(1)

    def sessions(self, node: Node | None = None) -> list[dict]:
        """Established sessions."""
        return (node or self.sender).show("links")["sessions"]

    def until(self, what: str, holds) -> None:
        """Waits until something holds."""
        end = time.monotonic() + PATIENCE_S
        while not holds():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)

    def until_sessions(self, count: int, node: Node | None = None) -> None:
        self.until(f"{count} sessions", lambda: len(self.sessions(node)) == count)

    def rewrite(self, *changes: tuple[str, str], more: str = "") -> None:
        """Edits the sender's file."""
        text = self.config.read_text()
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new, 1)
        self.config.write_text(text + more)

    def third_link(self) -> str:
        return f'[[link]]\nname = "third"\naddress = "{self.third.settings.listen}"\n[[route]]\nto = "ipn:3.*"\nvia = "third"\n'

    def reload(self, *words: str) -> dict:
        return self.sender.show("reload", *words)

    def names(self, differences: list[dict]) -> list[str]:
        return [f"{it['what']} {it['name']}" for it in differences]

    def test_a_link_and_a_route_are_taken_up_while_a_large_bundle_leaves(self) -> None:
        self.receiver.settings.listen_policy = 'keepalive = "30s"'
        self.start()
        self.send(self.sender, "ipn:2.42", 200_000_000)
        self.rewrite(more=self.third_link())
        answer = self.reload()
        self.assertEqual(self.names(answer["added"]), ["link third", "route ipn:3.* via third"])
        self.assertEqual((answer["removed"], answer["changed"], answer["needs_restart"]), ([], [], []))
        self.until_sessions(2)
        self.send(self.sender, "ipn:3.42", 1_000)
        self.take(self.third, "ipn:3.42", 1_000)
        self.take(self.receiver, "ipn:2.42", 200_000_000)
        self.assertNotIn("session down", self.sender.log.read_text())
        # Nothing differs any more.
        again = self.reload()
        self.assertEqual((again["added"], again["removed"], again["changed"]), ([], [], []))
        self.rewrite((self.third_link(), ""))
        self.assertEqual(self.names(self.reload()["removed"]), ["link third", "route ipn:3.* via third"])
        self.until_sessions(1)

    def test_a_broken_file_is_refused_whole_and_the_node_goes_on(self) -> None:
        self.start()
        good = self.config.read_text()
        for broken in ["", "[node", good + self.third_link() + "[[link]]\nname = 7\n", good + '[[route]]\nto = "ipn:9.*"\nvia = "nobody"\n',
                       good.replace("[node]", "[nodes]"), "x" * (5 << 20), good + '[[contact_plan]]\nfile = "missing"\n']:
            self.config.write_text(broken)
            done = self.sender.run("reload")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("cannot read the configuration", done.stderr)
            self.assertEqual(done.stdout, "")
        self.config.unlink()
        self.assertEqual(self.sender.run("reload").returncode, 1)
        for make, unmake in [(os.mkfifo, os.unlink), (os.mkdir, os.rmdir)]:
            make(self.config)
            self.assertIn("it is no file", self.sender.run("reload", timeout_s=10).stderr)
            unmake(self.config)
        links = self.sender.show("links")
        self.assertEqual(([it["name"] for it in links["links"]], len(links["sessions"])), (["receiver"], 1))
        self.config.write_text(good)
        self.assertEqual(self.reload()["added"], [])

    def test_a_link_with_another_policy_is_dialled_again_and_takes_what_waits(self) -> None:
        self.start()
        good = self.config.read_text()
        keys = ['keepalive = "31s"', 'accept_rate = "10Mbit"', "accept_bundles = 100", 'held = "1MB"', "held_bundles = 9", "relay = false", 'segment = "5kB"', 'fragment = "50kB"',
                'idle_timeout = "99s"', 'accept_sources = ["ipn:*"]', 'order = "expiry"', "bundle_versions = [7]", "sessions = 2"]
        for key in keys:
            self.config.write_text(good.replace('name = "receiver"\n', f'name = "receiver"\n{key}\n', 1))
            answer = self.reload()
            self.assertEqual(self.names(answer["changed"]), ["link receiver"], key)
            self.send(self.sender, "ipn:2.42", 1_000)
            self.take(self.receiver, "ipn:2.42", 1_000)
        self.assertNotIn("has no address", self.sender.log.read_text())

    def test_what_needs_a_restart_is_named_and_the_rest_is_taken_up(self) -> None:
        self.start()
        self.rewrite(('quota = "4GiB"', 'quota = "5GiB"'), ("[node]\n", "[node]\nthreads = 2\n"), more=self.third_link())
        done = self.sender.run("reload", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["needs_restart"], ["node.threads", "store.quota"])
        self.assertEqual(self.names(answer["changed"]), [], "no link's transfer MRU follows a quota that does not hold")
        self.until_sessions(2)
        for named in ([], [str(self.config)]):
            self.assertEqual(self.sender.show("node", "config", "--diff", *named)["needs_restart"], ["node.threads", "store.quota"])
        text = self.sender.run("reload")
        self.assertIn("restart  store.quota", text.stdout)

    def test_what_was_changed_at_run_time_outlasts_a_reload_and_can_be_saved(self) -> None:
        self.start()
        address = self.third.settings.listen
        for words in [("link", "add", "third", address, "--set", "keepalive=9s"), ("route", "add", "ipn:3.*", "--via", "third"),
                      ("contact", "add", "ipn:1.0", "ipn:3.0", "--start", "+1s", "--end", "+1h", "--rate", "1Mbit"),
                      ("link", "down", "receiver"), ("route", "del", "ipn:2.*", "--via", "receiver")]:
            done = self.sender.run(*words)
            self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")
        self.until_sessions(1)
        self.rewrite(("[node]\n", "# the node\n[node]\n"))
        answer = self.reload()
        self.assertEqual((answer["added"], answer["removed"], answer["changed"]), ([], [], []))
        self.assertEqual(len(answer["run_time"]), 5)
        diff = self.sender.show("node", "config", "--diff")
        self.assertIn({"what": "link third", "change": "added"}, diff["run_time"])
        self.assertIn({"what": "link receiver", "change": "down"}, diff["run_time"])
        self.assertEqual([it["state"] for it in self.sender.show("links")["links"]], ["down", "up"])
        mode = self.config.stat().st_mode
        saved = self.reload("--save")
        self.assertEqual(len(saved["saved"]), 5)
        self.assertEqual(saved["run_time"], [])
        text = self.config.read_text()
        self.assertIn("# the node\n", text)
        self.assertIn("enabled = false", text)
        self.assertNotIn('to = "ipn:2.*"', text)
        self.assertEqual(self.config.stat().st_mode, mode)
        # A node that starts by it is the same.
        before = (self.sender.show("routes"), [it["name"] for it in self.sender.show("links")["links"]], len(self.sender.show("contacts")))
        self.sender.stop()
        program = self.crew.start([str(self.sender.binary), "node", "run", "--config", str(self.config)], log=self.sender.log)
        self.sender.program = program
        self.assertIsNotNone(program.line(30))
        self.until_sessions(1)
        after = (self.sender.show("routes"), [it["name"] for it in self.sender.show("links")["links"]], len(self.sender.show("contacts")))
        self.assertEqual(before, after)

    def test_hangups_reload_and_a_storm_of_them_ends_no_session(self) -> None:
        self.start()
        self.rewrite(more=self.third_link())
        process = self.sender.program.process.pid
        for _ in range(200):
            os.kill(process, signal.SIGHUP)
        self.until_sessions(2)
        threads = [threading.Thread(target=self.sender.run, args=("reload",)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for _ in range(200):
            os.kill(process, signal.SIGHUP)
        for thread in threads:
            thread.join()
        self.assertEqual(len(self.sessions()), 2)
        self.assertNotIn("session down", self.sender.log.read_text())
        self.config.write_text("broken")
        os.kill(process, signal.SIGHUP)
        self.until("the reason is in the log", lambda: "not reloaded: cannot read the configuration" in self.sender.log.read_text())
        self.assertEqual(len(self.sessions()), 2)
        self.assertEqual(self.sender.stop(), 0)

    def test_a_node_whose_terminal_goes_ends_in_order(self) -> None:
        self.config.write_text(self.sender.settings.toml())
        child, terminal = pty.fork()
        if child == 0:
            # What is begun without hangups (nohup) keeps to that.
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            os.execv(str(self.sender.binary), [str(self.sender.binary), "node", "run", "--config", str(self.config)])
        with os.fdopen(terminal, "rb", buffering=0) as screen:
            said = b""
            while b'"event":"ready"' not in said:
                said += screen.read(4096)
            os.kill(child, signal.SIGHUP)
            while b"reloaded" not in said:
                said += screen.read(4096)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        self.assertFalse(self.sender.socket.exists())

    def test_listeners_open_and_close(self) -> None:
        self.start()
        port = free_port()
        self.assertEqual(self.receiver.run("listen", "add", f"127.0.0.1:{port}", "--set", "keepalive=11s").returncode, 0)
        self.assertIn(f"127.0.0.1:{port}", self.receiver.show("status")["listen"])
        self.assertEqual(self.receiver.run("listen", "add", f"127.0.0.1:{port}").returncode, 1)
        taken = self.receiver.run("listen", "add", self.third.settings.listen)
        self.assertEqual(taken.returncode, 1)
        self.assertIn("another program has the port", taken.stderr)
        done = self.sender.run("link", "add", "other", f"127.0.0.1:{port}", "--like", "receiver")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.until_sessions(2)
        self.assertEqual(self.receiver.run("listen", "del", f"127.0.0.1:{port}").returncode, 0)
        self.until_sessions(1)
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
        self.assertEqual(self.receiver.run("listen", "del", f"127.0.0.1:{port}").returncode, 1)
        # The session that began at the other listener went on.
        self.assertEqual([it["link"] for it in self.sessions()], ["receiver"])

    def test_a_link_is_deleted_and_its_bundles_go_another_way(self) -> None:
        self.start()
        routed = self.sender.run("link", "del", "receiver")
        self.assertEqual(routed.returncode, 1)
        self.assertIn("dhow route del", routed.stderr)
        self.assertEqual(self.sender.run("route", "del", "ipn:2.*", "--via", "receiver").returncode, 0)
        self.assertEqual(self.sender.run("link", "del", "receiver").returncode, 0)
        self.until_sessions(0)
        self.send(self.sender, "ipn:2.42", 1_000, 2_000)
        self.assertEqual(self.reload()["added"], [], "it stays deleted")
        # A link like one that is gone cannot be made; one with settings of its own can.
        self.assertEqual(self.sender.run("link", "add", "again", "127.0.0.1", "--like", "receiver").returncode, 1)
        done = self.sender.run("link", "add", "again", self.receiver.settings.listen, "--protocol", "tcpcl")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.take(self.receiver, "ipn:2.42", 1_000, 2_000)

    def test_a_link_like_one_over_ltp_has_the_port_of_ltp(self) -> None:
        self.sender.settings.more = '[[listen]]\nprotocol = "ltp"\naddress = "127.0.0.1:0"\n[[link]]\nname = "far"\nprotocol = "ltp"\naddress = "127.0.0.9"\npeer = "ipn:9.0"\nenabled = false\n'
        self.start()
        for words in [("link", "add", "like", "127.0.0.8", "--like", "far", "--peer", "ipn:8.0"),
                      ("link", "add", "own", "127.0.0.7", "--protocol", "ltp", "--peer", "ipn:7.0", "--set", "mtu=1400")]:
            done = self.sender.run(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.sender.run("reload", "--save").returncode, 0)
        shown = json.loads(subprocess.run([str(self.sender.binary), "node", "config", str(self.config), "--json"], capture_output=True, text=True, check=True).stdout)
        links = {it["name"]: it for it in shown["link"]}
        self.assertEqual((links["like"]["protocol"], links["like"]["address"], links["own"]["mtu"]), ("ltp", "127.0.0.8", 1400))
        bad = self.sender.run("link", "add", "bad", "127.0.0.6", "--protocol", "ltp", "--peer", "ipn:6.0", "--set", "keepalive=3s")
        self.assertEqual(bad.returncode, 2)
        self.assertIn("means nothing", bad.stderr)

    def test_a_link_whose_key_cannot_be_read_is_neither_added_nor_saved(self) -> None:
        self.sender.settings.more = '[[listen]]\nprotocol = "ltp"\naddress = "127.0.0.1:0"\n'
        self.start()
        before, key = self.config.read_text(), self.directory / "key"
        words = ("link", "add", "far", "127.0.0.8", "--protocol", "ltp", "--peer", "ipn:8.0", "--set", f"key={key}")
        refused = self.sender.run(*words)
        self.assertEqual((refused.returncode, len(self.sender.show("links")["links"])), (2, 1), refused.stderr)
        self.assertIn(f"'key' names {key}: No such file", refused.stderr)
        key.write_text("00" * 20)
        self.assertEqual(self.sender.run(*words).returncode, 0)
        key.unlink()
        refused = self.sender.run("reload", "--save")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(f"'key' names {key}", refused.stderr)
        self.assertEqual(self.config.read_text(), before)
        key.write_text("00" * 20)
        self.assertEqual(self.reload("--save")["saved"], ["link far"])
        self.assertIn(f'key = "{key}"', self.config.read_text())

    def test_the_supervisor_is_told_of_a_reload(self) -> None:
        path = self.directory / "notify.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(str(path))
            notify.settimeout(PATIENCE_S)
            self.sender.under = ["env", f"NOTIFY_SOCKET={path}"]
            self.sender.start()
            self.assertIn(b"READY=1", notify.recv(4096))
            os.kill(self.sender.program.process.pid, signal.SIGHUP)
            reloading = notify.recv(4096)
            self.assertIn(b"RELOADING=1", reloading)
            self.assertIn(b"MONOTONIC_USEC=", reloading)
            self.assertIn(b"READY=1", notify.recv(4096))

