"""Files over LTP without nodes: dhow ltp send and dhow ltp recv, with loss between them, ends that die, and strangers."""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from labs.rig.binary import dhow
from labs.rig.capture import Capture, judge_missing
from labs.rig.crew import Crew, Program
from labs.rig.lossy import LossyRelay
from labs.rig.node import free_port
from tests.ltp import block, key_pairs, sdnv

# Files of one segment and of many.
SIZES = [1, 1_380, 1_381, 70_000, 1 << 20, 10_000_000]

# A rate that needs no patience, and one at which a file is under way for a while.
RATE, SLOW_RATE = "200Mbit", "8Mbit"

PATIENCE_S = 60.0

# The client service of plain files (docs/ltp.md), as segments have it.
SERVICE = 1 << 14

INTERRUPTED = 130

# The type of the segment in which a receiver cancels a session (RFC 5326 3.1).
CANCELLED_BY_RECEIVER = 14


def first_segment(engine: int, session: int, octet: int) -> bytes:
    """A red segment of one octet, of a block of which more is to come."""
    numbers = b"".join(map(sdnv, (engine, session)))
    return b"\x00" + numbers + b"\x00" + sdnv(SERVICE) + sdnv(0) + sdnv(1) + bytes([octet % 256])


def whole_block(engine: int, session: int, octets: bytes) -> bytes:
    """A red block of one segment."""
    return block(engine, session, octets).replace(sdnv(1) + sdnv(0) + sdnv(len(octets)), sdnv(SERVICE) + sdnv(0) + sdnv(len(octets)), 1)


