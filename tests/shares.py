"""Limits of neighbours and sources: whoever has used up theirs is refused, and nobody else has less for it."""

import time

from labs.rig.binary import dhow
from labs.rig.node import Link, Node, Settings
from tests.workplace import Exchange

# Seconds within which what was asked for must have happened.
PATIENCE_S = 30.0


class Shares(Exchange):
    """A sender and a second one, which is greedy, at one receiver."""

    def setUp(self) -> None:
        super().setUp()
        self.greedy = Node(self.crew, dhow("debug"), self.directory / "greedy", Settings(
            "ipn:3.0", links=[Link("receiver", self.receiver.settings.listen)], routes=[("ipn:2.*", "receiver")]))

    def begin(self, listen_policy: str, store_policy: str = "") -> None:
        self.receiver.settings.listen_policy = listen_policy
        self.receiver.settings.store_policy = store_policy
        for node in (self.receiver, self.sender, self.greedy):
            node.start()

    def stored(self) -> int:
        return self.receiver.show("status")["store"]["bundles"]

    def until(self, what: str, holds) -> None:
        end = time.monotonic() + PATIENCE_S
        while not holds():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.1)

    def test_a_neighbour_that_fills_its_share_is_refused_and_another_is_not(self) -> None:
        self.begin('held = "100kB"\n')
        for _ in range(5):
            self.send(self.greedy, "ipn:2.42", 40_000)
        self.until("its share is full", lambda: self.receiver.show("status")["counters"]["limited_share"] > 0)
        self.assertEqual(self.stored(), 2)
        self.send(self.sender, "ipn:2.43", 40_000, 50_000)
        self.until("the other's bundles are here", lambda: self.stored() == 4)
        limited = {it["peer"]: it["limited"] for it in self.receiver.show("links")["sessions"]}
        self.assertGreater(limited["ipn:3.0"], 0)
        self.assertEqual(limited["ipn:1.0"], 0)
        self.assertGreater(self.receiver.metrics()["dhow_bundles_limited_share_total"], 0)
        # Its peer is told that there are no resources (RFC 9174 5.2.4), and so is who asks it.
        self.assertIn("full_for_ms", str(self.greedy.show("why", "ipn:2.42")))
        self.assertIn("limited_share", self.receiver.run("status", "--json").stdout)
        self.assertEqual(self.stored(), 4, "the share is kept")
        # Bundles that leave make room: all of them arrive, once.
        self.take(self.receiver, "ipn:2.42", *[40_000] * 5)
        self.take(self.receiver, "ipn:2.43", 40_000, 50_000)

    def test_a_limit_is_taken_up_and_lifted_while_the_node_runs(self) -> None:
        self.begin('held_bundles = 1\n')
        self.send(self.greedy, "ipn:2.42", 1_000, 2_000, 3_000)
        self.until("one is here", lambda: self.stored() == 1)
        config = self.receiver.directory / "node.toml"
        config.write_text(config.read_text().replace("held_bundles = 1", "held_bundles = 2"))
        self.assertEqual(self.receiver.show("reload")["changed"][0]["keys"], ["held_bundles"])
        self.until("two are here", lambda: self.stored() == 2)
        config.write_text(config.read_text().replace("held_bundles = 2\n", ""))
        self.receiver.show("reload")
        self.until("all are here", lambda: self.stored() == 3)

    def test_a_source_that_fills_its_share_is_refused_whoever_brings_it(self) -> None:
        self.begin("", "source_held_bundles = 2\n")
        self.send(self.greedy, "ipn:2.42", 1_000, 2_000, 3_000)
        self.until("its share is full", lambda: self.receiver.show("status")["counters"]["limited_source"] > 0)
        self.send(self.sender, "ipn:2.42", 4_000)
        self.until("another source's is here", lambda: self.stored() == 3)
        self.take(self.receiver, "ipn:2.42", 1_000, 2_000, 3_000, 4_000)

    def test_a_neighbour_above_its_rate_is_slowed_and_loses_nothing(self) -> None:
        self.begin("accept_bundles = 5\n")
        sizes = list(range(1_000, 1_020))
        self.send(self.greedy, "ipn:2.42", *sizes)
        self.send(self.sender, "ipn:2.43", 1_000)
        self.take(self.receiver, "ipn:2.43", 1_000)
        self.until("it brings more than its rate", lambda: self.receiver.show("status")["counters"]["limited_rate"] > 0)
        self.take(self.receiver, "ipn:2.42", *sizes)
