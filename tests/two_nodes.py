"""The whole program: two nodes, a link, files from end to end, by the command line alone."""

import hashlib
import json
from pathlib import Path

from labs.rig.binary import ROOT
from tests.workplace import Workplace


class TwoNodes(Workplace):
    """A sender that dials a receiver."""

    more = '[reports]\ngenerate = ["delivery"]\n'

    def send(self, *words: str) -> list[dict]:
        """`dhow send` at the sender; its records."""
        done = self.sender.run("send", "ipn:2.42", *words, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def recv(self, *words: str) -> list[dict]:
        """`dhow recv` at the receiver; its records."""
        done = self.receiver.run(
            "recv", "ipn:2.42", "--out", str(self.directory / "inbox"), "--timeout", "20s", "--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_perf_ends_where_nobody_answers_and_no_more_may_be_outstanding(self) -> None:
        # The receiver is away: 65,536 bundles wait for it.
        self.sender.start()
        done = self.sender.run("perf", "ipn:2.0", "--count", "100000", "--timeout", "1s", timeout_s=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("no answer from ipn:2.5201 to 65536 bundles", done.stderr)

    def test_what_names_nothing_is_bad_usage_and_what_is_not_there_is_refused(self) -> None:
        self.sender.start()
        for code, words in [(2, ("why", "foo")), (2, ("bundle", "drop", "foo")), (1, ("why", "ipn:1.1/1/1")), (1, ("bundle", "drop", "ipn:1.1/1/1"))]:
            done = self.sender.run(*words)
            self.assertEqual(done.returncode, code, (words, done.stderr))
            self.assertIn("hint: ", done.stderr)

    def test_first_line_says_who_is_ready(self) -> None:
        self.receiver.start()
        self.assertEqual(self.receiver.ready["event"], "ready")
        self.assertEqual(self.receiver.ready["node"], "ipn:2.0")

    def test_file_arrives_as_it_was_sent(self) -> None:
        self.start()
        file = ROOT / "LICENSE"
        self.send(str(file))
        [record] = self.recv("--count", "1", "--sha256")
        self.assertEqual(Path(record["path"]).read_bytes(), file.read_bytes())
        self.assertEqual(record["sha256"], hashlib.sha256(file.read_bytes()).hexdigest())
        self.assertEqual(record["octets"], file.stat().st_size)

    def test_empty_payload_arrives(self) -> None:
        self.start()
        empty = self.directory / "empty"
        empty.touch()
        self.send(str(empty))
        [record] = self.recv("--count", "1")
        self.assertEqual(record["octets"], 0)

    def test_split_file_is_whole_again_in_the_order_of_its_bundles(self) -> None:
        self.start()
        file = ROOT / "Cargo.lock"
        size = file.stat().st_size
        pieces = -(-size // 5_000)
        self.assertEqual(len(self.send(str(file), "--split", "5kB")), pieces)
        records = self.recv("--count", str(pieces))
        joined = b"".join(Path(r["path"]).read_bytes() for r in sorted(records, key=lambda r: r["creation"]))
        self.assertEqual(joined, file.read_bytes())

    def test_bundles_wait_for_a_link_that_is_down(self) -> None:
        self.start()
        self.assertEqual(self.sender.run("link", "down", "receiver").returncode, 0)
        self.send(str(ROOT / "LICENSE"), "--count", "5")
        self.assertEqual(self.sender.run("link", "up", "receiver").returncode, 0)
        self.assertEqual(len(self.recv("--count", "5")), 5)

    def test_bundles_survive_the_death_of_the_node_that_holds_them(self) -> None:
        self.sender.start()
        sent = self.send(str(ROOT / "LICENSE"), "--count", "20")
        self.sender.kill()
        self.start()
        arrived = self.recv("--count", "20")
        self.assertEqual(
            sorted(record["creation"] for record in arrived), sorted(record["creation"] for record in sent))

    def test_wait_ends_when_every_delivery_is_reported(self) -> None:
        # Reports find their way over the session that the sender dialled, without a route of the receiver.
        self.start()
        waiting = self.sender.begin(
            "send", "ipn:2.42", str(ROOT / "LICENSE"), "--count", "3", "--report", "delivery", "--wait",
            "--lifetime", "60s")
        self.recv("--count", "3")
        self.assertEqual(waiting.wait(30), 0)

    def test_ping_is_answered(self) -> None:
        self.start()
        done = self.sender.run("ping", "ipn:2.7", "--count", "3", "--interval", "50ms")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_sigterm_ends_a_node_in_order(self) -> None:
        self.start()
        self.assertEqual(self.sender.stop(), 0)
        self.assertEqual(self.receiver.stop(), 0)

    def test_recv_goes_on_across_a_restart_of_the_node(self) -> None:
        self.start()
        receiving = self.receiver.begin(
            "recv", "ipn:2.42", "--count", "2", "--out", str(self.directory / "inbox"), "--timeout", "30s", "--json")
        self.send(str(ROOT / "LICENSE"))
        self.assertIsNotNone(receiving.line(20))
        self.receiver.kill()
        self.receiver.start()
        self.send(str(ROOT / "Cargo.lock"))
        self.assertIsNotNone(receiving.line(20))
        self.assertEqual(receiving.wait(20), 0)
