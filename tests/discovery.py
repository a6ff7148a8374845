"""Nodes on one network find each other by their beacons, and put up with whatever else is said there."""

import json
import random
import shutil
import socket
import struct
import subprocess
import time
import unittest
from collections.abc import Callable

from labs.rig.binary import dhow
from labs.rig.bridge import Bridge
from labs.rig.network import namespaces_possible
from labs.rig.node import Node, Settings
from tests.workplace import Exchange

GROUP, PORT = "224.0.0.142", 4551

# Beacons of IBR-DTN 1.0.1 and dtn7-rs 0.21 (ibrdtn-ipnd1-epidemic, ibrdtn-dtn2-beacon and dtn7rs-discovery-tcpclv4).
CAPTURED = {
    "ipnd-0x02": ("dtn://disc-b/", "020b00000c64746e3a2f2f646973632d620105746370636c0a706f72743d343535363b02"),
    "dtn2": ("dtn://disc-c/", "010a00180000000011cc000c64746e3a2f2f646973632d63"),
    "cbor": ("dtn://n2/", "8607078201652f2f6e322f00828282637463701911cc82646d746370193f22a002"),
}

# Bounds of one place of discovery (crates/node/src/discovery/place.rs, config.rs).
OF_SOURCE, NEIGHBOURS = 16, 256

PATIENCE_S = 20.0
POLL_S = 0.05


def say(host: str, datagrams: list[bytes], to: str, port: int = PORT, pause_s: float = 0.0, device: str = "eth0") -> None:
    """Sends datagrams from a host by one of its interfaces, as a program of its own."""
    program = (
        "import socket, sys, time\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[4]))\n"
        "for line in sys.stdin:\n"
        "    s.sendto(bytes.fromhex(line.strip()), (sys.argv[1], int(sys.argv[2])))\n"
        "    time.sleep(float(sys.argv[3]))\n")
    address = subprocess.run(
        ["ip", "-n", host, "-json", "address", "show", "dev", device], capture_output=True, text=True, check=True)
    own = next(it["local"] for it in json.loads(address.stdout)[0]["addr_info"] if it["family"] == "inet")
    subprocess.run(
        ["ip", "netns", "exec", host, "python3", "-c", program, to, str(port), str(pause_s), own],
        input="".join(datagram.hex() + "\n" for datagram in datagrams), text=True, check=True, timeout=120)


def beacon(node: str, address: str | None = None, port: int = 4556, period_s: int = 60) -> bytes:
    """A beacon of version 0x04 with one service of TCPCL over IPv4."""
    name = node.encode()
    service = b"\x03" + struct.pack(">H", port) + b"\x04" + socket.inet_aton(address or "0.0.0.0")
    services = bytes([1, 64, len(service)]) + service
    return struct.pack(">BBH", 4, 0x0B, 1) + bytes([len(name)]) + name + services + bytes([period_s])


