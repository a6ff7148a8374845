"""The whole program with bundles in bundles: nodes at both ends of a tunnel, one between them that knows nothing of it, and pyD3TN as a judge."""

import hashlib
import json
import socket
import subprocess

from labs.interop.installation import NotInstalled
from labs.rig.node import Link, Node, Settings
from tests.clients import installed
from tests.stcp import frame, read
from tests.udp import until
from tests.workplace import Exchange

SIZES = [0, 1, 5_000, 70_000, 3_000_000]

# Both ends wait for a signal for so long, and gather theirs for less.
CUSTODY = '[custody]\nretry = "2s"\n'
TUNNEL = 'custody = true\nsignal_delay = "200ms"\n'

# The program by which pyD3TN reads or writes a bundle: an encapsulating one from ipn:1.0 to ipn:3.0, of record type 64443 or 7.
READ = """
import hashlib, json, sys
from pyd3tn.bundle7 import Bundle
outer = Bundle.parse(open(sys.argv[1], "rb").read())
record = Bundle.parse_administrative_record(outer.payload_block.data)
unit = record["record_data"]
inner = Bundle.parse(unit["encapsulated_bundle"])
print(json.dumps({
    "type": int(record["record_type"]), "transmission": unit["transmission_id"], "time": unit["retransmission_time"],
    "to": str(outer.primary_block.destination), "for": str(inner.primary_block.destination),
    "sha256": hashlib.sha256(inner.payload_block.data).hexdigest()}))
"""
WRITE = """
import sys
from pyd3tn.bundle7 import BibeProtocolDataUnit, BlockProcFlag, Bundle, BundleProcFlag, PrimaryBlock, PayloadBlock, create_bundle7
inner = create_bundle7("ipn:1.7", "ipn:3.42", open(sys.argv[1], "rb").read())
unit = BibeProtocolDataUnit(inner, compatibility=sys.argv[3] == "7")
outer = Bundle(PrimaryBlock(bundle_proc_flags=BundleProcFlag.ADMINISTRATIVE_RECORD, source="ipn:1.0", destination="ipn:3.0"), unit)
open(sys.argv[2], "wb").write(bytes(outer))
"""


