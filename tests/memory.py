"""Memory is a quota: names that nobody else has and applications that read nothing fill it, and no more."""

import json
import os
import time

from labs.rig.node import NodeFailed, process_memory
from labs.rig.stranger import NO_RESOURCES, Stranger, bundle
from tests.aap2 import Subscriber, mute_sender
from tests.workplace import Workplace

# Bundles of distinct long names: each takes some thousand octets of memory.
BUNDLES = 3_000

# Octets of memory that a node may have beside its quota, from its start on: the system's buffers, threads, what lies idle.
BESIDE_OCTETS = 24 << 20

# Applications that ask for a bundle of so many octets and do not read it.
SILENT, WAITING_OCTETS = 50, 1 << 20

# So many of them make the node's buffers and threads; the others are to cost less than what they leave unread. Without a common
# bound they cost more than that; with it, what allocator and log happen to hold is still up to three quarters of it.
WARM, SETTLE_S, GAIN_OCTETS = 10, 1.0, 40 << 20

PATIENCE_S = 60.0

# Applications that send until the node takes no more, and read no answer. Each may leave 64 KiB of answers beside those that the node has in
# hand, and holds a buffer that was read into; before they had a bound in common it was some 12 MiB.
GREEDY, GREEDY_OCTETS = 20, 3 << 20


class Memory(Workplace):
    """Attacks on the memory of a node with little of it."""

    def hold(self, memory: str) -> None:
        """The receiver is to have so much memory."""
        self.receiver.settings.node_policy = f'memory = "{memory}"'
        self.receiver.settings.store_policy = 'segment = "1MiB"'

    def stored(self) -> int:
        """Bundles that the receiver holds."""
        return int(self.receiver.metrics()["dhow_bundles_stored"])

    def test_names_that_nobody_else_has_are_refused_and_the_node_starts_again(self) -> None:
        self.hold("4MiB")
        self.receiver.start()
        before = self.receiver.memory_octets()
        stranger = Stranger(self.receiver.address)
        self.addCleanup(stranger.close)
        for number in range(BUNDLES):
            stranger.send(bundle(number))
        stranger.settle()
        self.assertEqual(set(stranger.refused), {NO_RESOURCES})
        self.assertGreater(stranger.taken, 100)
        self.assertGreater(stranger.refused[NO_RESOURCES], BUNDLES // 2)
        self.assertLess(self.receiver.peak_memory_octets() - before, (4 << 20) + BESIDE_OCTETS)
        self.assertIn("[node] memory", self.receiver.last_words(5))
        # An application is told so, too.
        payload = self.directory / "payload"
        payload.write_bytes(b"small")
        refused = self.receiver.run("send", "ipn:9.1", str(payload))
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("memory", refused.stderr)
        self.assertEqual(self.receiver.stop(), 0)
        self.receiver.start()
        self.assertEqual(self.stored(), stranger.taken)

    def test_a_store_that_needs_more_memory_is_not_opened_and_says_how_much(self) -> None:
        self.hold("64MiB")
        self.receiver.start()
        stranger = Stranger(self.receiver.address)
        self.addCleanup(stranger.close)
        for number in range(BUNDLES):
            stranger.send(bundle(number))
        stranger.settle()
        self.assertEqual(stranger.taken, BUNDLES)
        self.assertEqual(self.receiver.stop(), 0)
        self.hold("4MiB")
        with self.assertRaises(NodeFailed):
            self.receiver.start()
        said = self.receiver.last_words(5)
        self.assertIn(f"the index of the {BUNDLES} bundles", said)
        self.assertIn("hint: ", said)
        needed = int(said.partition("needs about ")[2].split()[0])
        self.receiver.program = None
        self.hold(f"{needed}B")
        self.receiver.start()
        self.assertEqual(self.stored(), BUNDLES)

    def test_applications_that_do_not_read_leave_memory_to_one_that_does(self) -> None:
        self.hold("8MiB")
        self.receiver.start()
        payload = self.directory / "payload"
        payload.write_bytes(os.urandom(WAITING_OCTETS))
        for number in range(SILENT + 1):
            sent = self.receiver.run("send", f"ipn:2.{100 + number}", str(payload))
            self.assertEqual(sent.returncode, 0, sent.stderr)
        readers: list[Subscriber] = []
        before = 0
        for number in range(SILENT + 1):
            if number == WARM:
                time.sleep(SETTLE_S)
                before = process_memory(self.receiver.pid, "RssAnon")
            readers.append(Subscriber(self.receiver.socket, f"ipn:2.{100 + number}", 1, PATIENCE_S))
            self.addCleanup(readers[-1].close)
        # The last one is served although nobody before has read.
        self.assertEqual(readers[-1].next().payload, payload.read_bytes())
        gained = process_memory(self.receiver.pid, "RssAnon") - before
        self.assertLess(gained, GAIN_OCTETS, f"{gained >> 20} MiB for {SILENT - WARM} MiB that nobody reads")
        # And whoever reads late gets all of it.
        for reader in readers[:-1]:
            self.assertEqual(reader.next().payload, payload.read_bytes())

    def test_applications_that_do_not_read_their_answers_hold_little(self) -> None:
        self.hold("64MB")
        self.receiver.start()
        before = self.receiver.memory_octets()
        greedy = [mute_sender(self.receiver.socket, f"ipn:2.{500 + number}") for number in range(GREEDY)]
        for application in greedy:
            self.addCleanup(application.close)
        taken = self.receiver.peak_memory_octets() - before
        self.assertLess(taken, (64 << 20) + BESIDE_OCTETS, f"{taken >> 20} MiB")
        self.assertLess(taken, GREEDY * GREEDY_OCTETS + BESIDE_OCTETS, f"{taken >> 20} MiB")
        # One that reads is served beside them.
        payload = self.directory / "payload"
        payload.write_bytes(b"small")
        sent = self.receiver.run("send", "ipn:2.42", str(payload))
        self.assertEqual(sent.returncode, 0, sent.stderr)

    def test_bundles_of_a_store_in_memory_are_part_of_the_quota(self) -> None:
        self.hold("64MiB")
        self.receiver.settings.store_policy = ""
        self.receiver.settings.durability = "memory"
        self.receiver.start()
        before = self.receiver.memory_octets()
        payload = self.directory / "payload"
        payload.write_bytes(os.urandom(1 << 20))
        sent = 0
        while (done := self.receiver.run("send", "ipn:9.1", str(payload))).returncode == 0 and sent < 64:
            sent += 1
        self.assertIn("[node] memory has for", done.stderr)
        self.assertIn("[node] memory has room for", self.receiver.last_words(50))
        self.assertGreaterEqual(sent, 20)
        self.assertLess(self.receiver.peak_memory_octets() - before, (64 << 20) + BESIDE_OCTETS)
        # They can be dropped, and as many have room again.
        bundles = json.loads(self.receiver.admin("/v1/bundles"))
        self.assertEqual(len(bundles), sent)
        for bundle in bundles:
            self.assertEqual(self.receiver.run("bundle", "drop", bundle["id"]).returncode, 0)
        for _ in range(sent - 1):
            again = self.receiver.run("send", "ipn:9.1", str(payload))
            self.assertEqual(again.returncode, 0, again.stderr)
