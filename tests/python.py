"""The Python package `dhow` beside nodes that run, go away and come back, and beside servers that are none."""

import asyncio
import inspect
import io
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path

from labs.rig.binary import ROOT, dhow as binary
from labs.rig.crew import Crew
from labs.rig.node import Link, Node, Settings, free_port
from tests.workplace import Workplace

sys.path.insert(0, str(ROOT / "python"))

import dhow  # noqa: E402
from dhow import aio, cbor, chunk, report, wire  # noqa: E402
from dhow.address import Address, parse  # noqa: E402

# A step takes no longer than this, seconds; a machine that is busy with something else included.
PATIENCE_S = 60.0

ENDPOINT = "ipn:2.42"


class Applications(Workplace):
    """Applications in Python at two nodes."""

    more = '[reports]\ngenerate = ["reception", "forward", "delivery", "deletion"]\n'

    def setUp(self) -> None:
        super().setUp()
        self.start()
        self.here = self.enterContext(dhow.connect(self.sender.socket))
        self.there = self.enterContext(dhow.connect(self.receiver.socket))

    def deliveries(self, endpoint: str = ENDPOINT, **words: object) -> dhow.Subscription:
        """Deliveries at the receiver."""
        return self.enterContext(self.there.receive(endpoint, timeout=PATIENCE_S, **words))

    def test_a_bundle_arrives_with_its_identity(self) -> None:
        for wrong in ("urgent", "expedited:", "expedited:255", "expedited:-1", "expedited:+1"):
            with self.assertRaises(ValueError):
                self.here.send(ENDPOINT, b"", priority=wrong)
        bundle = self.here.send(ENDPOINT, b"hello", lifetime=90, priority="expedited:7")
        delivery = next(self.deliveries())
        self.assertEqual((delivery.id, delivery.source, delivery.destination), (bundle, self.here.endpoint, ENDPOINT))
        self.assertEqual((delivery.size, delivery.lifetime_s, delivery.version, delivery.priority), (5, 90.0, 7, "expedited:7"))
        self.assertEqual(delivery.read(), b"hello")
        delivery.confirm()

    def test_payloads_are_octets_paths_and_files_of_any_kind(self) -> None:
        octets = random.Random(1).randbytes(3_000_000)
        path = self.directory / "payload"
        path.write_bytes(octets)
        with path.open("rb") as part, subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE) as pipe:
            part.seek(1_000_000)
            for payload in (memoryview(octets), path, part, pipe.stdout, b""):
                self.here.send(ENDPOINT, payload)
        deliveries = self.deliveries()
        for expected in (octets, octets, octets[1_000_000:], octets, b""):
            with next(deliveries) as delivery:
                saved = delivery.save(self.directory / "saved")
                self.assertEqual(saved.read_bytes(), expected)
        with self.assertRaises(TypeError):
            self.here.send(ENDPOINT, "a text")  # type: ignore[arg-type]

    def test_a_payload_may_be_read_in_parts_or_left(self) -> None:
        octets = random.Random(2).randbytes(2_500_000)
        for _ in range(2):
            self.here.send(ENDPOINT, octets)
        deliveries = self.deliveries()
        with next(deliveries) as left:
            self.assertEqual(left.read(7), octets[:7])
        with next(deliveries) as taken:
            file = io.BytesIO(taken.read(1_000_001))
            file.seek(0, os.SEEK_END)
            self.assertEqual(taken.copy_to(file), len(octets) - 1_000_001)
            self.assertEqual((file.getvalue(), taken.read()), (octets, b""))

    def test_what_a_block_fails_with_is_delivered_again(self) -> None:
        self.here.send(ENDPOINT, b"again")
        deliveries = self.deliveries()
        with self.assertRaises(ZeroDivisionError), next(deliveries):
            raise ZeroDivisionError
        with next(deliveries) as delivery:
            self.assertEqual(delivery.read(), b"again")
        self.assertIsNone(deliveries.next(0.2))

    def test_an_iteration_that_is_left_gives_the_rest_to_the_next(self) -> None:
        for number in range(40):
            self.here.send(ENDPOINT, b"%d" % number)
        came = []
        for _ in range(40):
            for delivery in self.there.receive(ENDPOINT, timeout=PATIENCE_S):
                with delivery:
                    came.append(int(delivery.read()))
                break
        self.assertEqual(sorted(came), list(range(40)))

    def test_deliveries_that_nobody_answers_are_told_of(self) -> None:
        for _ in range(3):
            self.here.send(ENDPOINT, b"small")
        deliveries = self.deliveries(window=2)
        next(deliveries), next(deliveries)
        with self.assertRaisesRegex(dhow.DhowError, "neither confirmed nor declined"):
            next(deliveries)

    def test_a_subscription_outlives_a_restart_of_the_node(self) -> None:
        self.here.send(ENDPOINT, b"before")
        deliveries = self.deliveries()
        with next(deliveries) as delivery:
            self.assertEqual(delivery.read(), b"before")
        self.receiver.kill()
        self.here.send(ENDPOINT, b"after")
        with self.assertRaises(dhow.Disconnected):
            deliveries.next(0.3)
        self.receiver.start()
        with next(deliveries) as delivery:
            self.assertEqual(delivery.read(), b"after")

    def test_a_bundle_is_sent_to_a_node_that_restarts(self) -> None:
        self.sender.kill()
        sending = threading.Thread(target=self.here.send, args=(ENDPOINT, b"late"))
        sending.start()
        self.sender.start()
        sending.join()
        with next(self.deliveries()) as delivery:
            self.assertEqual(delivery.read(), b"late")

    def test_many_bundles_are_sent_without_waiting_for_each_and_across_a_restart(self) -> None:
        def payloads() -> Iterator[bytes]:
            for number in range(2000):
                if number == 1200:
                    self.sender.kill()
                    self.sender.start()
                yield b"%d" % number

        ids = self.here.send_all(ENDPOINT, payloads())
        self.assertEqual(len(set(ids)), 2000)
        came: set[int] = set()
        for delivery in self.deliveries(window=1024):
            with delivery:
                came.add(int(delivery.read()))
            if len(came) == 2000:
                break

    def test_the_first_of_many_that_is_refused_is_told(self) -> None:
        with self.assertRaises(dhow.Refused):
            self.here.send_all("nonsense", [b"1", b"2", b"3"])
        with self.assertRaises(dhow.PayloadError):
            self.here.send_all(ENDPOINT, [b"1", self.directory / "nothing"])
        self.assertEqual(len(self.here.send_all(ENDPOINT, [b"4", b"5"])), 2)
        self.assertEqual(self.here.send_all(ENDPOINT, []), [])

    def test_the_loss_of_a_node_within_a_payload_is_no_failure_of_the_application(self) -> None:
        octets = random.Random(3).randbytes(20_000_000)
        self.here.send(ENDPOINT, octets)
        deliveries = self.deliveries()
        with next(deliveries) as delivery:
            delivery.read(10)
            self.receiver.kill()
            delivery.read()
            self.fail("the rest of the payload came from nowhere")
        self.receiver.start()
        with next(deliveries) as delivery:
            self.assertEqual(delivery.read(), octets)

    def test_a_file_is_there_as_a_whole_or_not_at_all(self) -> None:
        self.here.send(ENDPOINT, b"x" * 2_000_000)
        deliveries = self.deliveries()
        with self.assertRaises(FileNotFoundError), next(deliveries) as delivery:
            delivery.save(self.directory / "nowhere" / "file")
        place = self.directory / "place"
        place.mkdir()
        with next(deliveries) as delivery:
            delivery.save(place / ("f" * 255))
        self.assertEqual([(path.name, path.stat().st_size) for path in place.iterdir()], [("f" * 255, 2_000_000)])

    def test_reports_come_to_the_source(self) -> None:
        bundle = self.here.send(ENDPOINT, b"report", report="delivery")
        with next(self.deliveries()) as delivery:
            delivery.read()
        told = next(self.here.reports(timeout=PATIENCE_S))
        self.assertEqual((told.bundle, told.reporter), (bundle, "ipn:2.0"))
        self.assertEqual(list(told.events), ["delivery"])
        self.assertIsNotNone(told.events["delivery"])
        self.assertEqual(told.reason_text, "no additional information")

    def test_streams_go_both_ways_between_python_and_the_command_line(self) -> None:
        octets = random.Random(4).randbytes(300_000)
        sent = subprocess.run(
            self.sender.command("stream", "send", "ipn:2.61", "--chunk", "5kB"), input=octets, timeout=PATIENCE_S, check=False)
        self.assertEqual(sent.returncode, 0)
        with self.there.stream_from("ipn:2.61", timeout=PATIENCE_S) as pieces:
            self.assertEqual(b"".join(pieces), octets)
        with self.here.stream_to("ipn:2.62", chunk=100_000) as stream:
            stream.write(octets)
        received = subprocess.run(
            self.receiver.command("stream", "receive", "ipn:2.62"), capture_output=True, timeout=PATIENCE_S, check=False)
        self.assertEqual((received.returncode, received.stdout == octets), (0, True))

    def test_an_endpoint_may_drop_its_bundles_while_nobody_is_there(self) -> None:
        self.there.register(ENDPOINT, when_away="drop")
        self.assertEqual([(it.endpoint, it.failure_action) for it in dhow.Admin(self.receiver.socket).registrations()],
                         [(ENDPOINT, "abandon")])

    def test_refusals_are_exceptions_and_the_connection_stays(self) -> None:
        with self.assertRaises(dhow.Refused) as caught:
            self.here.send("nonsense", b"")
        self.assertFalse(caught.exception.is_temporary)
        with self.assertRaises(dhow.Refused):
            self.here.send(ENDPOINT, b"", source="ipn:7.1")
        with self.assertRaises(ValueError):
            self.here.send(ENDPOINT, b"", lifetime=0)
        self.here.send(ENDPOINT, b"")
        with dhow.connect(self.receiver.socket, secret="one") as one:
            self.enterContext(one.receive("ipn:2.77"))
        with self.assertRaises(dhow.Refused):
            self.there.receive("ipn:2.77")

    def test_interfaces_on_tcp_are_those_on_sockets(self) -> None:
        api, admin = free_port(), free_port()

        class OnTcp(Settings):
            def toml(self) -> str:
                return super().toml().replace("[api]\n", f'[api]\ntcp = "127.0.0.1:{api}"\n')

        more = f'[admin]\ntcp = "127.0.0.1:{admin}"\ntoken = "a-long-secret"\n'
        node = Node(self.crew, binary("debug"), self.directory / "tcp", OnTcp("ipn:3.0", more=more))
        node.start()
        with dhow.connect(f"127.0.0.1:{api}") as there, there.receive("ipn:3.42") as deliveries:
            bundle = there.send("ipn:3.42", b"over TCP")
            with next(deliveries) as delivery:
                self.assertEqual((delivery.id, delivery.read()), (bundle, b"over TCP"))
        self.assertEqual(dhow.Admin(f"127.0.0.1:{admin}", token="a-long-secret").node().node_id, "ipn:3.0")
        with self.assertRaises(dhow.Refused) as caught:
            dhow.Admin(f"127.0.0.1:{admin}", token="another").node()
        self.assertEqual(caught.exception.status, 401)
        with self.assertRaisesRegex(dhow.DhowError, "token"):
            dhow.Admin(f"127.0.0.1:{admin}")

    def test_threads_share_a_node(self) -> None:
        def send() -> None:
            for _ in range(20):
                self.here.send(ENDPOINT, b"x" * 1000)

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        deliveries = self.deliveries()
        identities = set()
        for _ in range(80):
            with next(deliveries) as delivery:
                identities.add(delivery.id)
        self.assertEqual(len(identities), 80)

    def test_the_same_names_serve_asyncio(self) -> None:
        async def talk() -> list[bytes]:
            async with aio.connect(self.sender.socket) as here, aio.connect(self.receiver.socket) as there:
                ids = await asyncio.gather(*[here.send(ENDPOINT, b"%d" % at) for at in range(10)])
                self.assertEqual(len(set(ids)), 10)
                came = []
                async with there.receive(ENDPOINT, timeout=PATIENCE_S) as deliveries:
                    async for delivery in deliveries:
                        async with delivery:
                            came.append(await delivery.read())
                        if len(came) == 10:
                            break
                self.assertEqual((await aio.Admin(self.sender.socket).node()).node_id, "ipn:1.0")
                return came

        self.assertEqual(sorted(asyncio.run(talk())), [b"%d" % at for at in range(10)])

    def test_a_wait_that_is_cancelled_loses_nothing(self) -> None:
        async def talk() -> bytes:
            async with aio.connect(self.receiver.socket) as there, there.receive(ENDPOINT) as deliveries:
                for _ in range(20):
                    try:
                        async with asyncio.timeout(0.01):
                            await deliveries.next()
                            self.fail("nothing was sent")
                    except TimeoutError:
                        pass
                self.here.send(ENDPOINT, b"whole")
                async with asyncio.timeout(PATIENCE_S):
                    delivery = await deliveries.next()
                assert delivery
                async with delivery:
                    return await delivery.read()

        self.assertEqual(asyncio.run(talk()), b"whole")

    def test_operators_see_and_change_what_there_is(self) -> None:
        admin = dhow.Admin(self.sender.socket)
        self.assertEqual(admin.node().node_id, "ipn:1.0")
        self.assertEqual([link.name for link in admin.links()], ["receiver"])
        self.assertEqual(admin.link_down("receiver"), dhow.admin.LinkDirection("receiver", "down"))
        bundle = self.here.send(ENDPOINT, b"waits")
        why = admin.why(bundle)
        assert why.bundle and why.causes[0].next_hop and why.causes[0].next_hop.link
        self.assertEqual((why.bundle.id, why.causes[0].next_hop.link.state), (str(bundle), "down"))
        self.assertEqual([it.id for it in admin.bundles()], [str(bundle)])
        self.assertEqual(admin.destinations()[0].bundles, 1)
        self.assertEqual(admin.drop(bundle).id, str(bundle))
        self.assertEqual(admin.add_route("ipn:5.*", "receiver", priority=3).priority, 3)
        self.assertIn("ipn:5.*", [route.to for route in admin.routes()])
        admin.delete_route("ipn:5.*", "receiver")
        admin.link_up("receiver")
        self.assertIn("dhow_uptime_seconds", admin.metrics())
        self.assertEqual(admin.contacts(), [])
        with self.assertRaisesRegex(dhow.Refused, "no link is named"):
            admin.link_up("no/such")

    def test_every_field_that_a_node_tells_is_known(self) -> None:
        """The output of the command line as JSON, field by field."""
        admin = dhow.Admin(self.sender.socket)
        for path, objects in (("links", admin.links), ("sessions", admin.sessions), ("routes", admin.routes), ("neighbours", admin.neighbours)):
            deadline = time.monotonic() + PATIENCE_S
            while not (told := admin.request("GET", f"/v1/{path}")) and time.monotonic() < deadline:
                time.sleep(0.02)
            names = set(objects()[0].__dataclass_fields__)
            self.assertLessEqual(set(told[0]), names, path)  # type: ignore[index]
        told = json.loads(self.sender.admin("/v1/node"))
        self.assertLessEqual(set(told), set(admin.node().__dataclass_fields__))


