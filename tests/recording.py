"""A node that is recorded among others, and its recordings replayed."""

import json
import subprocess
import time
from pathlib import Path

from labs.rig.binary import ROOT, dhow
from labs.rig.node import Link, Node, Settings
from tests.workplace import Workplace

# Large enough to be on its way for a while on any machine.
LARGE_OCTETS = 48_000_000


def crc32c(octets: bytes) -> int:
    """CRC-32C (RFC 9260 appendix A), bit by bit."""
    crc = 0xFFFF_FFFF
    for octet in octets:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F6_3B78 if crc & 1 else 0)
    return crc ^ 0xFFFF_FFFF


class Recording(Workplace):
    """A sender, ipn:1.0, and a collector, ipn:3.0, which both dial the recorded receiver, ipn:2.0."""

    more = '[reports]\ngenerate = ["delivery"]\n'

    def setUp(self) -> None:
        super().setUp()
        self.collector = Node(self.crew, dhow("debug"), self.directory / "collector", Settings(
            "ipn:3.0", links=[Link("receiver", f"127.0.0.1:{self.port}")], more=self.more))
        self.sender.settings.routes = [("ipn:*.*", "receiver")]
        self.lives = 0

    def record(self, *more: str) -> Path:
        """Starts the receiver, recorded; the recording."""
        self.lives += 1
        file = self.directory / f"{self.lives}.rec"
        self.receiver.how = ["--record", str(file), *more]
        self.receiver.start()
        return file

    def replay(self, file: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """`dhow sim replay`."""
        return subprocess.run(
            [str(dhow("debug")), "sim", "replay", str(file), *words],
            capture_output=True, text=True, timeout=120, check=False)

    def same(self, file: Path, end: str) -> dict:
        """The output of a replay that does the same to the recording's end."""
        done = self.replay(file, "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual((told["node"], told["end"], told["difference"]), ("ipn:2.0", end, None))
        return told

    def send(self, destination: str, file: Path, *words: str) -> None:
        """`dhow send` at the sender."""
        done = self.sender.run("send", destination, str(file), *words)
        self.assertEqual(done.returncode, 0, done.stderr)

    def recv(self, node: Node, endpoint: str, count: int) -> list[Path]:
        """`dhow recv` at a node; the files."""
        done = node.run(
            "recv", endpoint, "--count", str(count), "--out", str(node.directory / "inbox"), "--timeout", "60s", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [Path(json.loads(line)["path"]) for line in done.stdout.splitlines()]

    def wait_for_octets(self, octets: float) -> None:
        """Until so many have come in at the receiver."""
        deadline = time.monotonic() + 60
        while self.receiver.metrics()["dhow_socket_received_octets_total"] < octets:
            self.assertLess(time.monotonic(), deadline, "nothing comes in")

    def test_node_whose_peer_is_killed_is_replayed_to_the_same_outputs(self) -> None:
        file = self.record()
        self.collector.start()
        self.sender.start()
        self.send("ipn:3.42", ROOT / "LICENSE", "--count", "20")
        self.recv(self.collector, "ipn:3.42", 20)
        large = self.directory / "large"
        large.write_bytes(bytes(range(256)) * (LARGE_OCTETS // 256))
        self.assertEqual(self.sender.run("link", "down", "receiver").returncode, 0)
        self.send("ipn:2.42", large)
        before = self.receiver.metrics()["dhow_socket_received_octets_total"]
        self.sender.link_up("receiver")
        self.wait_for_octets(before + LARGE_OCTETS / 100)
        self.sender.kill()
        self.assertLess(self.receiver.metrics()["dhow_socket_received_octets_total"], before + LARGE_OCTETS, "killed too late")
        self.sender.start()
        [arrived] = self.recv(self.receiver, "ipn:2.42", 1)
        self.assertEqual(arrived.read_bytes(), large.read_bytes())
        self.assertEqual(self.receiver.stop(), 0)
        told = self.same(file, "node")
        self.assertGreater(told["events"], 100)
        self.assertEqual(told, {**self.same(file, "node"), "wall_s": told["wall_s"]})

    def test_payloads_are_in_a_recording_only_where_that_is_asked_for(self) -> None:
        text = b"nobody else is to read this " * 100
        letter = self.directory / "letter"
        letter.write_bytes(text)
        self.sender.start()
        for more in [[], ["--record-payloads"]]:
            file = self.record(*more)
            self.send("ipn:2.42", letter)
            self.recv(self.receiver, "ipn:2.42", 1)
            done = self.receiver.run("send", "ipn:1.9", str(letter))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.recv(self.sender, "ipn:1.9", 1)
            self.assertEqual(self.receiver.stop(), 0)
            self.assertEqual(self.same(file, "node")["payloads"], bool(more))
            self.assertEqual(b"nobody else" in file.read_bytes(), bool(more))

    def test_what_the_node_itself_reads_is_in_its_recording(self) -> None:
        # Its perf service counts by what the payloads say, and reports.
        file = self.record()
        self.sender.start()
        self.assertEqual(self.sender.run("ping", "ipn:2.7", "--count", "3", "--interval", "50ms").returncode, 0)
        done = self.sender.run("perf", "ipn:2.0", "--count", "200")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.receiver.stop(), 0)
        self.same(file, "node")

    def test_recording_with_a_changed_octet_is_refused(self) -> None:
        file = self.record()
        self.sender.start()
        self.send("ipn:2.42", ROOT / "LICENSE")
        self.recv(self.receiver, "ipn:2.42", 1)
        self.assertEqual(self.receiver.stop(), 0)
        self.same(file, "node")
        octets = bytearray(file.read_bytes())
        octets[len(octets) // 2] ^= 1
        rotten = self.directory / "rotten.rec"
        rotten.write_bytes(octets)
        done = self.replay(rotten)
        self.assertEqual(done.returncode, 1)
        self.assertIn("are not what was written", done.stderr)
        self.assertIn("hint:", done.stderr)

    def test_what_is_no_recording_of_this_version_is_refused(self) -> None:
        file = self.record()
        self.sender.start()
        self.send("ipn:2.42", ROOT / "LICENSE")
        self.recv(self.receiver, "ipn:2.42", 1)
        self.assertEqual(self.receiver.stop(), 0)
        whole = file.read_bytes()
        told = whole[:8] + (4).to_bytes(4, "little")
        later = told + crc32c(told).to_bytes(4, "little") + whole[16:]
        self.assertEqual(crc32c(whole[:12]).to_bytes(4, "little"), whole[12:16])
        for octets, code, said, hint in [
            (later, 1, "its format has version 4, and this program reads version 3", "the version of dhow that recorded it"),
            (told + whole[12:], 1, "its head does not match its checksum", None),
            (whole[:15], 1, "it does not begin as a recording does", "'dhow node run --record FILE'"),
            (b"", 1, "it does not begin as a recording does", "'dhow node run --record FILE'"),
            (b"[[node]]\n" * 9, 1, "it does not begin as a recording does", "'dhow node run --record FILE'"),
            (None, 2, "No such file", None),
        ]:
            with self.subTest(said):
                other = self.directory / "other.rec"
                other.unlink(missing_ok=True)
                if octets is not None:
                    other.write_bytes(octets)
                done = self.replay(other)
                self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
                self.assertIn(f"cannot replay {other}: {said}", done.stderr)
                if hint is not None:
                    self.assertIn(f"hint: {hint}", done.stderr)
        # Without its last octet it is that of a node which was killed.
        cut = self.directory / "cut.rec"
        cut.write_bytes(whole[:-1])
        told = self.same(cut, "cut")
        self.assertLess(told["entries"], self.same(file, "node")["entries"])

    def test_recording_of_a_killed_node_is_replayed_as_far_as_it_goes(self) -> None:
        first = self.record()
        self.sender.start()
        self.send("ipn:2.42", ROOT / "LICENSE", "--count", "50")
        self.wait_for_octets(ROOT.joinpath("LICENSE").stat().st_size * 5)
        self.receiver.kill()
        self.assertGreater(self.same(first, "cut")["events"], 3)
        # The store's content at the start is in the recording of the next life.
        second = self.record()
        self.recv(self.receiver, "ipn:2.42", 50)
        self.assertEqual(self.receiver.stop(), 0)
        self.assertGreater(self.same(second, "node")["events"], 50)

    def test_recording_ends_at_its_limit_and_the_node_goes_on(self) -> None:
        self.receiver.how = ["--record", str(self.directory / "short.rec"), "--record-limit", "5kB"]
        self.receiver.start()
        self.sender.start()
        self.send("ipn:2.42", ROOT / "LICENSE", "--count", "20")
        self.recv(self.receiver, "ipn:2.42", 20)
        self.assertEqual(self.receiver.stop(), 0)
        self.assertLessEqual((self.directory / "short.rec").stat().st_size, 5_000)
        self.same(self.directory / "short.rec", "limit")
        self.assertIn("the recording has reached its size limit", self.receiver.last_words(1000))

    def test_no_recording_is_overwritten(self) -> None:
        file = self.directory / "there.rec"
        file.write_text("something")
        done = subprocess.run(
            [str(dhow("debug")), "node", "run", "--config", str(self.config()), "--record", str(file)],
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("hint: no recording is overwritten", done.stderr)
        self.assertEqual(file.read_text(), "something")

    def config(self) -> Path:
        """The receiver's node file."""
        file = self.receiver.directory / "node.toml"
        file.write_text(self.receiver.settings.toml())
        return file
