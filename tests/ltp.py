"""The whole program over LTP: two nodes, loss on the way, engines that send from other ports, and strangers."""

import json
import shutil
import socket
import subprocess
import time
import unittest
from collections.abc import Callable
from pathlib import Path

from labs.rig.lossy import LossyRelay
from labs.rig.node import Link, free_port
from tests.udp import bundle, until
from tests.workplace import Exchange

# Bundles of one segment and of many, and one of several blocks.
SIZES = [0, 1, 100, 1_400, 5_000, 70_000, 1 << 20, 10_000_000]

RATE = "80Mbit"


class Ltp(Exchange):
    """A sender and a receiver with links over LTP to each other."""

    def setUp(self) -> None:
        super().setUp()
        ports: list[int] = []
        while len(set(ports)) < 2:
            ports = [free_port(socket.SOCK_DGRAM) for _ in range(2)]
        self.ports = ports
        self.join(ports, ports)

    def join(self, own: list[int], ways: list[int]) -> None:
        """Each node listens at a port of its own, and finds the other at the end of a way."""
        for node, port, way, peer in (
                (self.sender, own[0], ways[1], "ipn:2.0"), (self.receiver, own[1], ways[0], "ipn:1.0")):
            settings = node.settings
            settings.listen, settings.listen_protocol = f"127.0.0.1:{port}", "ltp"
            policy = f'peer = "{peer}"\nrate = "{RATE}"\nlight_time = "1ms"\n'
            settings.links = [Link("other", f"127.0.0.1:{way}", policy, "ltp")]
            settings.routes = [(peer.replace(".0", ".*"), "other")]

    def set_policy(self, *lines: str) -> None:
        for node in (self.sender, self.receiver):
            node.settings.links[0].policy += "\n".join([*lines, ""])

    def exchange(self, *sizes: int) -> None:
        self.send(self.sender, "ipn:2.42", *sizes)
        self.send(self.receiver, "ipn:1.42", *sizes)
        self.take(self.receiver, "ipn:2.42", *sizes)
        self.take(self.sender, "ipn:1.42", *sizes)

    def test_bundles_of_all_sizes_cross_both_ways(self) -> None:
        self.start()
        self.exchange(*SIZES)
        for node in (self.sender, self.receiver):
            until(self, lambda node=node: node.metrics()["dhow_bundles_stored"] == 0)
            shown = node.show("links")
            [session], [link] = shown["sessions"], shown["links"]
            self.assertEqual((session["protocol"], session["secured"], link["state"]), ("ltp", False, "up"))
            self.assertEqual(session["datagrams"]["faults"], 0)
            self.assertEqual(node.metrics()["dhow_datagrams_ignored_total"], 0)
        self.assertEqual(self.sender.stop(), 0)
        self.assertEqual(self.receiver.stop(), 0)

    def test_all_arrives_where_one_datagram_of_twenty_is_lost_each_way(self) -> None:
        relay = LossyRelay(0.05, seed=7)
        self.addCleanup(relay.close)
        self.join(self.ports, [relay.towards(("127.0.0.1", port)) for port in self.ports])
        self.start()
        self.exchange(1, 1_400, 70_000, 1 << 20)
        self.assertGreater(relay.passed, 0)

    def test_what_was_under_way_arrives_after_the_receiver_was_killed(self) -> None:
        self.start()
        self.send(self.sender, "ipn:2.42", 100)
        self.take(self.receiver, "ipn:2.42", 100)
        # A confirmation that is not durable yet is gone with the node, and the bundle is delivered again.
        until(self, lambda: self.receiver.metrics()["dhow_bundles_stored"] == 0)
        self.receiver.kill()
        self.send(self.sender, "ipn:2.42", 200, 300_000)
        time.sleep(0.5)
        self.assertEqual(self.sender.metrics()["dhow_bundles_stored"], 2)
        self.receiver.start()
        self.take(self.receiver, "ipn:2.42", 200, 300_000)
        until(self, lambda: self.sender.metrics()["dhow_bundles_stored"] == 0)

    def test_a_node_sends_from_the_address_at_which_its_peer_has_it(self) -> None:
        second = f"127.0.0.22:{self.ports[1]}"
        self.sender.settings.links[0].address = second
        # The system would send from the first address of the interface.
        for listen in (second, f"0.0.0.0:{self.ports[1]}"):
            with self.subTest(listen=listen):
                self.receiver.settings.listen = listen
                self.start()
                self.send(self.sender, "ipn:2.42", 100, 70_000)
                self.take(self.receiver, "ipn:2.42", 100, 70_000)
                self.send(self.receiver, "ipn:1.42", 100, 70_000)
                self.take(self.sender, "ipn:1.42", 100, 70_000)
                for node in (self.sender, self.receiver):
                    until(self, lambda node=node: node.metrics()["dhow_bundles_stored"] == 0)
                    self.assertEqual(node.metrics()["dhow_datagrams_ignored_total"], 0)
                    self.assertEqual(node.stop(), 0)

    def test_green_bundles_are_done_with_when_they_have_left(self) -> None:
        self.set_policy('red = "none"')
        self.start()
        self.exchange(0, 100, 70_000)
        self.receiver.kill()
        self.send(self.sender, "ipn:2.42", 200)
        until(self, lambda: self.sender.metrics()["dhow_bundles_stored"] == 0)

    def test_bundles_cross_with_a_key_that_both_have_and_none_without_it(self) -> None:
        right, wrong = self.directory / "right.key", self.directory / "wrong.key"
        right.write_text("00112233445566778899aabb\n")
        wrong.write_text("ff112233445566778899aabb\n")
        before = self.sender.settings.links[0].policy
        self.set_policy(f'key = "{right}"')
        self.start()
        self.exchange(1, 70_000)
        self.assertEqual(self.sender.metrics()["dhow_datagrams_ignored_total"], 0)
        for policy in (f'key = "{wrong}"\n', ""):
            with self.subTest(policy=policy):
                self.assertEqual(self.sender.stop(), 0)
                self.sender.settings.links[0].policy = before + policy
                ignored = self.receiver.metrics()["dhow_datagrams_ignored_total"]
                self.sender.start()
                self.send(self.sender, "ipn:2.42", 100)
                until(self, lambda: self.receiver.metrics()["dhow_datagrams_ignored_total"] > ignored)
                self.assertGreater(self.sender.metrics()["dhow_bundles_stored"], 0)
        self.assertEqual(self.sender.stop(), 0)
        self.sender.settings.links[0].policy = f'{before}key = "{right}"\n'
        self.sender.start()
        self.take(self.receiver, "ipn:2.42", 100, 100)

    def test_a_reload_takes_up_other_content_of_a_key_with_blocks_under_way(self) -> None:
        files = [self.directory / name for name in ("sender.key", "receiver.key")]
        for node, file in zip((self.sender, self.receiver), files, strict=True):
            file.write_text("00112233445566778899aabb\n")
            node.settings.links[0].policy += f'key = "{file}"\n'
        self.start()
        self.exchange(1)
        files[1].write_text("ff112233445566778899aabb\n")
        [changed] = self.receiver.show("reload")["changed"]
        self.assertEqual((changed["name"], changed["keys"]), ("other", ["key"]))
        ignored = self.receiver.metrics()["dhow_datagrams_ignored_total"]
        for node, to in ((self.sender, "ipn:2.42"), (self.receiver, "ipn:1.42")):
            self.send(node, to, 100)
        until(self, lambda: self.receiver.metrics()["dhow_datagrams_ignored_total"] > ignored)
        self.assertEqual([it.metrics()["dhow_bundles_stored"] for it in (self.sender, self.receiver)], [1, 1])
        files[0].write_text("ff112233445566778899aabb\n")
        self.assertEqual(self.sender.show("reload")["changed"], [changed])
        self.take(self.receiver, "ipn:2.42", 100)
        self.take(self.sender, "ipn:1.42", 100)
        self.assertEqual(self.sender.show("reload")["changed"], [])
        for node in (self.sender, self.receiver):
            self.assertEqual(node.log.read_text().count("session up"), 2)
        files[0].unlink()
        self.assertEqual(self.sender.run("reload").returncode, 1)
        self.exchange(2)

    def test_a_link_with_other_settings_waits_for_blocks_under_way_and_the_log_is_silent(self) -> None:
        self.start()
        self.exchange(1)
        self.receiver.kill()
        self.send(self.sender, "ipn:2.42", 100)
        time.sleep(0.2)
        config = self.sender.directory / "node.toml"
        config.write_text(config.read_text().replace('light_time = "1ms"', 'light_time = "2ms"', 1))
        [changed] = self.sender.show("reload")["changed"]
        self.assertEqual(changed["keys"], ["light_time"])
        time.sleep(1.2)
        self.assertEqual(self.sender.log.read_text().count("session up"), 1)

    @unittest.skipUnless(shutil.which("openssl"), "no openssl command")
    def test_bundles_cross_with_signatures_of_both_nodes_and_none_of_another(self) -> None:
        ends = key_pairs(self.directory, "one", "two", "other")
        before = self.sender.settings.links[0].policy
        self.receiver.settings.links[0].policy += f'key = "{ends("two", "one")}"\n'
        self.sender.settings.links[0].policy = f'{before}key = "{ends("one", "two")}"\n'
        self.start()
        self.exchange(1, 70_000)
        self.assertEqual(self.sender.metrics()["dhow_datagrams_ignored_total"], 0)
        self.assertEqual(self.sender.stop(), 0)
        self.sender.settings.links[0].policy = f'{before}key = "{ends("other", "two")}"\n'
        self.sender.start()
        self.send(self.sender, "ipn:2.42", 100)
        until(self, lambda: self.receiver.metrics()["dhow_datagrams_ignored_total"] > 0)
        self.assertGreater(self.sender.metrics()["dhow_bundles_stored"], 0)

    def test_engines_that_no_link_names_are_ignored_and_those_of_links_may_send_from_any_port(self) -> None:
        self.start()
        # One block of several bundles, from a socket that takes nothing: the form of ION's engines.
        whole = bundle(1, b"one") + bundle(2, b"second")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for engine in (9, 1):
                stranger.sendto(block(engine, 5, whole), ("127.0.0.1", self.ports[1]))
            for first in range(256):
                stranger.sendto(bytes([first]) + b"\xff" * 20, ("127.0.0.1", self.ports[1]))
            stranger.sendto(b"", ("127.0.0.1", self.ports[1]))
            until(self, lambda: self.receiver.metrics()["dhow_datagrams_ignored_total"] == 258)
        until(self, lambda: self.receiver.metrics()["dhow_bundles_received_total"] == 2)
        taken = self.receiver.run(
            "recv", "ipn:2.42", "--count", "2", "--out", str(self.directory / "inbox"), "--timeout", "30s", "--json")
        self.assertEqual(taken.returncode, 0, taken.stderr)
        self.assertEqual([json.loads(line)["octets"] for line in taken.stdout.splitlines()], [3, 6])


