"""Ordered octets from stdin to stdout over two nodes, with a link that is cut and nodes that are killed."""

import contextlib
import json
import random
import subprocess
import threading
import time

from tests.workplace import Workplace

ENDPOINT = "ipn:2.61"

# A step takes no longer than this, seconds; a machine that is busy with something else included.
PATIENCE_S = 60.0


class Stream(Workplace):
    """A sender and a receiver of one stream."""

    def setUp(self) -> None:
        super().setUp()
        self.start()
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