class Document(unittest.TestCase):
    """The examples of docs/python.md, one after the other, as they stand there."""

    def test_the_examples_of_the_document_run(self) -> None:
        text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(blocks), 6)
        place = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="dhow-document-")))
        crew = self.enterContext(Crew())
        address = f"127.0.0.1:{free_port()}"
        reports = '[reports]\ngenerate = ["delivery", "deletion"]\n'
        beta = Node(crew, binary("debug"), place / "beta", Settings("ipn:2.0", address, more=reports))
        alpha = Node(crew, binary("debug"), place / "alpha", Settings(
            "ipn:1.0", links=[Link("beta", address)], routes=[("ipn:2.*", "beta")], more=reports))
        beta.start()
        alpha.start()
        ran = subprocess.run(
            [sys.executable, "-X", "dev", "-c", "\n".join(blocks)], cwd=place, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
            env=os.environ | {"PYTHONPATH": str(ROOT / "python")})
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertNotIn("Warning", ran.stderr)
        for expected in ("b'hello'", "True ipn:2.0 no additional information", "b'first, second'", "b'2'", "nobody answers", "down"):
            self.assertIn(expected, ran.stdout)
        self.assertEqual((place / "received.toml").read_bytes(), (place / "alpha" / "node.toml").read_bytes())