def key_pairs(directory: Path, *names: str) -> Callable[[str, str], str]:
    """Makes pairs of keys of RSA; what comes back makes the key file of an end and its peer."""
    for name in names:
        own, public = directory / f"{name}.key", directory / f"{name}.pub"
        subprocess.run(["openssl", "genrsa", "-out", own, "2048"], check=True, capture_output=True)
        subprocess.run(["openssl", "rsa", "-in", own, "-pubout", "-out", public], check=True, capture_output=True)

    def of(own: str, peer: str) -> str:
        path = directory / f"{own}-{peer}.pem"
        path.write_text((directory / f"{own}.key").read_text() + (directory / f"{peer}.pub").read_text())
        return str(path)

    return of


def sdnv(number: int) -> bytes:
    """A number as LTP writes it."""
    digits = [number & 0x7f]
    while number := number >> 7:
        digits.append(number & 0x7f | 0x80)
    return bytes(reversed(digits))


def block(engine: int, session: int, octets: bytes) -> bytes:
    """A red block of client service 1 in one segment (RFC 5326 3.2.1)."""
    numbers = b"".join(map(sdnv, (engine, session)))
    return b"\x03" + numbers + b"\x00" + sdnv(1) + sdnv(0) + sdnv(len(octets)) + sdnv(7) + sdnv(0) + octets


if __name__ == "__main__":
    unittest.main()
