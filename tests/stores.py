"""Stores that earlier programs wrote: what was in them is there, leaves for where it was to go, and moves to another store."""

import gzip
import hashlib
import json
import struct
import subprocess
from pathlib import Path

from labs.rig.binary import ROOT, dhow
from labs.rig.node import Link, Node, Settings, free_port
from tests.workplace import Workplace

STORES = ROOT / "tests" / "data" / "stores"

# The format that programs write now (docs/store-format.md 2), and the place of its number in each copy of the superblock.
FORMAT = 2
SUPERBLOCKS = (0, 4096)

PATIENCE_S = 60


def payload(octets: int) -> bytes:
    """The payload of so many octets that all of these stores have."""
    return (b"%d " % octets * octets)[:octets]


def digests(sizes: list[int]) -> list[str]:
    return sorted(hashlib.sha256(payload(size)).hexdigest() for size in sizes)


class Stores(Workplace):
    """A node whose store is one of them, and the neighbour that it waits for."""

    def place(self, name: str, directory: str = "node") -> tuple[Node, list[dict]]:
        """A node with the store of a name, and what is in it."""
        address = f"127.0.0.1:{free_port()}"
        node = Node(self.crew, dhow("debug"), self.directory / directory, Settings(
            "ipn:1.0", links=[Link("away", self.receiver.settings.listen)], routes=[("ipn:2.*", "away")], listen=address, quota="2MiB",
            store_policy='segment = "64KiB"\n', more='[reports]\ngenerate = []\n'))
        store = node.directory / "store"
        store.mkdir(mode=0o700)
        (store / "log").write_bytes(gzip.decompress((STORES / f"{name}.log.gz").read_bytes()))
        (node.directory / "node.toml").write_text(node.settings.toml(), encoding="utf-8")
        return node, json.loads((STORES / f"{name}.json").read_text(encoding="utf-8"))

    def names(self) -> list[str]:
        found = sorted(path.name.removesuffix(".log.gz") for path in STORES.glob("*.log.gz"))
        self.assertGreaterEqual(len(found), 3)
        return found

    def of(self, found: list[dict], wanted: list[dict]) -> list[dict]:
        """The bundles found, as far as the list names their fields."""
        return [{key: it[key] for key in like} for it, like in zip(sorted(found, key=lambda it: it["id"]), wanted, strict=True)]

    def store(self, node: Node, *words: str) -> dict:
        command = [str(node.binary), "store", *words, "--config", str(node.directory / "node.toml"), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def take(self, node: Node, endpoint: str, count: int, where: str) -> list[str]:
        taken = node.run("recv", endpoint, "--count", str(count), "--out", str(self.directory / where), "--timeout", "30s", "--sha256", "--json",
                         timeout_s=PATIENCE_S)
        self.assertEqual(taken.returncode, 0, taken.stderr)
        return sorted(json.loads(line)["sha256"] for line in taken.stdout.splitlines())

    def test_all_that_an_earlier_program_stored_is_there_and_arrives(self) -> None:
        for name in self.names():
            with self.subTest(store=name):
                node, wanted = self.place(name, name)
                self.assertEqual(self.store(node, "check")["bundles"], len(wanted))
                node.start()
                self.assertEqual(self.of(node.show("bundles", "--each"), wanted), wanted)
                self.assertEqual(node.metrics()["dhow_bundles_damaged"], 0)
                self.assertEqual(self.take(node, "ipn:1.77", 2, f"{name}-here"), digests([300, 40_000]))
                nothing = node.run("recv", "ipn:1.78", "--timeout", "200ms", "--json", timeout_s=PATIENCE_S)
                self.assertEqual(nothing.stdout, "", "it was confirmed")
                # Once more, and then to the neighbour.
                node.stop()
                node.start()
                left = [it for it in wanted if it["destination"] != "ipn:1.77"]
                self.assertEqual(self.of(node.show("bundles", "--each"), left), left)
                receiver = Node(self.crew, dhow("debug"), self.directory / f"{name}-receiver", self.receiver.settings)
                receiver.start()
                sizes = [it["payload_octets"] for it in left if it["destination"] == "ipn:2.42"]
                self.assertEqual(self.take(receiver, "ipn:2.42", len(sizes), f"{name}-there"), digests(sizes))
                self.assertEqual(self.take(receiver, "ipn:2.43", 1, f"{name}-whole"), digests([3_500]))
                receiver.stop()
                node.stop()

    def test_what_is_written_now_says_the_format_that_is_described(self) -> None:
        for name in self.names():
            with self.subTest(store=name):
                node, _ = self.place(name, name)
                node.start()
                node.stop()
                log = (node.directory / "store" / "log").read_bytes()
                self.assertEqual([struct.unpack_from("<I", log, at + 8)[0] for at in SUPERBLOCKS], [FORMAT, FORMAT])

    def test_an_earlier_store_moves_into_another_as_a_file(self) -> None:
        for name in self.names():
            with self.subTest(store=name):
                node, wanted = self.place(name, name)
                node.start()
                file = self.directory / f"{name}.export"
                self.assertEqual(node.show("store", "export", str(file))["bundles"], len(wanted))
                node.stop()
                heir = Node(self.crew, dhow("debug"), self.directory / f"{name}-heir", node.settings)
                (heir.directory / "node.toml").write_text(heir.settings.toml(), encoding="utf-8")
                self.assertEqual(self.store(heir, "import", str(file))["imported"], len(wanted))
                heir.start()
                self.assertEqual(self.of(heir.show("bundles", "--each"), wanted), wanted)
                heir.stop()

    def test_a_store_of_a_newer_program_is_left_alone(self) -> None:
        node, _ = self.place("format-2")
        log = node.directory / "store" / "log"
        octets = bytearray(log.read_bytes())
        for at in SUPERBLOCKS:
            struct.pack_into("<I", octets, at + 8, FORMAT + 1)
        log.write_bytes(octets)
        done = subprocess.run(
            [str(node.binary), "node", "run", "--config", str(node.directory / "node.toml")], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("run the newer program", done.stderr)
        self.assertEqual(log.read_bytes(), octets)
