"""A store as a file: what a node holds leaves while it runs, and is there once where it is imported."""

import json
import random
import subprocess
import threading
from pathlib import Path

from labs.rig.binary import dhow
from labs.rig.node import Link, Node, Settings
from tests.workplace import Exchange

# Octets of damage that a test makes at a time.
TRIES = 40


class StoreFile(Exchange):
    """The sender's bundles wait for a receiver that is away; another node of the same ID gets them."""

    def setUp(self) -> None:
        super().setUp()
        self.file = self.directory / "backup"
        self.heir = Node(self.crew, dhow("debug"), self.directory / "heir", Settings(
            "ipn:1.0", links=[Link("receiver", self.receiver.settings.listen)], routes=[("ipn:2.*", "receiver")]))
        self.config = self.heir.directory / "node.toml"
        self.config.write_text(self.heir.settings.toml())

    def import_(self, file: Path, config: Path | None = None) -> subprocess.CompletedProcess[str]:
        words = [str(self.sender.binary), "store", "import", str(file), "--config", str(config or self.config), "--json"]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)

    def check(self, config: Path) -> subprocess.CompletedProcess[str]:
        words = [str(self.sender.binary), "store", "check", "--config", str(config), "--json"]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)

    def export(self) -> dict:
        return self.sender.show("store", "export", str(self.file))

    def test_bundles_move_to_another_machine_and_arrive_once(self) -> None:
        self.sender.start()
        sizes = [0, 1, 1_000, 100_000, 3_000_000, 20_000_000]
        self.send(self.sender, "ipn:2.42", *sizes)
        here = self.sender.run("send", "ipn:1.77", str(self.payload(5_000)), "--priority", "bulk", "--lifetime", "1h")
        self.assertEqual(here.returncode, 0, here.stderr)
        before = {it["id"]: it for it in self.sender.show("bundles", "--each")}
        exported = self.export()
        self.assertEqual((exported["bundles"], exported["gone"], exported["damaged"]), (7, 0, 0))
        self.assertEqual(self.file.stat().st_mode & 0o077, 0, "nobody else reads it")
        self.assertEqual(self.sender.run("store", "export", str(self.file)).returncode, 1, "it is not overwritten")
        self.sender.kill()
        for expected in [(7, 0, exported["octets"]), (0, 7, 0)]:
            done = self.import_(self.file)
            self.assertEqual(done.returncode, 0, done.stderr)
            answer = json.loads(done.stdout)
            self.assertEqual((answer["imported"], answer["known"], answer["octets"]), expected)
        self.assertEqual(self.check(self.config).returncode, 0)
        self.heir.start()
        after = {it["id"]: it for it in self.heir.show("bundles", "--each")}
        self.assertEqual(set(before), set(after))
        for name, bundle in before.items():
            now = after[name]
            self.assertEqual([bundle.get(key) for key in ("priority", "octets", "destination")], [now.get(key) for key in ("priority", "octets", "destination")])
            self.assertLess(abs(bundle["expires_in_ms"] - now["expires_in_ms"]), 60_000)
        self.receiver.start()
        self.take(self.receiver, "ipn:2.42", *sizes)
        self.take(self.heir, "ipn:1.77", 5_000)

    def test_an_export_under_load_has_every_bundle_that_was_acknowledged_before(self) -> None:
        self.sender.start()
        sizes = list(range(10_000, 10_200))
        self.send(self.sender, "ipn:2.42", *sizes)
        load = threading.Thread(target=lambda: self.sender.run("send", "ipn:2.43", str(self.payload(30_000)), "--count", "400"))
        load.start()
        exported = self.export()
        load.join()
        self.assertGreaterEqual(exported["bundles"], 200)
        self.sender.kill()
        self.assertEqual(self.import_(self.file).returncode, 0)
        self.heir.start()
        self.receiver.start()
        self.take(self.receiver, "ipn:2.42", *sizes)

    def test_files_that_are_cut_or_damaged_or_made_up_change_nothing(self) -> None:
        self.sender.start()
        self.send(self.sender, "ipn:2.42", 1_000, 50_000)
        self.export()
        whole = self.file.read_bytes()
        bad = self.directory / "bad"
        entropy = random.Random(1)
        made = [b"", b"x", whole[:16], whole[:-1], whole + b"", whole[:len(whole) // 2], bytes(1 << 16), whole[:16] + b"\x02\xff\xff\xff\xff" + bytes(64)]
        made.remove(whole)
        for _ in range(TRIES):
            at = entropy.randrange(len(whole))
            made.append(whole[:at] + bytes([whole[at] ^ (1 << entropy.randrange(8))]) + whole[at + 1:])
        for octets in made:
            bad.write_bytes(octets)
            done = self.import_(bad)
            self.assertEqual(done.returncode, 1, f"{len(octets)}: {done.stdout}")
            self.assertIn("cannot be imported", done.stderr)
            self.assertFalse((self.heir.directory / "store").exists(), "nothing was made")
        # A store that is in use gets nothing.
        running = self.import_(self.file, self.sender.directory / "node.toml")
        self.assertEqual(running.returncode, 1)
        self.assertIn("stop the node", running.stderr)
        self.assertEqual(self.check(self.sender.directory / "node.toml").returncode, 1)

    def test_an_import_without_room_is_all_undone(self) -> None:
        self.sender.start()
        self.send(self.sender, "ipn:2.42", 2_000_000, 3_000_000)
        self.export()
        self.config.write_text(self.config.read_text().replace('quota = "4GiB"', 'quota = "1MiB"'))
        done = self.import_(self.file)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the quota is 1048576", done.stderr)
        self.assertFalse((self.heir.directory / "store").exists())

    def test_damage_is_found_with_its_place(self) -> None:
        self.sender.start()
        self.send(self.sender, "ipn:2.42", 500_000, 600_000)
        self.sender.stop()
        config = self.sender.directory / "node.toml"
        sound = self.check(config)
        self.assertEqual(sound.returncode, 0, sound.stderr)
        self.assertEqual(json.loads(sound.stdout)["bundles"], 2)
        log = self.sender.directory / "store" / "log"
        octets = bytearray(log.read_bytes())
        payload = self.payload(600_000).read_bytes()
        at = octets.find(payload[300_000:300_064])
        self.assertGreater(at, 0)
        octets[at] ^= 1
        log.write_bytes(octets)
        damaged = self.check(config)
        self.assertEqual(damaged.returncode, 1)
        answer = json.loads(damaged.stdout)
        self.assertFalse(answer["sound"])
        [damage] = answer["damage"]
        self.assertLessEqual(damage["position"], at)
        self.assertIn("checksum", damage["reason"])

        # The node that runs gives it as it is, and whoever reads that finds it out.
        self.sender.start()
        running = self.sender.run("store", "check", "--json")
        self.assertEqual(running.returncode, 1, running.stderr)
        answer = json.loads(running.stdout)
        found = len(answer["damage"]) + answer["quarantined"]
        self.assertEqual((answer["sound"], found), (False, 1))
        done = self.sender.run("store", "export", str(self.file), "--json")
        self.assertEqual(done.returncode, 1, "what is damaged is told when it can still be mended")
        exported = json.loads(done.stdout)
        self.assertEqual(len(exported["damage"]) + exported["damaged"], 1)
        self.sender.stop()
        stopped = self.export_stopped(self.directory / "stopped")
        self.assertEqual((stopped.returncode, json.loads(stopped.stdout)["damaged"]), (1, 1))
        done = self.import_(self.file)
        taken = json.loads(done.stdout)
        self.assertEqual(taken["imported"] + taken["damaged"] + exported["damaged"], 2)
        self.assertEqual(taken["imported"], 1)

    def export_stopped(self, file: Path) -> subprocess.CompletedProcess[str]:
        words = [str(self.sender.binary), "store", "export", str(file), "--config", str(self.sender.directory / "node.toml"), "--json"]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)

    def test_a_node_that_was_stopped_leaves_as_it_is(self) -> None:
        self.start()
        self.send(self.sender, "ipn:2.42", 1_000, 2_000_000)
        self.take(self.receiver, "ipn:2.42", 1_000, 2_000_000)
        self.send(self.sender, "ipn:9.1", 0, 1, 100_000, 5_000_000)
        done = self.export_stopped(self.file)
        self.assertEqual(done.returncode, 1)
        self.assertIn("stop the node that uses it first", done.stderr)
        self.sender.stop()
        done = self.export_stopped(self.file)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual((answer["node"], answer["bundles"], answer["damaged"]), ("ipn:1.0", 4, 0))
        taken = self.import_(self.file)
        self.assertEqual(json.loads(taken.stdout)["imported"], 4, taken.stderr)
        self.heir.start()
        self.assertEqual(self.heir.show("status")["store"]["bundles"], 4)

    def test_exports_one_behind_the_other_are_none(self) -> None:
        self.sender.start()
        self.send(self.sender, "ipn:2.42", 1_000)
        self.export()
        once = self.file.read_bytes()
        for more in [once, b"x", b"\n"]:
            self.file.write_bytes(once + more)
            done = self.import_(self.file)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertIn("octets follow its end", done.stderr)

    def test_a_running_node_is_checked_and_works_on(self) -> None:
        self.start()
        self.send(self.sender, "ipn:9.1", 0, 1, 100_000, 5_000_000)
        done = self.sender.run("store", "check", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual((answer["sound"], answer["bundles"], answer["damage"]), (True, 4, []))
        self.send(self.sender, "ipn:2.42", 1_000)
        self.take(self.receiver, "ipn:2.42", 1_000)

    def test_an_import_onto_a_full_disk_is_undone(self) -> None:
        self.sender.start()
        self.send(self.sender, "ipn:2.42", 3_000_000, 4_000_000, 5_000_000)
        self.export()
        store = self.heir.directory / "store"
        store.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=9M", "tmpfs", str(store)], capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            self.skipTest(f"no tmpfs can be mounted: {mounted.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", str(store)], check=False, timeout=60)
        self.config.write_text(self.config.read_text().replace('quota = "4GiB"', 'quota = "16MiB"'))
        done = self.import_(self.file)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("nothing was imported", done.stderr)
        sound = self.check(self.config)
        self.assertEqual(sound.returncode, 0, sound.stderr)
        self.assertEqual(json.loads(sound.stdout)["bundles"], 0)

    def test_a_store_that_was_full_once_gives_the_disk_back(self) -> None:
        self.start()
        self.send(self.sender, "ipn:9.1", 1_000, 2_000)
        for _ in range(5):
            self.send(self.sender, "ipn:2.42", 30_000_000)
        self.take(self.receiver, "ipn:2.42", *[30_000_000] * 5)
        config = self.sender.directory / "node.toml"
        running = subprocess.run([str(self.sender.binary), "store", "compact", "--config", str(config)], capture_output=True, text=True, check=False)
        self.assertEqual(running.returncode, 1)
        self.assertIn("stop the node", running.stderr)
        before = sorted(it["id"] for it in self.sender.show("bundles", "--each"))
        self.sender.stop()
        done = subprocess.run([str(self.sender.binary), "store", "compact", "--config", str(config), "--json"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertGreater(answer["disk_octets_before"], 60_000_000)
        self.assertLess(answer["disk_octets"], 8 << 20)
        self.assertEqual(sorted(path.name for path in self.sender.directory.glob("store*")), ["store"])
        self.assertEqual(self.check(config).returncode, 0)
        self.sender.start()
        self.assertEqual(sorted(it["id"] for it in self.sender.show("bundles", "--each")), before)

    def test_a_node_with_one_small_bundle_takes_little_of_the_disk(self) -> None:
        self.sender.start()
        self.send(self.sender, "ipn:2.42", 1_000)
        blocks = sum(path.stat().st_blocks for path in (self.sender.directory / "store").iterdir())
        self.assertLessEqual(blocks * 512, 8 << 20, "octets on the disk")