class Bibe(Exchange):
    """A sender, ipn:1.0, with a tunnel to a far node, ipn:3.0, through a relay, ipn:2.0."""

    more = CUSTODY

    def setUp(self) -> None:
        super().setUp()
        far = Settings("ipn:3.0", more=CUSTODY)
        self.far = Node(self.crew, self.sender.binary, self.directory / "far", far)
        address = self.receiver.settings.listen
        far.links = [Link("relay", address), tunnel("ipn:1.0")]
        far.routes = [("ipn:1.0", "relay"), ("ipn:1.42", "tunnel")]
        self.sender.settings.links.append(tunnel("ipn:3.0"))
        self.sender.settings.routes = [("ipn:3.0", "receiver"), ("ipn:3.42", "tunnel")]

    def start(self) -> None:
        for node in (self.receiver, self.sender, self.far):
            node.start()

    def rest(self) -> None:
        """Nothing is left anywhere, and nobody waits for a signal."""
        for node in (self.sender, self.receiver, self.far):
            until(self, lambda node=node: node.metrics()["dhow_bundles_stored"] == 0)

    def ours(self) -> list[tuple[str, bool]]:
        """The states of the sender's bundles for the far node, and whether it is their custodian."""
        listed = json.loads(self.sender.run("bundles", "--each", "--json").stdout)
        return [(bundle["state"], bundle["custodian"]) for bundle in listed if bundle["destination"] == "ipn:3.42"]

    def test_bundles_cross_both_ways_and_the_relay_sees_none_of_them(self) -> None:
        self.start()
        self.send(self.sender, "ipn:3.42", *SIZES)
        self.send(self.far, "ipn:1.42", *SIZES)
        self.take(self.far, "ipn:3.42", *SIZES)
        self.take(self.sender, "ipn:1.42", *SIZES)
        self.rest()
        sessions = self.sender.show("links")["sessions"]
        [through] = [session for session in sessions if session["link"] == "tunnel"]
        self.assertEqual((through["protocol"], through["bundles_sent"]), ("bibe", len(SIZES)))
        for node in (self.sender, self.receiver, self.far):
            self.assertEqual(node.stop(), 0)

    def test_in_custody_nothing_is_lost_when_each_node_is_killed(self) -> None:
        self.receiver.start()
        self.sender.start()
        self.send(self.sender, "ipn:3.42", *SIZES)
        until(self, lambda: self.ours() == [("awaiting_signal", True)] * len(SIZES))
        for node in (self.receiver, self.sender):
            node.kill()
            node.start()
        self.far.start()
        until(self, lambda: self.far.metrics()["dhow_bundles_stored"] > 0)
        self.far.kill()
        self.far.start()
        self.take(self.far, "ipn:3.42", *SIZES)
        self.rest()

    def test_a_tunnel_is_added_to_a_running_node(self) -> None:
        self.sender.settings.routes = [("ipn:3.0", "receiver")]
        self.sender.settings.links[-1] = tunnel("ipn:9.0")
        self.start()
        refused = self.sender.run("link", "add", "direct", "--like", "receiver")
        self.assertEqual(refused.returncode, 2, refused.stdout)
        self.assertIn("needs an address", refused.stderr)
        refused = self.sender.run("link", "add", "second", "--like", "tunnel", "--peer", "ipn:9.0")
        self.assertEqual(refused.returncode, 2, refused.stdout)
        self.assertIn("leads to ipn:9.0 too", refused.stderr)
        added = self.sender.run("link", "add", "other", "--like", "tunnel", "--peer", "ipn:3.0")
        self.assertEqual(added.returncode, 0, added.stderr)
        self.assertEqual(self.sender.run("route", "add", "ipn:3.*", "--via", "other").returncode, 0)
        self.send(self.sender, "ipn:3.42", 5_000)
        self.take(self.far, "ipn:3.42", 5_000)
        self.rest()

    def judge(self, program: str, *arguments: str) -> str:
        """The output of a program that uses pyD3TN."""
        try:
            python = installed() / "python"
        except NotInstalled as reason:
            self.skipTest(str(reason))
        said = subprocess.run(
            [str(python), "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(said.returncode, 0, said.stderr)
        return said.stdout

    def test_pyd3tn_reads_what_carries_a_bundle(self) -> None:
        for dialect, kind in (("ud3tn", 64_443), ("ion", 7)):
            with self.subTest(dialect=dialect), socket.create_server(("127.0.0.1", 0)) as server:
                self.sender.settings.links = [
                    Link("receiver", "127.0.0.1:%d" % server.getsockname()[1], 'peer = "ipn:2.0"\n', "stcp"),
                    tunnel("ipn:3.0", f'dialect = "{dialect}"\n')]
                self.sender.start()
                self.send(self.sender, "ipn:3.42", 5_000)
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(30)
                    length = 0
                    while length == 0:
                        length = int.from_bytes(read(connection, 4), "big")
                    path = self.directory / "outer"
                    path.write_bytes(read(connection, length))
                said = json.loads(self.judge(READ, str(path)))
                digest = hashlib.sha256(self.payload(5_000).read_bytes()).hexdigest()
                self.assertEqual((said["type"], said["to"], said["for"], said["sha256"]), (kind, "ipn:3.0", "ipn:3.42", digest))
                self.assertGreater(said["transmission"], 0)
                self.assertGreater(said["time"], 0)
                self.sender.kill()

    def test_what_pyd3tn_puts_in_a_bundle_comes_out(self) -> None:
        self.far.settings.listen_protocol, self.far.settings.listen = "mtcp", "127.0.0.1:0"
        self.far.start()
        host, _, port = self.far.address.rpartition(":")
        for octets, kind in ((300, "64443"), (70_000, "7")):
            outer = self.directory / f"outer{kind}"
            self.judge(WRITE, str(self.payload(octets)), str(outer), kind)
            with socket.create_connection((host, int(port))) as stranger:
                stranger.sendall(frame("mtcp", outer.read_bytes()))
            self.take(self.far, "ipn:3.42", octets)


def tunnel(peer: str, more: str = "") -> Link:
    """A link through which bundles leave in others."""
    return Link("tunnel", "", f'peer = "{peer}"\n{TUNNEL}{more}', "bibe")