class Hosts(Exchange):
    """Hosts on one switch, with nodes that have a listener and [[discover]], and nothing else."""

    def setUp(self) -> None:
        super().setUp()
        self.bridge = Bridge(4)
        self.addCleanup(self.bridge.close)
        # Nodes end before their namespaces do.
        self.addCleanup(self.crew.close)
        self.nodes = [self.node(at) for at in range(3)]
        self.sender, self.receiver = self.nodes[0], self.nodes[2]

    def node(self, at: int, more: str = "[[discover]]\n") -> Node:
        """The node of a host."""
        settings = Settings(f"ipn:{at + 1}.0", listen="[::]:4556", more=more)
        return Node(self.crew, dhow("debug"), self.directory / f"node{at + 1}", settings, self.bridge.hosts[at])

    def until(self, what: str, done: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
        """Waits until something holds."""
        begun = time.monotonic()
        while not done():
            self.assertLess(time.monotonic() - begun, patience_s, f"waiting: {what}")
            time.sleep(POLL_S)

    @staticmethod
    def peers(node: Node) -> list[str]:
        """Node IDs of the neighbours that are found and have a session."""
        shown = node.show("neighbours")
        return sorted(it["node_id"] for it in shown if it["origin"] == "found" and it["sessions"] > 0)

    @staticmethod
    def found(node: Node) -> dict[str, dict]:
        """The neighbours that are found, by their node IDs."""
        return {it["node_id"]: it for it in node.show("neighbours") if it["origin"] == "found"}


@unittest.skipIf(namespaces_possible(), f"needs network namespaces: {namespaces_possible()}")
class Discovery(Hosts):
    """Nodes find each other, and put up with strangers."""

    def test_three_nodes_find_each_other_and_exchange_bundles(self) -> None:
        for node in self.nodes:
            node.settings.more += '[[routing]]\nto = "ipn:*.*"\nrouter = "flood"\n'
            node.start()
        for at, node in enumerate(self.nodes):
            others = sorted(f"ipn:{other + 1}.0" for other in range(3) if other != at)
            self.until(f"{node.settings.node_id} has both", lambda n=node, o=others: self.peers(n) == o)
        self.send(self.sender, "ipn:3.42", 0, 100, 70_000)
        self.take(self.receiver, "ipn:3.42", 0, 100, 70_000)
        [second] = [it for it in self.nodes[0].show("neighbours") if it["node_id"] == "ipn:2.0"]
        self.assertEqual(
            (second["address"], second["protocol"], second["format"], second["link"], second["verified"]),
            (f"{self.bridge.address(1)}:4556", "tcpcl", "ipnd-0x04", "found-ipn-2", False))
        self.assertIn("found-ipn-2", self.nodes[0].run("neighbours").stdout)
        told = self.nodes[0].metrics()
        self.assertGreater(told["dhow_beacons_sent_total"], 0)
        self.assertGreaterEqual(told["dhow_neighbours_found_total"], 2)
        # One that is killed is missed after two periods, and one that ends in order says so.
        self.nodes[2].kill()
        self.until("the third is lost", lambda: "ipn:3.0" not in self.found(self.nodes[0]), patience_s=10.0)
        self.assertEqual(self.nodes[1].stop(), 0)
        self.until("the second is lost", lambda: "ipn:2.0" not in self.found(self.nodes[0]), patience_s=10.0)
        self.assertEqual(self.nodes[0].show("links")["links"], [])
        self.nodes[2].start()
        self.until("the third is back", lambda: self.peers(self.nodes[0]) == ["ipn:3.0"])

    def test_a_node_that_comes_is_found_at_once(self) -> None:
        self.nodes[0].start()
        time.sleep(2)
        self.nodes[1].start()
        self.until("it is found", lambda: self.peers(self.nodes[0]) == ["ipn:2.0"], patience_s=5.0)

    def test_all_formats_find_and_are_found(self) -> None:
        for name in ("ipnd-0x01", "ipnd-0x02", "dtn2", "cbor"):
            with self.subTest(name):
                more = f'[[discover]]\nformat = ["{name}"]\naddress = ["{GROUP}:{PORT}"]\n'
                pair = [self.node(at, more) for at in range(2)]
                for node in pair:
                    node.start()
                for node, other in zip(pair, ("ipn:2.0", "ipn:1.0")):
                    self.until("both are found", lambda n=node, o=other: self.peers(n) == [o])
                    self.assertEqual(self.found(node)[other]["format"], name)
                for node in pair:
                    self.assertEqual(node.stop(), 0)

    def test_broadcast_and_unicast_find_too(self) -> None:
        for at, addresses in enumerate((["255.255.255.255:4551"], [f"{self.bridge.address(1)}:4551"], ["[ff02::142]:4551"])):
            with self.subTest(addresses=addresses):
                first = self.node(0, f"[[discover]]\naddress = {json.dumps(addresses)}\n")
                # The other one learns of it by its beacons, and answers.
                other = addresses if at != 1 else [f"{self.bridge.address(2)}:4551"]
                second = self.node(1, f"[[discover]]\naddress = {json.dumps(other)}\n")
                first.start()
                second.start()
                self.until("both are found", lambda: self.peers(first) == ["ipn:2.0"] and self.peers(second) == ["ipn:1.0"])
                self.assertEqual((first.stop(), second.stop()), (0, 0))

    def test_links_without_acknowledgments_are_found_in_both_directions(self) -> None:
        # Beacons of version 0x04 have no name for MTCP.
        for protocol, name in (("udp", "ipnd-0x04"), ("mtcp", "cbor")):
            with self.subTest(protocol):
                like = (f'[[link]]\nname = "like"\nprotocol = "{protocol}"\naddress = "192.0.2.1"\npeer = "ipn:99.0"\n'
                        f'enabled = false\n[[discover]]\nlike = "like"\nformat = ["{name}"]\n')
                pair = [self.node(at, like) for at in range(2)]
                for node in pair:
                    node.settings.listen_protocol = protocol
                    node.start()
                for node, other in zip(pair, ("ipn:2.0", "ipn:1.0")):
                    self.until("both are found", lambda n=node, o=other: self.peers(n) == [o])
                self.send(pair[0], "ipn:2.42", 100)
                self.take(pair[1], "ipn:2.42", 100)
                self.send(pair[1], "ipn:1.42", 100)
                self.take(pair[0], "ipn:1.42", 100)
                self.assertEqual(pair[1].stop(), 0)
                self.until("it is lost", lambda n=pair[0]: not self.found(n))
                self.assertEqual(pair[0].stop(), 0)

    def test_what_other_programs_said_is_heard(self) -> None:
        node = self.node(0, f'[[discover]]\naddress = ["{GROUP}:{PORT}"]\nformat = ["dtn2"]\n')
        node.start()
        said = [bytes.fromhex(octets) for _, octets in CAPTURED.values()]
        say(self.bridge.hosts[3], said, GROUP)
        for name, (peer, _) in CAPTURED.items():
            self.until(f"{peer} is known", lambda p=peer: p in self.found(node))
            self.assertEqual(self.found(node)[peer]["format"], name)
            self.assertEqual(self.found(node)[peer]["address"], f"{self.bridge.address(3)}:4556")

    def test_floods_and_lies_are_bounded_and_counted(self) -> None:
        node, other = self.node(0), self.node(1)
        recording = self.directory / "node.rec"
        node.how = ["--record", str(recording)]
        node.start()
        other.start()
        self.until("the other is found", lambda: self.peers(node) == ["ipn:2.0"])
        stranger = self.bridge.hosts[3]
        # The lies first: behind a flood all that its sender says is too fast.
        lies = [beacon("ipn:1.0"), beacon("ipn:9.0", "224.0.0.1"), beacon("ipn:9.0", "127.0.0.1"), beacon("ipn:9.0", "255.255.255.255")]
        say(stranger, lies, self.bridge.address(0), pause_s=0.001)
        say(stranger, [beacon(f"ipn:{1_000 + at}.0") for at in range(10_000)], self.bridge.address(0), pause_s=0.0003)
        dice = random.Random(9)
        say(stranger, [dice.randbytes(1 + at * 3) for at in range(480)], self.bridge.address(0), pause_s=0.001)
        # Somebody who is elsewhere: the session is with another node.
        say(stranger, [beacon("ipn:77.0", self.bridge.address(1))] * 5, GROUP, pause_s=1.1)
        found = self.found(node)
        self.assertLessEqual(len(found), OF_SOURCE + 1)
        self.assertNotIn("ipn:9.0", found)
        self.assertEqual(self.peers(node), ["ipn:2.0"])
        metrics = node.admin("/metrics")
        for reason in ("malformed", "own", "address", "too_many", "too_fast"):
            [line] = [it for it in metrics.splitlines() if it.startswith(f'dhow_beacons_refused_total{{reason="{reason}"}}')]
            self.assertGreater(float(line.rpartition(" ")[2]), 0, reason)
        self.send(node, "ipn:2.42", 1_000)
        self.take(other, "ipn:2.42", 1_000)
        self.assertEqual((node.stop(), other.stop()), (0, 0))
        replay = subprocess.run(
            [str(node.binary), "sim", "replay", str(recording)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(replay.returncode, 0, replay.stdout + replay.stderr)

    def test_a_lie_about_an_address_is_found_out(self) -> None:
        node, other = self.node(0), self.node(1)
        node.start()
        other.start()
        self.until("the other is found", lambda: self.peers(node) == ["ipn:2.0"])
        lie = beacon("ipn:77.0", self.bridge.address(1), period_s=5)

        def is_exposed() -> bool:
            say(self.bridge.hosts[3], [lie], GROUP)
            lines = node.admin("/metrics").splitlines()
            [line] = [it for it in lines if it.startswith('dhow_beacons_refused_total{reason="identity"}')]
            return float(line.rpartition(" ")[2]) > 0

        self.until("the lie is known for one", is_exposed)
        self.assertEqual(sorted(self.found(node)), ["ipn:2.0"])
        self.assertEqual(self.peers(node), ["ipn:2.0"])


@unittest.skipIf(namespaces_possible(), f"needs network namespaces: {namespaces_possible()}")
class Networks(Exchange):
    """A node on two networks, with an entry for each."""

    def setUp(self) -> None:
        super().setUp()
        self.bridge = Bridge(2, [(0, 1), (0, 1)])
        self.addCleanup(self.bridge.close)
        self.addCleanup(self.crew.close)

    def test_an_entry_hears_what_comes_by_its_interfaces_alone(self) -> None:
        more = "".join(f'[[discover]]\ninterfaces = ["{Bridge.device(at)}"]\nannounce = false\n' for at in (0, 1))
        settings = Settings("ipn:1.0", listen="[::]:4556", more=more)
        node = Node(self.crew, dhow("debug"), self.directory / "node1", settings, self.bridge.hosts[0])
        node.start()
        for network in (0, 1):
            # Both entries have joined the group at one socket.
            said = beacon(f"ipn:{network + 2}.0", Bridge.address(1, network))
            say(self.bridge.hosts[1], [said], GROUP, device=Bridge.device(network))
        Hosts.until(self, "both are known", lambda: len(Hosts.found(node)) == 2)
        time.sleep(1)
        found = [it["link"] for it in node.show("neighbours") if it["origin"] == "found"]
        self.assertEqual(sorted(found), ["found-ipn-2", "found-ipn-3"])


@unittest.skipUnless(shutil.which("dtnd"), "dtn7-rs is not here")
@unittest.skipIf(namespaces_possible(), f"needs network namespaces: {namespaces_possible()}")
class Dtn7(Hosts):
    """dtn7-rs finds a node, and is found."""

    def test_dtn7_rs_and_a_node_find_each_other(self) -> None:
        node = self.node(0, '[[discover]]\naddress = ["224.0.0.26:3003"]\nformat = ["cbor"]\n')
        node.start()
        self.crew.start(
            ["dtnd", "-n", "other", "-C", "tcp", "-d", "-E", "224.0.0.26:3003", "-i", "1s", "-W", str(self.directory / "dtn7")],
            log=self.directory / "dtn7.log", namespace=self.bridge.hosts[1])
        self.until("it is found", lambda: self.peers(node) == ["dtn://other/"])


if __name__ == "__main__":
    unittest.main()
