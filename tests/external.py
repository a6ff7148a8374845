"""Programs that are a part of a node (docs/external.md): the examples of the documents, run for real and killed in the middle."""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

from docs.examples.dhow_external import Connection
from labs.rig.binary import ROOT, dhow
from labs.rig.crew import Program
from labs.rig.node import Link, Node, Settings, free_port
from tests.workplace import Workplace

EXAMPLES = ROOT / "docs" / "examples"


class Line(Workplace):
    """Nodes 1, 2 and 3 in a line, whose routers are programs."""

    policy = ""

    def setUp(self) -> None:
        super().setUp()
        ports = [free_port() for _ in range(3)]
        binary = dhow("debug")
        more = f'[external]\nsocket = "external.sock"\n{self.policy}\n' \
            '[[routing]]\nto = "ipn:*"\nrouter = "program"\nprogram = "hops"\n'
        self.nodes = [
            Node(self.crew, binary, self.directory / f"node{number}", Settings(
                f"ipn:{number}.0", f"127.0.0.1:{ports[number - 1]}", more=more,
                links=[Link("next", f"127.0.0.1:{ports[number]}")] if number < 3 else [],
                routes=[("ipn:3.*", "next")] if number == 1 else []))
            for number in (1, 2, 3)
        ]
        self.sender, self.receiver = self.nodes[0], self.nodes[2]

    def start(self) -> None:
        for node in self.nodes:
            node.start()

    def router(self, node: Node) -> Program:
        """The example, at a node."""
        argv = [sys.executable, str(EXAMPLES / "hops_router.py"), str(node.directory / "external.sock")]
        return self.crew.start(argv, log=self.directory / "router.log")

    def send(self, count: int) -> None:
        done = self.sender.run("send", "ipn:3.42", str(ROOT / "LICENSE"), "--count", str(count), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)

    def recv(self, count: int) -> None:
        done = self.receiver.run(
            "recv", "ipn:3.42", "--out", str(self.directory / "inbox"), "--count", str(count), "--timeout", "30s", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)

    def state(self, node: Node) -> dict:
        """The node's router."""
        return json.loads(node.run("status", "--json").stdout)["routers"]["hops"]

    def forwarded(self) -> int:
        """Bundles that neighbours of the sender took."""
        return json.loads(self.sender.run("status", "--json").stdout)["counters"]["forwarded"]

    def until(self, what: str, done) -> None:
        deadline = time.monotonic() + 30
        while not done():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)


class Routers(Line):
    """The example at each node."""

    def test_routers_find_the_way_and_one_that_is_killed_loses_nothing(self) -> None:
        self.start()
        routers = [self.router(node) for node in self.nodes]
        self.send(50)
        self.recv(50)
        # Without its router bundles wait at node 1, and everybody can see for what.
        routers[0].process.kill()
        self.until("the router is gone", lambda: not self.state(self.sender)["connected"])
        self.send(100)
        self.assertEqual(self.state(self.sender)["undecided"], 100)
        listed = self.sender.run("bundles", "--each", "5", "--json")
        self.assertIn('"awaiting_router"', listed.stdout)
        routers[0] = self.router(self.sender)
        # The router in the middle dies while they come.
        self.until("some have left", lambda: self.state(self.sender)["undecided"] < 100)
        routers[1].process.kill()
        routers[1] = self.router(self.nodes[1])
        self.recv(100)
        # A node that dies and comes again finds its router again, and forgets no bundle.
        routers[0].process.kill()
        self.send(20)
        self.sender.kill()
        self.sender.start()
        routers[0] = self.router(self.sender)
        self.recv(20)
        self.until("all are gone", lambda: self.forwarded() >= 20)


