"""Ordered octets from stdin to stdout over two nodes, with a link that is cut and nodes that are killed."""

import array
import contextlib
import fcntl
import json
import random
import subprocess
import termios
import threading
import time

from tests.workplace import Workplace

ENDPOINT = "ipn:2.61"

# A step takes no longer than this, seconds; a machine that is busy with something else included.
PATIENCE_S = 60.0

# The identity of a stream whose chunks are written here.
STREAM = bytes(range(16))


def chunk(number: int, octets: bytes | None) -> bytes:
    """The payload of a chunk, below number 24 (docs/stream.md); without octets it is the end."""
    head = b"\x85\x6bdhow-stream\x01\x50" + STREAM + bytes([number])
    return head + (b"\xf5" if octets is None else b"\xf4" + octets)


class Commands(Workplace):
    """A sender and a receiver of one stream."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.directory / "stream.log"

    def begin(self, command: list[str]) -> subprocess.Popen[bytes]:
        """A command with pipes on both sides."""
        with self.log.open("ab") as log:
            program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self.addCleanup(self.finish, program)
        return program

    @staticmethod
    def finish(program: subprocess.Popen[bytes]) -> None:
        """Ends a command in whatever state it is."""
        program.kill()
        program.wait()
        for pipe in (program.stdin, program.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def send(self, octets: bytes, *words: str) -> dict:
        """A whole stream."""
        sent = subprocess.run(
            self.sender.command("stream", "send", ENDPOINT, "--json", *words), input=octets, capture_output=True,
            timeout=PATIENCE_S, check=False)
        self.assertEqual(sent.returncode, 0, sent.stderr)
        return json.loads(sent.stdout)

    def receive(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """A whole stream, or what there is of it."""
        return subprocess.run(
            self.receiver.command("stream", "receive", ENDPOINT, *words), capture_output=True, timeout=PATIENCE_S,
            check=False)

    def give(self, number: int, octets: bytes | None, source: str = "ipn:2.90") -> None:
        """Sends one chunk, from an endpoint of the receiver's node."""
        path = self.directory / "chunk"
        path.write_bytes(chunk(number, octets))
        given = self.receiver.run("send", ENDPOINT, str(path), "--from", source)
        self.assertEqual(given.returncode, 0, given.stderr)

    def again(self) -> list[str]:
        """The options with which the stream goes on, as the receiver said."""
        words = next(line for line in reversed(self.log.read_text().splitlines()) if "--next" in line)
        return words[words.index("--stream"):].split()

    def until(self, is_so, what: str) -> None:
        """Waits until something is so."""
        end = time.monotonic() + PATIENCE_S
        while not is_so():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)