class LtpFiles(unittest.TestCase):
    """A receiver, which tells where it listens, and senders."""

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="dhow-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.crew = Crew()
        self.addCleanup(self.crew.close)
        self.binary = str(dhow("debug"))
        self.inbox = self.directory / "inbox"

    def start(self, *arguments: str) -> Program:
        return self.crew.start([self.binary, *arguments, "--json"], log=self.directory / "log")

    def receive(self, *options: str, out: Path | None = None, name: str = "127.0.0.1:0") -> Program:
        """A receiver that listens."""
        program = self.start(
            "ltp", "recv", "--listen", name, "--out", str(out or self.inbox), "--light-time", "1ms", *options)
        line = program.line(PATIENCE_S)
        assert line is not None, self.log()
        self.port = int(json.loads(line)["listening"].rpartition(":")[2])
        return program

    def send(self, *arguments: str, port: int | None = None, rate: str = RATE) -> Program:
        *options, files = arguments if arguments and arguments[-1].startswith("/") else (*arguments, "")
        names = files.split("\n")
        return self.start(
            "ltp", "send", *names, f"2@127.0.0.1:{port or self.port}", "--light-time", "1ms", "--rate", rate, *options)

    def file(self, octets: int, name: str | None = None) -> Path:
        path = self.directory / (name or f"{octets}.file")
        path.write_bytes(random.Random(octets).randbytes(octets))
        return path

    def end(self, program: Program, code: int = 0) -> list[dict]:
        """The values that a program wrote, once it ended."""
        self.assertEqual(program.wait(PATIENCE_S), code, self.log())
        lines: list[dict] = []
        while (line := program.line(PATIENCE_S)) is not None:
            lines.append(json.loads(line))
        return lines

    def log(self) -> str:
        path = self.directory / "log"
        return path.read_text() if path.exists() else ""

    def assert_came(self, received: list[dict], *files: Path) -> None:
        """These files came, and no others, each under the name of its session."""
        came = []
        for it in received:
            self.assertEqual(it["state"], "received", it)
            self.assertEqual(Path(it["file"]).name, f"ltp-{it['engine']}-{it['session']}")
            came.append(Path(it["file"]).read_bytes())
        self.assertEqual(sorted(came), sorted(path.read_bytes() for path in files))

    def kept(self) -> list[str]:
        return sorted(path.name for path in self.inbox.iterdir())

    def test_files_of_all_sizes_cross_and_both_ends_name_their_sessions(self) -> None:
        files = [self.file(octets) for octets in SIZES]
        receiver = self.receive("--count", str(len(files)))
        sent = self.end(self.send("\n".join(map(str, files))))
        received = self.end(receiver)
        self.assert_came(received, *files)
        self.assertEqual([it["state"] for it in sent], ["acknowledged"] * len(files))
        self.assertEqual({it["session"] for it in sent}, {it["session"] for it in received})
        self.assertEqual({it["file"] for it in sent}, {str(path) for path in files})

    def test_files_cross_over_ipv6(self) -> None:
        file = self.file(70_000)
        try:
            receiver = self.receive("--count", "1", name="[::1]:0")
        except AssertionError:
            self.skipTest("no IPv6 on loopback")
        sender = self.start("ltp", "send", str(file), f"[::1]:{self.port}", "--rate", RATE)
        self.end(sender)
        self.assert_came(self.end(receiver), file)

    def test_a_receiver_at_all_addresses_answers_from_the_one_that_was_sent_to(self) -> None:
        file = self.file(70_000)
        for name in ("0.0.0.0:0", "[::]:0"):
            with self.subTest(name=name):
                try:
                    receiver = self.receive("--count", "1", name=name)
                except AssertionError:
                    self.skipTest("no IPv6 on loopback")
                sender = self.start(
                    "ltp", "send", str(file), f"2@127.0.0.22:{self.port}", "--light-time", "1ms", "--rate", RATE, "--bind", "127.0.0.1:0")
                self.end(sender)
                self.assert_came(self.end(receiver), file)
                (self.inbox / self.kept()[0]).unlink()

    def test_all_arrives_where_datagrams_are_lost_both_ways_and_come_from_other_ports(self) -> None:
        relay = LossyRelay(0.05, seed=7)
        self.addCleanup(relay.close)
        back = free_port(socket.SOCK_DGRAM)
        files = [self.file(octets) for octets in (1, 70_000, 3_000_000)]
        receiver = self.receive("--count", "3", "--reply", f"127.0.0.1:{relay.towards(('127.0.0.1', back))}")
        way = relay.towards(("127.0.0.1", self.port))
        sent = self.end(self.send("--bind", f"127.0.0.1:{back}", "\n".join(map(str, files)), port=way, rate="40Mbit"))
        self.assertEqual([it["state"] for it in sent], ["acknowledged"] * 3)
        self.assert_came(self.end(receiver), *files)

    def test_green_files_arrive_and_nobody_says_so(self) -> None:
        files = [self.file(octets) for octets in (1, 70_000)]
        receiver = self.receive("--count", "2")
        sent = self.end(self.send("--red", "none", "\n".join(map(str, files)), rate="40Mbit"))
        self.assertEqual([it["state"] for it in sent], ["sent", "sent"])
        self.assert_came(self.end(receiver), *files)

    def test_a_file_of_which_a_part_is_green_arrives(self) -> None:
        file = self.file(70_000)
        receiver = self.receive("--count", "1")
        self.end(self.send("--red", "10kB", str(file), rate="40Mbit"))
        self.assert_came(self.end(receiver), file)

    def test_many_sessions_at_a_time_from_several_senders(self) -> None:
        files = [self.file(octets, f"{octets}.file") for octets in range(1_000, 1_400)]
        receiver = self.receive("--count", "400")
        parts = [files[at::4] for at in range(4)]
        senders = [
            self.send("--engine", str(10 + at), "\n".join(map(str, part))) for at, part in enumerate(parts)]
        for sender in senders:
            self.end(sender)
        received = self.end(receiver)
        self.assert_came(received, *files)
        self.assertEqual({it["engine"] for it in received}, {10, 11, 12, 13})

    def test_a_receiver_that_is_killed_keeps_nothing_and_the_next_takes_what_is_under_way(self) -> None:
        file = self.file(4_000_000)
        receiver = self.receive()
        sender = self.send(str(file), rate=SLOW_RATE)
        time.sleep(1.0)
        receiver.kill()
        self.assertEqual(self.kept(), [])
        again = self.receive("--count", "1", name=f"127.0.0.1:{self.port}")
        self.end(sender)
        self.assert_came(self.end(again), file)

    def test_a_sender_that_is_killed_is_given_up(self) -> None:
        receiver = self.receive("--silence", "100ms", "--timeout", "10s")
        sender = self.send(str(self.file(4_000_000)), rate=SLOW_RATE)
        time.sleep(1.0)
        sender.kill()
        [lost] = self.end(receiver, code=1)
        self.assertEqual((lost["state"], lost["file"]), ("failed", None))
        self.assertGreater(lost["octets"], 0)
        self.assertEqual(self.kept(), [])

    def test_either_end_cancels_when_it_is_interrupted(self) -> None:
        file = self.file(4_000_000)
        for stops in ("sender", "receiver"):
            with self.subTest(stops=stops):
                receiver = self.receive("--timeout", "20s")
                sender = self.send(str(file), rate=SLOW_RATE)
                time.sleep(1.0)
                (sender if stops == "sender" else receiver).process.send_signal(signal.SIGINT)
                [sent] = self.end(sender, code=INTERRUPTED if stops == "sender" else 1)
                self.assertEqual(sent["state"], "failed")
                if stops == "sender":
                    time.sleep(0.5)
                    receiver.process.send_signal(signal.SIGINT)
                else:
                    self.assertIn("USR_CNCLD", sent["reason"])
                [lost] = self.end(receiver, code=INTERRUPTED)
                self.assertEqual(lost["state"], "failed")
                if stops == "sender":
                    self.assertIn("USR_CNCLD", lost["reason"])
                self.assertEqual(self.kept(), [])

    @unittest.skipUnless(shutil.which("openssl"), "no openssl command")
    def test_files_cross_with_signatures_of_both_ends_and_not_of_another(self) -> None:
        ends = key_pairs(self.directory, "here", "there", "other")
        file = self.file(100_000)
        receiver = self.receive("--count", "1", "--key", ends("there", "here"))
        self.end(self.send("--key", ends("here", "there"), str(file)))
        self.assert_came(self.end(receiver), file)
        receiver = self.receive("--timeout", "2s", "--key", ends("there", "here"))
        sender = self.send("--key", ends("other", "there"), str(file))
        self.assertEqual(self.end(receiver, code=1), [])
        self.assertIn("of engine 1 at 127.0.0.1 failed authentication", self.log())
        sender.process.send_signal(signal.SIGINT)
        self.end(sender, code=INTERRUPTED)
        self.assertEqual(self.end(self.send("--mtu", "300", "--key", ends("here", "there"), str(file)), code=2), [])
        self.assertIn("--mtu must be 384 or more with this key", self.log())

    def test_files_cross_with_a_key_that_both_have_and_not_with_another(self) -> None:
        keys = []
        for name in ("right", "wrong"):
            path = self.directory / f"{name}.key"
            path.write_text(random.Random(name).randbytes(20).hex())
            keys.append(str(path))
        file = self.file(70_000)
        receiver = self.receive("--count", "1", "--key", keys[0])
        self.end(self.send("--key", keys[0], str(file)))
        self.assert_came(self.end(receiver), file)
        for options in (("--key", keys[1]), ()):
            with self.subTest(options=options):
                (self.directory / "log").unlink()
                receiver = self.receive("--timeout", "2s", "--key", keys[0])
                sender = self.send(*options, str(file))
                self.assertEqual(self.end(receiver, code=1), [])
                self.assertEqual(self.log().count("failed authentication"), 1)
                sender.process.send_signal(signal.SIGINT)
                [sent] = self.end(sender, code=INTERRUPTED)
                self.assertEqual(sent["state"], "failed")
        self.assertEqual(len(self.kept()), 1)

    def test_a_key_that_every_user_may_read_is_told(self) -> None:
        key = self.directory / "key"
        key.write_text("00" * 20)
        for mode, notes in ((0o600, 0), (0o644, 1)):
            key.chmod(mode)
            self.end(self.receive("--timeout", "50ms", "--key", str(key)), code=1)
            self.assertEqual(self.log().count("every user of this machine can read the key"), notes)

    def test_a_key_that_is_no_regular_file_is_refused_at_once(self) -> None:
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        self.port = 9
        for path in (pipe, Path("/dev/zero"), self.directory):
            self.assertEqual(self.end(self.send("--key", str(path), str(self.file(5))), code=2), [])
        self.assertEqual(self.log().count("is not a regular file"), 3)
        self.assertEqual(self.log().count("hint: "), 3)

    def test_files_cross_with_cookies_that_either_end_begins(self) -> None:
        file = self.file(1_000_000)
        for sender_octets, receiver_octets in ((16, 0), (0, 16), (16, 16)):
            receiver = self.receive("--count", "1", "--cookie", str(receiver_octets))
            self.end(self.send("--cookie", str(sender_octets), str(file)))
            self.assert_came(self.end(receiver), file)

    def test_a_cookie_that_is_asked_for_is_in_the_first_segment(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as engine:
            engine.bind(("127.0.0.1", 0))
            engine.settimeout(PATIENCE_S)
            self.port = engine.getsockname()[1]
            sender = self.send("--cookie", "16", str(self.file(1_000)))
            first = engine.recv(2_000)
        sender.kill()
        # Behind the engine's octet and the SDNV of the session: one header extension, a cookie (RFC 5327 2.2) of 16 octets.
        at = 3 + next(at for at, octet in enumerate(first[2:]) if octet < 128)
        self.assertEqual(first[at:at + 3], bytes([0x10, 1, 16]))

    def small_disk(self, octets: int) -> Path:
        """A directory on a disk of this size."""
        point = self.directory / "small"
        point.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={octets}", "tmpfs", str(point)],
            capture_output=True, text=True, timeout=60, check=False)
        if mounted.returncode != 0:
            self.skipTest(f"no tmpfs can be mounted: {mounted.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", str(point)], check=False, timeout=60)
        return point

    def test_a_full_disk_cancels_the_session_and_harms_no_other(self) -> None:
        point = self.small_disk(3_000_000)
        small, large = self.file(1_000_000), self.file(8_000_000)
        receiver = self.receive(out=point)
        sent = self.end(self.send(f"{large}\n{small}"), code=1)
        self.assertEqual({it["file"]: it["state"] for it in sent}, {str(large): "failed", str(small): "acknowledged"})
        self.assertIn("SYS_CNCLD", next(it["reason"] for it in sent if it["state"] == "failed"))
        receiver.process.send_signal(signal.SIGINT)
        received = {it["state"]: it for it in self.end(receiver, code=INTERRUPTED)}
        self.assertIn("No space", received["failed"]["reason"])
        self.assert_came([received["received"]], small)

    def test_a_receiver_goes_on_when_its_full_disk_has_room_again(self) -> None:
        point = self.small_disk(3_000_000)
        file = self.file(1_000_000)
        for far in ((), ("--to", "2", "--report")):
            with self.subTest(far=far):
                receiver = self.receive(*(("--engine", "2") if far else ()), out=point)
                (point / "others").write_bytes(bytes(2_500_000))
                [sent] = self.end(self.send(*far, str(file)), code=1)
                self.assertIn("it has no room, or another trouble (SYS_CNCLD)", sent["reason"])
                self.assertIn("its disk", sent["hint"])
                self.assertEqual([path.name for path in point.iterdir()], ["others"])
                (point / "others").unlink()
                [sent] = self.end(self.send(*far, str(file)))
                self.assertEqual(sent["state"], "complete" if far else "acknowledged")
                [came] = point.iterdir()
                self.assertEqual(came.read_bytes(), file.read_bytes())
                came.unlink()
                receiver.process.send_signal(signal.SIGINT)
                self.end(receiver, code=INTERRUPTED)

    def test_a_full_disk_harms_no_other_file_where_datagrams_are_lost_both_ways(self) -> None:
        point = self.small_disk(3_000_000)
        relay = LossyRelay(0.05, seed=11)
        self.addCleanup(relay.close)
        back = free_port(socket.SOCK_DGRAM)
        large, small = self.file(8_000_000), [self.file(octets) for octets in (70_000, 500_000, 900_000)]
        receiver = self.receive("--reply", f"127.0.0.1:{relay.towards(('127.0.0.1', back))}", out=point)
        way = relay.towards(("127.0.0.1", self.port))
        files = [small[0], large, *small[1:]]
        sent = self.end(self.send("--bind", f"127.0.0.1:{back}", "\n".join(map(str, files)), port=way, rate="40Mbit"), code=1)
        states = {it["file"]: it["state"] for it in sent}
        self.assertEqual(states, {str(path): "failed" if path == large else "acknowledged" for path in files})
        self.assertIn("SYS_CNCLD", next(it["reason"] for it in sent if it["state"] == "failed"))
        receiver.process.send_signal(signal.SIGINT)
        received = self.end(receiver, code=INTERRUPTED)
        [lost] = [it for it in received if it["state"] == "failed"]
        self.assertIn("No space", lost["reason"])
        self.assert_came([it for it in received if it["state"] == "received"], *small)
        self.assertEqual(sum(path.stat().st_size for path in point.iterdir()), 1_470_000)

    def test_strangers_say_anything_and_files_cross_meanwhile(self) -> None:
        file = self.file(3_000_000)
        receiver = self.receive("--count", "1", "--from", "1")
        sender = self.send(str(file), rate="16Mbit")
        dice = random.Random(5)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for at in range(5_000):
                octets = dice.randbytes(dice.randrange(64))
                # Some of it nearly means something.
                if at % 2:
                    octets = bytes([dice.randrange(16), 1]) + sdnv(dice.randrange(1 << 31)) + octets
                stranger.sendto(octets, ("127.0.0.1", self.port))
            stranger.sendto(block(9, 5, b"from an engine that may not"), ("127.0.0.1", self.port))
        self.end(sender)
        received = self.end(receiver)
        self.assert_came([it for it in received if it["session"] and it["octets"] == 3_000_000], file)

    def strange(self, segments: list[bytes], host: str = "127.0.0.9") -> socket.socket:
        """A host that has sent segments to the receiver, one datagram each."""
        stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(stranger.close)
        stranger.bind((host, 0))
        stranger.settimeout(PATIENCE_S)
        for at, segment in enumerate(segments):
            stranger.sendto(segment, ("127.0.0.1", self.port))
            if at % 32 == 31:
                time.sleep(0.01)
        return stranger

    def test_one_host_with_all_engines_shuts_out_no_other(self) -> None:
        file = self.file(70_000)
        for options in ((), ("--engine", "2")):
            with self.subTest(options=options):
                receiver = self.receive("--count", "1", "--timeout", "30s", *options)
                stranger = self.strange([first_segment(100 + at, 5, at) for at in range(64)])
                self.end(self.send(str(file)))
                # Of all engines, one made room, and was told so.
                self.assertEqual((stranger.recv(2_000)[0] & 0xf), CANCELLED_BY_RECEIVER)
                received = self.end(receiver)
                self.assert_came([it for it in received if it["state"] == "received"], file)

    def test_one_host_with_all_files_shuts_out_no_other(self) -> None:
        file = self.file(70_000)
        for options in ((), ("--engine", "2", "--sessions", "512")):
            with self.subTest(options=options):
                receiver = self.receive("--count", "1", "--timeout", "30s", *options)
                self.strange([first_segment(100 + at // 250, 5 + at % 250, at) for at in range(512)])
                self.end(self.send(str(file)))
                received = self.end(receiver)
                self.assert_came([it for it in received if it["state"] == "received"], file)

    def test_segments_for_another_service_are_answered_and_take_no_place(self) -> None:
        receiver = self.receive("--count", "1")
        segments = [block(100 + at, 5, b"x") for at in range(64)]
        stranger = self.strange(segments)
        answers = [stranger.recv(2_000) for _ in segments]
        # Each is cancelled: no such client service (RFC 5326 6, 3.2.4).
        self.assertEqual({it[0] & 0xf for it in answers}, {CANCELLED_BY_RECEIVER})
        self.assertEqual({it[-1] for it in answers}, {1})
        file = self.file(70_000)
        self.end(self.send(str(file)))
        # Whoever has a place keeps its answer until that is acknowledged; of these none has.
        stranger.settimeout(0.3)
        with self.assertRaises(TimeoutError):
            stranger.recv(2_000)
        self.assert_came(self.end(receiver), file)

    def test_a_file_comes_once_though_its_report_is_lost_and_others_want_its_place(self) -> None:
        octets, file, later = b"a block of one segment", self.file(70_000), self.file(80_000)
        for options in ((), ("--engine", "2")):
            with self.subTest(options=options):
                receiver = self.receive("--count", "3", "--timeout", "30s", *options)
                segment = whole_block(7, 5, octets)
                unheard = self.strange([segment])
                self.assertEqual(unheard.recv(2_000)[0], 8)
                self.strange([first_segment(100 + at, 5, at) for at in range(63)], "127.0.0.10")
                self.end(self.send(str(file)))
                # The report did not come: the same is sent again.
                unheard.sendto(segment, ("127.0.0.1", self.port))
                self.end(self.send(str(later)))
                received = [it for it in self.end(receiver) if it["state"] == "received"]
                came = [Path(it["file"]).read_bytes() for it in received]
                self.assertEqual(came, [octets, file.read_bytes(), later.read_bytes()])

    def test_a_plain_block_of_another_program_is_a_file(self) -> None:
        octets = b"a block of one segment"
        receiver = self.receive("--count", "1")
        segment = whole_block(7, 5, octets)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as engine:
            engine.settimeout(PATIENCE_S)
            engine.sendto(segment, ("127.0.0.1", self.port))
            report = engine.recv(2_000)
        self.assertEqual(report[0], 8)
        [received] = self.end(receiver)
        self.assertEqual((received["engine"], received["session"]), (7, 5))
        self.assertEqual(Path(received["file"]).read_bytes(), octets)

    def test_a_red_part_that_is_longer_than_the_file_is_all_of_it(self) -> None:
        file = self.file(70_000)
        receiver = self.receive("--count", "1")
        [sent] = self.end(self.send("--red", "1GB", str(file)))
        self.assertEqual(sent["state"], "acknowledged")
        self.assert_came(self.end(receiver), file)

    def test_another_client_service_is_refused(self) -> None:
        receiver = self.receive("--timeout", "3s", "--service", "20000")
        [sent] = self.end(self.send(str(self.file(1_000))), code=1)
        self.assertIn("UNREACH", sent["reason"])
        self.end(receiver, code=1)

    def test_what_cannot_be_sent_is_said_before_anything_is_sent(self) -> None:
        empty = self.directory / "empty"
        empty.write_bytes(b"")
        self.port = 9
        for path, what in ((empty, "at least one octet"), (self.directory, "regular file"), (self.directory / "no", "No such file")):
            self.assertEqual(self.end(self.send(str(path)), code=1), [])
            self.assertIn(what, self.log())
        self.assertEqual(self.end(self.send("--key", str(self.file(3)), str(self.file(5))), code=2), [])

    def test_each_error_has_a_hint(self) -> None:
        file, taken = self.file(1_000), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(taken.close)
        taken.bind(("127.0.0.1", 0))
        port, to = taken.getsockname()[1], "2@127.0.0.1:9"
        plain = self.file(5)
        for arguments, code, what, hint in (
            (("send", "nowhere", to), 1, "cannot send nowhere: No such file", "look at its name"),
            (("send", str(self.directory), to), 1, "not a regular file", "tar cf"),
            (("send", "", to), 1, "cannot send '': No such file", "look at its name"),
            (("send", "n" * 256, to), 1, "File name too long", "no file can have it"),
            (("send", f"{file}/part", to), 1, "Not a directory", "no file can have it"),
            (("send", to, str(file)), 1, f"cannot find host '{file}'", "there is a file of this name"),
            (("send", to, str(file), "localhost:9"), 1, f"cannot send {to}", "the receiver is the last word"),
            (("send", str(file)), 2, "there is one word", "<FILE>... <ENGINE@HOST:PORT>"),
            (("send", str(file), "2@127.0.0.1:0"), 2, "nobody listens at port 0", "the last word"),
            (("send", str(file), "x@127.0.0.1"), 2, "'x@127.0.0.1' is no receiver", "the last word"),
            (("send", str(file), "2@host.invalid"), 1, "cannot find host", "look at its name"),
            (("send", str(file), to, "--bind", f"127.0.0.1:{port}"), 1, "cannot send from", "--bind names another"),
            (("recv", "--listen", f"127.0.0.1:{port}", "--out", str(self.inbox)), 1, "in use", "--listen names another"),
            (("recv", "--listen", "192.0.2.77:1", "--out", str(self.inbox)), 1, "cannot receive at", "does not have this address"),
            (("recv", "--listen", "127.0.0.1:0", "--out", str(plain)), 1, "cannot use directory", "--out names a directory"),
            (("recv", "--listen", "127.0.0.1:0", "--out", "/proc"), 1, "cannot write into directory /proc", "--out names a directory"),
        ):
            with self.subTest(arguments=arguments):
                (self.directory / "log").unlink(missing_ok=True)
                self.assertEqual(self.end(self.start("ltp", *arguments), code=code), [])
                self.assertIn(what, self.log())
                self.assertRegex(self.log(), "hint: .*" + re.escape(hint))

    def test_options_may_stand_anywhere(self) -> None:
        first, second = self.file(1_000), self.file(1_001)
        for words in (
            [str(first), "--red", "all", str(second), "--rate", RATE, "RECEIVER"],
            ["--red", "all", str(first), str(second), "RECEIVER", "--rate", RATE],
            [str(first), str(second), "--rate", RATE, "RECEIVER"],
        ):
            receiver = self.receive("--count", "2")
            words = [f"2@127.0.0.1:{self.port}" if it == "RECEIVER" else it for it in words]
            self.end(self.start("ltp", "send", *words))
            self.assert_came(self.end(receiver), first, second)

    def in_namespace(self, script: str) -> str:
        """What a script of the shell wrote, both outputs together, in a network namespace of its own."""
        if not shutil.which("unshare") or os.geteuid() != 0:
            self.skipTest("no namespaces")
        done = subprocess.run(
            ["unshare", "--net", "sh", "-c", script], cwd=self.directory, text=True, check=False, timeout=2 * PATIENCE_S,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "DHOW": self.binary})
        return done.stdout

    def test_a_sender_without_a_way_says_so_once_and_goes_on_when_there_is_one(self) -> None:
        file = self.file(70_000)
        said = self.in_namespace(f"""
            "$DHOW" ltp recv --listen 127.0.0.1:1113 --light-time 1ms --count 1 --timeout 30s --out in &
            "$DHOW" ltp send {file} 2@127.0.0.1 --light-time 1ms --rate {RATE} & sender=$!
            sleep 1.5; ip link set lo up; wait $sender; echo "exit $?"; wait""")
        self.assertEqual(said.count("no way leads to 127.0.0.1:1113 now"), 1, said)
        self.assertIn("acknowledged", said)
        self.assertIn("exit 0", said)

    def test_a_sender_whose_datagrams_the_system_refuses_says_why(self) -> None:
        file = self.file(1_000)
        said = self.in_namespace(f"""
            ip link set lo up; ip route add default dev lo
            timeout -s INT 2 "$DHOW" ltp send {file} 2@255.255.255.255 --light-time 1ms; echo "exit $?" """)
        self.assertEqual(said.count("the system does not send to 255.255.255.255:1113 (Permission denied"), 1, said)

    def test_a_way_that_takes_less_than_before_gets_shorter_datagrams(self) -> None:
        file = self.file(1_000_000)
        said = self.in_namespace(f"""
            ip link set lo up
            "$DHOW" ltp recv --listen 127.0.0.1:1113 --light-time 1ms --count 1 --timeout 30s --out in &
            "$DHOW" ltp send {file} 2@127.0.0.1 --light-time 1ms --rate 4Mbit & sender=$!
            sleep 0.7; ip link set lo mtu 700; wait $sender; echo "exit $?"; wait""")
        self.assertEqual(said.count("shorter ones leave from now on"), 1, said)
        self.assertIn("exit 0", said)

    def test_a_file_that_shrinks_fails_alone(self) -> None:
        shrinking, other = self.file(4_000_000), self.file(70_000)
        receiver = self.receive()
        sender = self.send(f"{shrinking}\n{other}", rate=SLOW_RATE)
        time.sleep(0.5)
        shrinking.write_bytes(b"short")
        sent = {it["file"]: it for it in self.end(sender, code=1)}
        self.assertIn("shorter", sent[str(shrinking)]["reason"])
        self.assertEqual(sent[str(other)]["state"], "acknowledged")
        receiver.process.send_signal(signal.SIGINT)
        received = self.end(receiver, code=INTERRUPTED)
        self.assert_came([it for it in received if it["state"] == "received"], other)

    def test_a_file_that_cannot_be_read_takes_no_green_octets_of_others_with_it(self) -> None:
        # It says that it has a page of octets, and has fewer.
        broken = Path("/sys/kernel/uevent_seqnum")
        if not broken.exists() or broken.stat().st_size < 100:
            self.skipTest("no such file")
        others = [self.file(octets) for octets in range(2_000, 2_030)]
        for far in ((), ("--to", "2")):
            with self.subTest(far=far):
                receiver = self.receive("--count", str(len(others)), "--timeout", "20s", *(("--engine", "2") if far else ()))
                files = [*others[:15], broken, *others[15:]]
                sent = self.end(self.send(*far, "--red", "none", "\n".join(map(str, files)), rate="40Mbit"), code=1)
                states = {it["file"]: it["state"] for it in sent}
                self.assertEqual(states, {str(path): "failed" if path == broken else "sent" for path in files})
                [failed] = [it for it in sent if it["state"] == "failed"]
                self.assertIn("shorter", failed["reason"])
                self.assertTrue(failed["hint"])
                received = [it for it in self.end(receiver) if it["state"] == "received"]
                came = sorted(Path(it["file"]).read_bytes() for it in received)
                self.assertEqual(came, sorted(path.read_bytes() for path in others))

    def test_files_of_any_name_cross_and_each_line_is_one(self) -> None:
        octets = random.Random(3).randbytes(3_000)
        names = [b"new\nline", b"n" * 255, b"no\xff\xfetext", b"\x1b[31mred", b"at@host", b"sub/../ordinary"]
        os.mkdir(self.directory / "sub")
        for name in names:
            with open(os.fsencode(self.directory) + b"/" + name, "wb") as file:
                file.write(octets)
        receiver = self.receive("--count", str(2 * len(names)))
        words = [os.fsencode(self.directory) + b"/" + name for name in names]
        for options in ([], ["--json"]):
            argv = [self.binary, "ltp", "send", *options, "--light-time", "1ms", "--rate", RATE, *words, f"2@127.0.0.1:{self.port}"]
            said = subprocess.run(argv, capture_output=True, timeout=PATIENCE_S, check=True)
            lines = said.stdout.splitlines()
            self.assertEqual(len(lines), len(names), said.stdout)
            self.assertNotIn(b"\x1b", said.stdout)
            if options:
                told = {json.loads(line)["file"] for line in lines}
                self.assertEqual(told, {os.fsencode(word).decode(errors="replace") for word in words})
        received = self.end(receiver)
        self.assertEqual({Path(it["file"]).read_bytes() for it in received}, {octets})
        # Nothing of a name crosses.
        self.assertEqual({re.sub("[0-9]+", "N", name) for name in self.kept()}, {"ltp-N-N"})

    def test_numbers_that_cannot_work_are_refused_with_the_reason(self) -> None:
        for option, words in (("--count", "0 is not in 1"), ("--timeout", "it would end at once"), ("--largest", "at least one octet")):
            with self.subTest(option=option):
                (self.directory / "log").unlink(missing_ok=True)
                self.assertEqual(self.end(self.start("ltp", "recv", "--listen", "127.0.0.1:0", option, "0"), code=2), [])
                self.assertIn(words, self.log())

    def test_a_sparse_file_that_takes_weeks_is_given_up_at_once_and_takes_no_memory(self) -> None:
        sparse = self.directory / "sparse"
        with sparse.open("wb") as file:
            file.truncate(5 << 30)
        for far in ((), ("--to", "2", "--report")):
            with self.subTest(far=far):
                receiver = self.receive(*(("--engine", "2") if far else ()))
                sender = self.send(*far, str(sparse), rate="9600bit")
                time.sleep(1.0)
                status = Path(f"/proc/{sender.process.pid}/status").read_text()
                [used] = re.findall(r"VmHWM:\s+(\d+) kB", status)
                self.assertLess(int(used), 200_000)
                sender.process.send_signal(signal.SIGINT)
                [sent] = self.end(sender, code=INTERRUPTED)
                self.assertEqual((sent["state"], sent["reason"]), ("failed", "the sender ended before it was acknowledged"))
                receiver.process.send_signal(signal.SIGINT)
                self.end(receiver, code=INTERRUPTED)
                self.assertEqual(self.kept(), [])

    def test_a_file_that_is_changed_in_place_fails_and_arrives_in_neither_state(self) -> None:
        changing, other = self.file(4_000_000), self.file(70_000)
        for far in ((), ("--to", "2")):
            with self.subTest(far=far):
                receiver = self.receive(*(("--engine", "2") if far else ()))
                sender = self.send(*far, f"{changing}\n{other}", rate=SLOW_RATE)
                time.sleep(0.7)
                with changing.open("r+b") as file:
                    file.seek(3_000_000)
                    file.write(b"other octets")
                sent = {it["file"]: it for it in self.end(sender, code=1)}
                self.assertEqual(sent[str(changing)]["state"], "failed")
                self.assertIn("changed while it was sent", sent[str(changing)]["reason"])
                self.assertEqual(sent[str(other)]["state"], "acknowledged")
                receiver.process.send_signal(signal.SIGINT)
                received = self.end(receiver, code=INTERRUPTED)
                came = [it["file"] for it in received if it["state"] == "received"]
                self.assertEqual([Path(it).read_bytes() for it in came], [other.read_bytes()])

    def test_tshark_finds_no_fault_in_what_is_sent(self) -> None:
        if reason := judge_missing():
            self.skipTest(reason)
        files = [self.file(octets) for octets in (1, 1_000, 70_000)]
        port = free_port(socket.SOCK_DGRAM)
        capture = Capture(self.crew, self.directory / "files.pcapng", [port], transport="udp", spoken="ltp")
        receiver = self.receive("--count", "3", name=f"127.0.0.1:{port}")
        self.end(self.send("\n".join(map(str, files))))
        self.assert_came(self.end(receiver), *files)
        capture.stop()
        self.assertEqual(capture.verdict("ltp").faults, [])
        services = capture.dissection.fields("ltp.data.offset", "ltp.data.client.id")
        self.assertTrue(services)
        self.assertEqual({it for line in services for it in line.split(",")}, {str(SERVICE)})
        self.assertTrue(capture.dissection.fields("ltp.rpt.sno", "ltp.rpt.sno"))
        self.assertTrue(capture.dissection.fields("ltp.rpt.ack.sno", "ltp.rpt.ack.sno"))


if __name__ == "__main__":
    sys.exit(unittest.main())