class Hostile(Line):
    """A router that is no good, beside routes that are."""

    policy = 'answer_timeout = "1s"\nfallback = "2s"\n'

    def test_routers_that_say_nothing_or_nonsense_delay_bundles_and_lose_none(self) -> None:
        self.start()
        path = str(self.sender.directory / "external.sock")
        silent = Connection(path, "router", "hops")
        self.send(10)
        # The answers do not come: it is cut off, and the bundles go by the route after a while.
        with self.assertRaises(EOFError):
            while True:
                last = list(silent.hear()) or last
        self.assertEqual(last[-1][0], 7)
        for nonsense in (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\2\x81\x63", b"GET / HTTP/1.1\r\n\r\n"):
            talker = Connection(path, "router", "hops")
            talker.socket.sendall(nonsense)
            with self.assertRaises(EOFError):
                while True:
                    list(talker.hear())
        flood = Connection(path, "router", "hops")
        for number in range(20_000):
            flood.say(16, number + 1_000, 0, ["ipn:2.0"])
        self.until("they were counted", lambda: self.state(self.sender)["stale"] == 20_000)
        flood.socket.close()
        self.until("all left by the route", lambda: self.forwarded() >= 10)
        node = json.loads(self.sender.run("status", "--json").stdout)
        self.assertEqual(node["counters"]["fallbacks"], 10)
        self.assertEqual(node["counters"]["programs_ended"], 5)
        for node in self.nodes[1:]:
            self.router(node)
        self.recv(10)


class Sneakernet(Workplace):
    """Two nodes between which somebody carries files."""

    more = '[external]\nsocket = "external.sock"\n'

    def setUp(self) -> None:
        super().setUp()
        # The neighbour is there by its node ID: no link, and no route.
        self.sender.settings.links, self.sender.settings.routes = [], []
        self.there, self.back = self.directory / "there", self.directory / "back"
        self.there.mkdir()
        self.back.mkdir()

    def layer(self, node: Node, peer: str, outbox: Path, inbox: Path) -> Program:
        """The example, at a node."""
        socket = node.directory / "external.sock"
        argv = [sys.executable, str(EXAMPLES / "sneakernet.py"), *map(str, (socket, peer, outbox, inbox))]
        return self.crew.start(argv, log=self.directory / "layer.log")

    def test_bundles_travel_as_files_and_programs_that_are_killed_lose_none(self) -> None:
        self.start()
        large = self.directory / "large"
        large.write_bytes(os.urandom(8 << 20))
        files = [ROOT / "LICENSE", ROOT / "Cargo.lock", large]
        layer = self.layer(self.sender, "ipn:2.0", self.there, self.back)
        for file in files:
            done = self.sender.run("send", "ipn:2.42", str(file), "--count", "20")
            self.assertEqual(done.returncode, 0, done.stderr)
        # Killed while it writes, twice: what it had not answered for comes again.
        for count in (5, 30):
            self.until(lambda count=count: len(list(self.there.glob("*.bundle"))) >= count)
            layer.process.kill()
            layer = self.layer(self.sender, "ipn:2.0", self.there, self.back)
        self.until(lambda: self.stored(self.sender) == 0)
        reader = self.layer(self.receiver, "ipn:1.0", self.back, self.there)
        # Killed while it reads, and its node with it.
        self.until(lambda: self.stored(self.receiver) >= 10)
        reader.process.kill()
        self.receiver.kill()
        self.receiver.start()
        self.layer(self.receiver, "ipn:1.0", self.back, self.there)
        done = self.receiver.run("recv", "ipn:2.42", "--out", str(self.directory / "inbox"), "--count", "60",
                                 "--timeout", "60s", "--sha256", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        arrived = sorted(json.loads(line)["sha256"] for line in done.stdout.splitlines())
        sent = sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files for _ in range(20))
        self.assertEqual(arrived, sent)
        self.until(lambda: not list(self.there.glob("*.bundle")))
        self.assertIn('"program"', self.sender.run("links", "--json").stdout)
        # The way back.
        done = self.receiver.run("send", "ipn:1.42", str(ROOT / "LICENSE"))
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.sender.run("recv", "ipn:1.42", "--out", str(self.directory / "outbox"), "--count", "1", "--timeout", "30s")
        self.assertEqual(done.returncode, 0, done.stderr)

    def stored(self, node: Node) -> int:
        return json.loads(node.run("status", "--json").stdout)["store"]["bundles"]

    def until(self, done) -> None:
        deadline = time.monotonic() + 60
        while not done():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