class Stream(Commands):
    """Nodes with room for all."""

    def setUp(self) -> None:
        super().setUp()
        self.start()

    def test_octets_come_in_order_across_cuts_and_kills(self) -> None:
        dice = random.Random(7)
        octets = dice.randbytes(6_000_000)
        receiving = self.begin(self.receiver.command("stream", "receive", ENDPOINT, "--timeout", "40s"))
        came: list[bytes] = []
        reader = threading.Thread(target=lambda: came.append(receiving.stdout.read()))
        reader.start()
        sending = self.begin(self.sender.command("stream", "send", ENDPOINT, "--chunk", "5kB"))
        rest = memoryview(octets)
        for disaster in ("link", "receiver", "sender", "link", "receiver"):
            part = rest[:dice.randrange(600_000, 1_000_000)]
            rest = rest[len(part):]
            sending.stdin.write(part)
            sending.stdin.flush()
            if disaster == "link":
                self.sender.link_down("receiver")
                time.sleep(dice.random() * 0.3)
                self.sender.link_up("receiver")
            else:
                node = self.receiver if disaster == "receiver" else self.sender
                node.kill()
                node.start()
        sending.stdin.write(rest)
        sending.stdin.close()
        self.assertEqual(sending.wait(PATIENCE_S), 0, self.log.read_text())
        self.assertEqual(receiving.wait(PATIENCE_S), 0, self.log.read_text())
        reader.join(PATIENCE_S)
        self.assertEqual(len(came[0]), len(octets))
        self.assertEqual(came[0], octets)

    def test_a_chunk_leaves_as_soon_as_stdin_has_given_it(self) -> None:
        receiving = self.begin(self.receiver.command("stream", "receive", ENDPOINT))
        sending = self.begin(self.sender.command("stream", "send", ENDPOINT))
        for word in (b"one\n", b"two\n"):
            sending.stdin.write(word)
            sending.stdin.flush()
            self.assertEqual(receiving.stdout.readline(), word)
        sending.stdin.close()
        self.assertEqual((sending.wait(PATIENCE_S), receiving.wait(PATIENCE_S)), (0, 0))

    def test_an_empty_stream_ends(self) -> None:
        self.assertEqual((self.send(b"")["octets"], self.receive("--timeout", "20s").stdout), (0, b""))

    def test_streams_are_kept_apart(self) -> None:
        one, two = b"one" * 50_000, b"two" * 50_000
        first, second = self.send(one, "--chunk", "10kB"), self.send(two, "--chunk", "10kB")
        self.assertEqual(first["octets"], 150_000)
        self.assertGreaterEqual(first["chunks"], 16)
        for sent, octets in ((second, two), (first, one)):
            came = self.receive("--stream", sent["stream"], "--timeout", "20s")
            self.assertEqual((came.returncode, came.stdout), (0, octets), came.stderr)

    def test_an_interrupted_receiver_says_how_the_stream_goes_on(self) -> None:
        receiving = self.begin(self.receiver.command("stream", "receive", ENDPOINT))
        sending = self.begin(self.sender.command("stream", "send", ENDPOINT))
        sending.stdin.write(b"first\n")
        sending.stdin.flush()
        self.assertEqual(receiving.stdout.readline(), b"first\n")
        receiving.terminate()
        self.assertEqual(receiving.wait(PATIENCE_S), 130)
        [words] = [line for line in self.log.read_text().splitlines() if "--next" in line]
        again = words[words.index("--stream"):].split()
        self.assertEqual(again[3], "1")
        sending.stdin.write(b"second\n")
        sending.stdin.close()
        came = self.receive(*again, "--timeout", "20s")
        self.assertEqual((came.returncode, came.stdout), (0, b"second\n"), came.stderr)

    def test_what_is_no_chunk_is_dropped_and_told(self) -> None:
        (self.directory / "payload").write_bytes(b"no chunk")
        self.sender.run("send", ENDPOINT, str(self.directory / "payload"))
        self.send(b"chunks")
        came = self.receive("--timeout", "20s", "--from", "ipn:1.*")
        self.assertEqual((came.returncode, came.stdout), (0, b"chunks"))
        self.assertIn(b"the payload is not a chunk of a stream", came.stderr)
        end = time.monotonic() + PATIENCE_S
        while self.receiver.show("status")["store"]["bundles"]:
            self.assertLess(time.monotonic(), end, "bundles that are not confirmed")
            time.sleep(0.05)

    def test_a_stream_goes_on_at_the_chunk_that_was_late(self) -> None:
        receiving = self.begin(self.receiver.command("stream", "receive", ENDPOINT))
        for number in (0, 3, 1):
            self.give(number, b"%d\n" % number)
        self.assertEqual((receiving.stdout.readline(), receiving.stdout.readline()), (b"0\n", b"1\n"))
        receiving.terminate()
        self.assertEqual(receiving.wait(PATIENCE_S), 130)
        self.assertEqual(self.again(), ["--stream", STREAM.hex(), "--next", "2"])
        for number, octets in ((2, b"2\n"), (4, None)):
            self.give(number, octets)
        came = self.receive(*self.again(), "--timeout", "20s")
        self.assertEqual((came.returncode, came.stdout), (0, b"2\n3\n"), came.stderr)

    def test_a_receiver_whose_reader_stands_still_says_how_much_of_a_chunk_is_written(self) -> None:
        octets = random.Random(3).randbytes(150_000)
        self.send(octets, "--chunk", "40kB")
        came, words = b"", []
        for _ in range(3):
            receiving = self.begin(self.receiver.command("stream", "receive", ENDPOINT, *words))
            # The pipe is full once nothing has come into it for a while; 64 KiB fit.
            self.until(lambda pipe=receiving.stdout: waiting(pipe) >= 40_000 or receiving.poll() is not None, "no octets")
            time.sleep(0.05)
            receiving.terminate()
            self.assertIn(receiving.wait(PATIENCE_S), (0, 130))
            came += receiving.stdout.read()
            if receiving.returncode == 0:
                break
            words = self.again()
        self.assertEqual(receiving.returncode, 0, self.log.read_text())
        self.assertEqual(came, octets)
        self.assertEqual(self.receiver.show("status")["store"]["bundles"], 0)

    def test_a_receiver_that_cannot_write_says_how_the_stream_goes_on(self) -> None:
        sent = self.send(b"octets")
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                self.receiver.command("stream", "receive", ENDPOINT), stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE_S,
                check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"--stream {sent['stream']} --next 0".encode(), done.stderr)
        self.assertEqual(self.receive("--timeout", "20s").stdout, b"octets")

    def test_one_receives_at_an_endpoint(self) -> None:
        receiving = self.begin(self.receiver.command("stream", "receive", ENDPOINT))
        self.until(lambda: self.receiver.show("registrations"), "nobody receives")
        second = self.receive("--timeout", "5s")
        self.assertEqual(second.returncode, 1)
        self.assertIn(b"one command receives streams at an endpoint", second.stderr)
        # An end without a word lets the endpoint go, too.
        receiving.kill()
        self.send(b"octets")
        self.assertEqual(self.receive("--timeout", "20s").stdout, b"octets")

    def test_chunks_of_another_source_are_another_streams(self) -> None:
        self.give(0, b"0\n")
        receiving = self.begin(self.receiver.command("stream", "receive", ENDPOINT, "--timeout", "20s"))
        self.assertEqual(receiving.stdout.readline(), b"0\n")
        for number, octets in ((1, b"another source\n"), (2, None)):
            self.give(number, octets, "ipn:2.91")
        for number, octets in ((1, b"1\n"), (2, None)):
            self.give(number, octets)
        self.assertEqual((receiving.stdout.read(), receiving.wait(PATIENCE_S)), (b"1\n", 0))
        self.assertEqual(self.receiver.show("status")["store"]["bundles"], 2)

    def test_an_interrupted_sender_says_how_much_the_node_has(self) -> None:
        sending = self.begin(self.sender.command("stream", "send", ENDPOINT))
        sending.stdin.write(b"x" * 2_000)
        sending.stdin.flush()
        self.until(lambda: self.receiver.show("status")["store"]["bundles"] == 1, "no chunk came")
        begun = time.monotonic()
        sending.terminate()
        self.assertEqual(sending.wait(PATIENCE_S), 130)
        self.assertLess(time.monotonic() - begun, 1.5, "it is asked while stdin gives nothing")
        self.assertIn("the node has 2.0 kB in 1 chunk of stream ", self.log.read_text())


class FullStore(Commands):
    """A sender's node whose store is soon full."""

    def test_a_sender_waits_for_room(self) -> None:
        self.sender.settings.quota, self.sender.settings.store_policy = "2MB", 'segment = "256KiB"'
        self.start()
        self.sender.link_down("receiver")
        octets = random.Random(5).randbytes(4_000_000)
        sending = self.begin(self.sender.command("stream", "send", ENDPOINT, "--chunk", "100kB"))
        feeder = threading.Thread(target=lambda: (sending.stdin.write(octets), sending.stdin.close()))
        feeder.start()
        self.until(lambda: "waiting for room" in self.log.read_text() or sending.poll() is not None, "nothing was said")
        self.assertIsNone(sending.poll(), self.log.read_text())
        self.sender.link_up("receiver")
        came = self.receive("--timeout", "20s")
        feeder.join(PATIENCE_S)
        self.assertEqual((came.returncode, sending.wait(PATIENCE_S)), (0, 0), came.stderr + self.log.read_bytes())
        self.assertEqual(came.stdout, octets)


def waiting(pipe) -> int:
    """Octets in a pipe that nobody has read."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe.fileno(), termios.FIONREAD, count)
    return count[0]