class Server:
    """A server that says what it is told to, and then nothing more; `then` is "silent" or "close"."""

    def __init__(self, case: unittest.TestCase, octets: bytes, then: str = "silent") -> None:
        self.path = Path(case.enterContext(tempfile.TemporaryDirectory(prefix="dhow-server-"))) / "socket"
        self.octets, self.then = octets, then
        self.listener = socket.socket(socket.AF_UNIX)
        case.addCleanup(self.listener.close)
        self.listener.bind(str(self.path))
        self.listener.listen()
        self.clients: list[socket.socket] = []
        threading.Thread(target=self.serve, daemon=True).start()
        case.addCleanup(self.end)

    def serve(self) -> None:
        """Until the test ends."""
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.clients.append(client)
            client.sendall(self.octets)
            if self.then == "close":
                client.close()

    def end(self) -> None:
        """Lets all go."""
        self.listener.shutdown(socket.SHUT_RDWR)
        for client in self.clients:
            client.close()


HELLO = bytes([wire.MAGIC])
WELCOME = HELLO + wire.framed(wire.field(1, wire.field(1, "ipn:2.0") + wire.field(1000, 1)))
SUCCESS = wire.framed(wire.field(1, 1))


class Hostile(unittest.TestCase):
    """A server may say anything or nothing: a call ends soon, with an exception of this package."""

    def connect(self, octets: bytes, then: str = "silent") -> dhow.Node:
        """A node as the server plays it."""
        return dhow.connect(Server(self, octets, then).path, timeout=0.3, patience=0.3, absence=0)

    def assert_both(self, kind: type[dhow.DhowError], octets: bytes, then: str, act: Callable[..., object], later: Callable[..., object]) -> None:
        """The blocking call and that of asyncio end with the same exception."""
        server = Server(self, octets, then)
        words = {"timeout": 0.3, "patience": 0.3, "absence": 0}

        async def talk() -> None:
            async with asyncio.timeout(PATIENCE_S), aio.connect(server.path, **words) as node:
                await later(node)

        with self.subTest("blocking", octets=octets[:40], then=then), self.assertRaises(kind):
            with dhow.connect(server.path, **words) as node:
                act(node)
        with self.subTest("asyncio", octets=octets[:40], then=then), self.assertRaises(kind):
            asyncio.run(talk())

    def test_greetings_that_are_none(self) -> None:
        for kind, octets, then in (
            (dhow.Silent, b"", "silent"), (dhow.Disconnected, b"", "close"), (dhow.ProtocolError, b"HTTP/1.1 400", "silent"),
            (dhow.Silent, HELLO, "silent"), (dhow.Silent, WELCOME[:7], "silent"), (dhow.Disconnected, WELCOME[:7], "close"),
            (dhow.ProtocolError, HELLO + b"\xff" * 20, "silent"), (dhow.ProtocolError, HELLO + wire.varint(1 << 30), "silent"),
            (dhow.ProtocolError, HELLO + wire.framed(b"\x0a\x05ab"), "silent"), (dhow.ProtocolError, HELLO + SUCCESS, "silent"),
            (dhow.ProtocolError, HELLO + wire.framed(wire.field(1, wire.field(1, b"\xff"))), "silent"),
            (dhow.ProtocolError, HELLO + wire.framed(b"\x08\x01\x0f"), "silent"), (dhow.ProtocolError, HELLO + b"\x00", "silent"),
        ):
            self.assert_both(kind, octets, then, lambda node: None, lambda node: asyncio.sleep(0))

    def test_requests_without_a_proper_answer(self) -> None:
        bare = wire.framed(wire.field(1, 1))
        for kind, octets, then in (
            (dhow.Silent, WELCOME, "silent"), (dhow.Disconnected, WELCOME, "close"), (dhow.Silent, WELCOME + SUCCESS, "silent"),
            (dhow.ProtocolError, WELCOME + SUCCESS + bare, "silent"), (dhow.Refused, WELCOME + SUCCESS + wire.framed(wire.field(1, 8)), "silent"),
            (dhow.Refused, WELCOME + wire.framed(b""), "silent"), (dhow.ProtocolError, WELCOME + SUCCESS + b"\xff" * 11, "silent"),
            (dhow.Silent, WELCOME + SUCCESS + SUCCESS[:1], "silent"),
        ):
            self.assert_both(kind, octets, then, lambda node: node.send("ipn:3.1", b"x"), lambda node: node.send("ipn:3.1", b"x"))
        self.assert_both(
            dhow.Silent, WELCOME + SUCCESS, "silent", lambda node: node.send("ipn:3.1", b"x" * 900_000),
            lambda node: node.send("ipn:3.1", b"x" * 900_000))

    def test_deliveries_that_are_none(self) -> None:
        head = wire.framed(wire.field(3, wire.field(1, "ipn:1.1") + wire.field(2, ENDPOINT) + wire.field(5, 1 << 60)))
        for kind, octets, then in (
            (dhow.ProtocolError, b"\xff" * 11, "silent"), (dhow.ProtocolError, wire.framed(wire.field(3, 7)), "silent"),
            (dhow.Refused, wire.framed(wire.field(1000, wire.field(1, 12))), "silent"),
            (dhow.ProtocolError, wire.framed(wire.field(1, b"")), "silent"), (dhow.Silent, head + b"abc", "silent"),
            (dhow.Disconnected, wire.framed(wire.field(99, b"later kinds are skipped")), "close"),
        ):
            def take(node: dhow.Node) -> None:
                subscription = node.receive(ENDPOINT)
                delivery = subscription.next(0.5)
                assert delivery
                delivery.read()

            async def take_later(node: aio.Node) -> None:
                delivery = await node.receive(ENDPOINT).next(0.5)
                assert delivery
                await delivery.read()

            self.assert_both(kind, WELCOME + SUCCESS + octets, then, take, take_later)

    def test_a_message_that_comes_octet_by_octet_is_bounded_in_time(self) -> None:
        server = Server(self, HELLO)
        ended = threading.Event()
        self.addCleanup(ended.set)

        def drip() -> None:
            while not ended.wait(0.02):
                for client in server.clients:
                    try:
                        client.send(b"\x80")
                    except OSError:
                        return

        server.octets = HELLO + wire.varint(60_000)
        threading.Thread(target=drip, daemon=True).start()
        with self.assertRaises(dhow.Silent):
            dhow.connect(server.path, timeout=0.5)

    def test_a_wait_ends_also_where_keepalives_come_without_end(self) -> None:
        server = Server(self, WELCOME + SUCCESS)
        ended = threading.Event()
        self.addCleanup(ended.set)

        def flood() -> None:
            while not ended.is_set():
                for client in server.clients:
                    try:
                        client.send(wire.framed(wire.field(99, b"unknown")) * 1000)
                    except OSError:
                        return

        with dhow.connect(server.path, timeout=5) as node, node.receive(ENDPOINT) as subscription:
            threading.Thread(target=flood, daemon=True).start()
            self.assertIsNone(subscription.next(0.3))

    def test_an_address_where_nobody_is_has_a_hint(self) -> None:
        with self.assertRaises(dhow.Unreachable) as caught:
            dhow.connect("/nowhere/dhow.sock")
        self.assertIn("dhow node run", str(caught.exception))

    @unittest.skipIf(os.geteuid() != 0, "takes another user's rights")
    def test_a_socket_of_another_user_is_denied(self) -> None:
        server = Server(self, WELCOME)
        server.path.parent.chmod(0o755)
        server.path.chmod(0o600)
        script = f"import os; os.setuid(65534)\nimport dhow\ntry: dhow.connect({str(server.path)!r})\nexcept dhow.Denied as error: print(error.hint)"
        words = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); import dhow, dhow.blocking.node, dhow.aio\n{script}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        self.assertIn("usermod", done.stdout, done.stderr)

    def test_a_listener_that_accepts_nobody_is_silent(self) -> None:
        with tempfile.TemporaryDirectory() as place, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{place}/socket")
            listener.listen(0)
            with socket.socket(socket.AF_UNIX) as first:
                first.connect(f"{place}/socket")
                with self.assertRaises(dhow.Silent):
                    dhow.connect(f"{place}/socket", timeout=0.3)

    def test_operators_meet_servers_that_are_none(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b"
        for kind, octets, then in (
            (dhow.Silent, b"", "silent"), (dhow.DhowError, b"", "close"), (dhow.ProtocolError, b"garbage\r\n\r\n", "silent"),
            (dhow.ProtocolError, head % (4, b"nope"), "silent"), (dhow.ProtocolError, head % (2, b"[]"), "silent"),
            (dhow.ProtocolError, head % (2, b"{}"), "silent"), (dhow.Silent, head % (20, b"{}"), "silent"),
            (dhow.ProtocolError, head % (100_000, b"[" * 100_000), "silent"),
            (dhow.DhowError, head % (20, b"{}"), "close"), (dhow.Refused, b"HTTP/1.1 503 X\r\nContent-Length: 3\r\n\r\n[1]", "silent"),
        ):
            server = Server(self, octets, then)
            server.path.rename(server.path.with_name("socket.admin"))
            with self.subTest(octets=octets[:50], then=then), self.assertRaises(kind):
                dhow.Admin(server.path, timeout=0.3).node()


class Octets(unittest.TestCase):
    """Encodings, without any node."""

    def test_the_chunk_of_the_document_is_read_and_written(self) -> None:
        octets = bytes.fromhex("856b64686f772d73747265616d0150000102030405060708090a0b0c0d0e0f03f4616263")
        expected = chunk.Chunk(bytes(range(16)), 3, b"abc", last=False)
        self.assertEqual(chunk.decode(octets), expected)
        self.assertEqual(expected.encode(), octets)
        for wrong in (octets[:20], octets.replace(b"dhow", b"dhoW"), b"", octets.replace(b"\xf4abc", b"\xf5abc")):
            with self.assertRaises(dhow.ProtocolError):
                chunk.decode(wrong)

    def test_a_status_report_is_read_and_what_is_none_is_refused(self) -> None:
        states = [[True, 1000], [False], [1], [0]]
        record = cbor.encode([1, [states, 1, [2, [3, 5]], [7_000, 2], 10, 20]])
        told = report.status_report(record, "ipn:9.0")
        assert told
        self.assertEqual((str(told.bundle), told.fragment, told.reason_text), ("ipn:3.5/7000/2", (10, 20), "lifetime expired"))
        self.assertEqual({kind: at and at.isoformat() for kind, at in told.events.items()}, {
            "reception": "2000-01-01T00:00:01+00:00", "delivery": None})
        self.assertIsNone(report.status_report(cbor.encode([64836, [1]]), ""))

    def test_any_octets_are_read_or_refused(self) -> None:
        dice = random.Random(6)
        report_octets = cbor.encode([1, [[[True, 5]] * 4, 0, [1, "//a/b"], [7, 1]]])
        chunk_octets = chunk.Chunk(b"s" * 16, 1 << 40, b"abc", last=False).encode()
        for _ in range(20_000):
            for seed, read in ((report_octets, lambda octets: report.status_report(octets, "")), (chunk_octets, chunk.decode),
                               (WELCOME[2:], wire.message), (SUCCESS[1:], wire.response)):
                octets = bytearray(seed[:dice.randrange(len(seed) + 1)] if dice.random() < 0.3 else seed)
                for _ in range(dice.randrange(4)):
                    if octets:
                        octets[dice.randrange(len(octets))] = dice.randrange(256)
                try:
                    read(bytes(octets))
                except dhow.ProtocolError:
                    pass

    def test_asyncio_has_the_same_names_and_parameters(self) -> None:
        for name in ("Admin", "Delivery", "Node", "StreamReader", "StreamWriter", "Subscription"):
            blocking, other = getattr(dhow, name), getattr(aio, name)
            for method, call in vars(blocking).items():
                if method.startswith("_"):
                    continue
                with self.subTest(f"{name}.{method}"):
                    if inspect.isfunction(call):
                        self.assertEqual(list(inspect.signature(call).parameters.values()), list(inspect.signature(getattr(other, method)).parameters.values()))
        self.assertEqual(inspect.signature(dhow.connect).parameters, inspect.signature(aio.connect).parameters)

    def test_addresses_are_those_of_the_command_line(self) -> None:
        for text, expected in (
            ("127.0.0.1:4242", Address(host="127.0.0.1", port=4242)), ("[::1]:4242", Address(host="::1", port=4242)),
            ("tcp:localhost:4242", Address(host="localhost", port=4242)), ("unix:beta:4242", Address(path="beta:4242")),
            ("dhow.sock", Address(path="dhow.sock")), ("./beta:4242", Address(path="./beta:4242")), ("a:99999", Address(path="a:99999")),
        ):
            self.assertEqual(parse(text), expected)


if __name__ == "__main__":
    unittest.main()
