"""Files over several hops of LTP without bundles: loss and unequal rates on the way, relays that die, and blocks that lead nowhere."""

import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from labs.rig.binary import dhow
from labs.rig.capture import Capture, judge_missing
from labs.rig.crew import Crew, Program
from labs.rig.lossy import LossyRelay
from labs.rig.node import free_port
from tests.ltp import sdnv

PATIENCE_S = 60.0

RATE = "200Mbit"

# Engines: of the sender, of relays, and of the receiver.
SOURCE, FIRST, SECOND, DESTINATION = 1, 2, 3, 9

SERVICE = 1 << 14

INTERRUPTED = 130


class LtpHops(unittest.TestCase):
    """A sender, relays behind each other, and a receiver."""

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="dhow-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.crew = Crew()
        self.addCleanup(self.crew.close)
        self.binary = str(dhow("debug"))
        self.inbox = self.directory / "inbox"
        self.events: dict[int, list[dict]] = {}

    def start(self, *arguments: str) -> Program:
        return self.crew.start([self.binary, "ltp", *arguments, "--json"], log=self.directory / "log")

    def log(self) -> str:
        path = self.directory / "log"
        return path.read_text() if path.exists() else ""

    def listen(self, *arguments: str, rate: str = RATE) -> tuple[Program, int]:
        """A program that listens, and its port."""
        options = () if "--listen" in arguments else ("--listen", "127.0.0.1:0")
        program = self.start(*arguments, *options, "--light-time", "1ms", "--rate", rate)
        line = program.line(PATIENCE_S)
        assert line is not None, self.log()
        return program, int(json.loads(line)["listening"].rpartition(":")[2])

    def receive(self, *options: str) -> tuple[Program, int]:
        return self.listen("recv", "--engine", str(DESTINATION), "--out", str(self.inbox), *options)

    def relay(self, engine: int, next_engine: int, next_port: int, *options: str, rate: str = RATE) -> tuple[Program, int]:
        return self.listen(
            "relay", "--engine", str(engine), "--dir", str(self.directory / f"spool{engine}"),
            "--route", f"{DESTINATION}={next_engine}@127.0.0.1:{next_port}", *options, rate=rate)

    def send(self, engine: int, port: int, file: Path, *options: str, rate: str = RATE, to: int = DESTINATION) -> Program:
        return self.start(
            "send", str(file), f"{engine}@127.0.0.1:{port}", "--to", str(to), "--light-time", "1ms", "--rate", rate,
            "--engine", str(SOURCE), *options)

    def file(self, octets: int) -> Path:
        path = self.directory / f"{octets}.file"
        path.write_bytes(random.Random(octets).randbytes(octets))
        return path

    def end(self, program: Program, code: int = 0) -> list[dict]:
        """The values that a program wrote, once it ended."""
        self.assertEqual(program.wait(PATIENCE_S), code, self.log())
        lines: list[dict] = []
        while (line := program.line(PATIENCE_S)) is not None:
            lines.append(json.loads(line))
        return lines

    def wait_for(self, program: Program, state: str) -> dict:
        """The next line of a program that tells this."""
        while (line := program.line(PATIENCE_S)) is not None:
            it = json.loads(line)
            if it.get("state") == state:
                return it
        self.fail(f"never {state}: {self.log()}")

    def interrupt(self, program: Program) -> list[dict]:
        program.process.send_signal(signal.SIGINT)
        return self.end(program, INTERRUPTED)

    def assert_came(self, lines: list[dict], *files: Path) -> None:
        received = [it for it in lines if it["state"] == "received"]
        came = sorted(Path(it["file"]).read_bytes() for it in received)
        self.assertEqual(came, sorted(path.read_bytes() for path in files))

    def cross(
            self, file: Path, engine: int, port: int, receiver: Program, *options: str, rate: str = RATE) -> tuple[dict, dict]:
        """Send a file with a report; what both ends said of it."""
        [sent] = self.end(self.send(engine, port, file, "--report", *options, rate=rate))
        self.assertEqual((sent["state"], sent["report"]["status"]), ("complete", "complete"))
        self.assertEqual(sent["report"]["octets"], file.stat().st_size)
        lines = self.end(receiver)
        self.assert_came(lines, file)
        [received] = [it for it in lines if it["state"] == "received"]
        self.assertEqual((received["source"], received["transfer"]), (SOURCE, sent["transfer"]))
        return sent, received

    def test_files_cross_one_two_and_three_hops_and_reports_come_back(self) -> None:
        for hops in (1, 2, 3):
            for passing in ((), ("--store-and-forward",)):
                with self.subTest(hops=hops, passing=passing):
                    receiver, port = self.receive("--count", "1")
                    engine, relays = DESTINATION, []
                    for number in range(1, hops):
                        relay, port = self.relay(FIRST + number, engine, port, *passing)
                        engine = FIRST + number
                        relays.append(relay)
                    sent, received = self.cross(self.file(700_000), engine, port, receiver)
                    self.assertEqual(received["hops"], 16 - (hops - 1))
                    for relay in relays:
                        lines = self.interrupt(relay)
                        mine = [it["state"] for it in lines if it["transfer"] == sent["transfer"]]
                        self.assertEqual(sorted(mine), ["coming", "leaving", "passed", "stored"])
                    for number in range(1, hops):
                        self.assertEqual(list((self.directory / f"spool{FIRST + number}").glob("block-*")), [])

    def test_relays_at_all_addresses_answer_from_the_one_that_was_sent_to(self) -> None:
        file = self.file(70_000)
        receiver, port = self.receive("--count", "1", "--listen", "0.0.0.0:0")
        route = f"{DESTINATION}={DESTINATION}@127.0.0.22:{port}"
        _, port = self.listen(
            "relay", "--engine", str(FIRST), "--dir", str(self.directory / "spool"), "--route", route, "--listen", "0.0.0.0:0")
        sender = self.start(
            "send", str(file), f"{FIRST}@127.0.0.23:{port}", "--to", str(DESTINATION), "--light-time", "1ms", "--rate", RATE, "--engine",
            str(SOURCE), "--report")
        [sent] = self.end(sender)
        self.assertEqual(sent["report"]["status"], "complete")
        self.assert_came(self.end(receiver), file)

    def test_a_file_leaves_a_relay_while_it_comes(self) -> None:
        receiver, port = self.receive("--count", "1")
        relay, port = self.relay(FIRST, DESTINATION, port)
        sender = self.send(FIRST, port, self.file(1_000_000), rate="8Mbit")
        first = self.wait_for(relay, "leaving")
        self.assertLess(first["octets"], 1_000_000)
        self.end(sender)
        self.assert_came(self.end(receiver), self.file(1_000_000))

    def test_all_arrives_where_datagrams_are_lost_both_ways_and_rates_differ(self) -> None:
        lossy = LossyRelay(0.05, seed=7)
        self.addCleanup(lossy.close)
        ports: list[int] = []
        while len(set(ports)) < 3:
            ports = [free_port(socket.SOCK_DGRAM) for _ in range(3)]
        near, middle, far = ports

        def over(port: int) -> int:
            return lossy.towards(("127.0.0.1", port))
        receiver, _ = self.receive(
            "--count", "1", "--listen", f"127.0.0.1:{far}", "--via", f"{FIRST}@127.0.0.1:{over(middle)}")
        self.relay(
            FIRST, DESTINATION, over(far), "--listen", f"127.0.0.1:{middle}",
            "--route", f"{SOURCE}={SOURCE}@127.0.0.1:{over(near)}", rate="20Mbit")
        file = self.file(2_000_000)
        self.cross(file, FIRST, over(middle), receiver, "--bind", f"127.0.0.1:{near}", rate="60Mbit")

    def test_green_parts_stay_green(self) -> None:
        for red in ("none", "10kB"):
            with self.subTest(red=red):
                receiver, port = self.receive("--count", "1")
                relay, port = self.relay(FIRST, DESTINATION, port)
                sent, _ = self.cross(self.file(60_000), FIRST, port, receiver, "--red", red, rate="40Mbit")
                self.interrupt(relay)

    def test_a_file_that_is_larger_than_memory_passes(self) -> None:
        receiver, port = self.receive("--count", "1")
        relay, port = self.relay(FIRST, DESTINATION, port)
        room = 40 << 20
        used = int(Path(f"/proc/{relay.process.pid}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.prlimit(relay.process.pid, resource.RLIMIT_AS, (used + room, used + room))
        self.cross(self.file(48 << 20), FIRST, port, receiver, rate="400Mbit")

    def test_a_relay_that_is_killed_goes_on_with_what_it_acknowledged(self) -> None:
        far, near = (free_port(socket.SOCK_DGRAM) for _ in range(2))
        relay, _ = self.relay(FIRST, DESTINATION, far, "--listen", f"127.0.0.1:{near}")
        file = self.file(300_000)
        [sent] = self.end(self.send(FIRST, near, file))
        self.assertEqual(sent["state"], "acknowledged")
        relay.kill()
        receiver, _ = self.receive("--listen", f"127.0.0.1:{far}", "--count", "1")
        again, _ = self.relay(FIRST, DESTINATION, far, "--listen", f"127.0.0.1:{near}")
        self.assertEqual(self.wait_for(again, "resumed")["transfer"], sent["transfer"])
        self.assert_came(self.end(receiver), file)
        self.wait_for(again, "passed")
        self.interrupt(again)
        self.assertEqual(list((self.directory / f"spool{FIRST}").glob("block-*")), [])

    def test_a_file_that_came_when_the_relay_was_killed_comes_again(self) -> None:
        near = free_port(socket.SOCK_DGRAM)
        receiver, far = self.receive("--count", "1")
        relay, _ = self.relay(FIRST, DESTINATION, far, "--listen", f"127.0.0.1:{near}")
        file = self.file(2_000_000)
        sender = self.send(FIRST, near, file, "--report", rate="8Mbit")
        self.wait_for(relay, "leaving")
        relay.kill()
        self.relay(FIRST, DESTINATION, far, "--listen", f"127.0.0.1:{near}")
        [sent] = self.end(sender)
        self.assertEqual(sent["report"]["status"], "complete")
        self.assert_came(self.end(receiver), file)

    def test_blocks_that_lead_nowhere_are_told_to_their_source(self) -> None:
        _, port = self.relay(FIRST, SECOND, free_port(socket.SOCK_DGRAM))
        cases = [
            (("--report",), 77, "no route"),
            (("--report", "--hops", "1"), DESTINATION, "no route"),
            (("--report", "--lifetime", "1s"), DESTINATION, "expired"),
            (("--report",), FIRST, "no route"),
        ]
        for options, to, status in cases:
            with self.subTest(options=options, to=to):
                [sent] = self.end(self.send(FIRST, port, self.file(30_000), *options, to=to), 1)
                self.assertEqual((sent["state"], sent["report"]["status"]), ("failed", status))
                self.assertIn(f"as engine {FIRST} reports", sent["reason"])
                self.assertTrue(sent["hint"])

    def test_a_block_whose_next_hop_is_away_expires_at_the_relay(self) -> None:
        _, port = self.relay(FIRST, SECOND, free_port(socket.SOCK_DGRAM))
        [sent] = self.end(self.send(FIRST, port, self.file(30_000), "--report", "--lifetime", "2s"), 1)
        self.assertEqual(sent["state"], "failed")
        self.assertIn("life ended", sent["reason"])
        self.assertIsNotNone(sent["seconds"], "the relay had it")

    def test_a_loop_ends_where_the_hops_end(self) -> None:
        there, back = (free_port(socket.SOCK_DGRAM) for _ in range(2))
        first, _ = self.relay(FIRST, SECOND, back, "--listen", f"127.0.0.1:{there}")
        second, _ = self.relay(
            SECOND, FIRST, there, "--listen", f"127.0.0.1:{back}", "--route", f"{SOURCE}={FIRST}@127.0.0.1:{there}")
        [sent] = self.end(self.send(FIRST, there, self.file(30_000), "--report", "--hops", "5"), 1)
        self.assertEqual(sent["state"], "failed")
        lines = self.interrupt(first) + self.interrupt(second)
        coming = [it for it in lines if it["state"] == "coming" and it["transfer"] == sent["transfer"]]
        self.assertEqual(sorted(it["hops"] for it in coming), [1, 2, 3, 4, 5])
        self.assertEqual([it["reason"] for it in lines if it["state"] == "dropped"], ["no route"])

    def test_a_sender_that_gives_up_ends_the_block_on_all_hops(self) -> None:
        receiver, port = self.receive("--timeout", "20s")
        relay, port = self.relay(FIRST, DESTINATION, port)
        sender = self.send(FIRST, port, self.file(4_000_000), rate="8Mbit")
        self.wait_for(receiver, "coming")
        self.interrupt(sender)
        self.assertIn("SYS_CNCLD", self.wait_for(relay, "failed")["reason"])
        self.assertIn("SYS_CNCLD", self.wait_for(receiver, "failed")["reason"])
        self.assertEqual(list(self.inbox.iterdir()), [])
        self.interrupt(relay)
        self.assertEqual(list((self.directory / f"spool{FIRST}").glob("block-*")), [])

    def test_a_block_that_meets_a_queue_says_so(self) -> None:
        for blocks, is_congested in (("1", True), ("8", False)):
            with self.subTest(blocks=blocks):
                receiver, port = self.receive("--count", "1")
                relay, port = self.relay(FIRST, DESTINATION, port, "--blocks", blocks)
                [sent] = self.end(self.send(FIRST, port, self.file(3_000)))
                [received] = [it for it in self.end(receiver) if it["state"] == "received"]
                self.assertEqual(received["is_congested"], is_congested)
                self.interrupt(relay)

    def test_limits_are_refused_as_the_standard_says(self) -> None:
        _, port = self.relay(FIRST, DESTINATION, free_port(socket.SOCK_DGRAM), "--disk", "20kB")
        [sent] = self.end(self.send(FIRST, port, self.file(30_000)), 1)
        self.assertIn("SYS_CNCLD", sent["reason"])

    def test_each_failure_says_what_is_wrong_and_what_to_do(self) -> None:
        nobody = free_port(socket.SOCK_DGRAM)
        _, other_service = self.listen("recv", "--out", str(self.inbox), "--service", "20000")
        _, small = self.listen("recv", "--out", str(self.inbox), "--largest", "10kB")
        _, full = self.relay(FIRST, DESTINATION, nobody, "--disk", "20kB")
        for port, options, reason, hint in (
            (nobody, ("--lifetime", "1s"), "life ended before the next hop had it", "--lifetime"),
            (other_service, (), "the next hop has no such client service (UNREACH)", "--service"),
            (small, (), "the next hop cancelled the session (USR_CNCLD)", "--largest"),
            (full, (), "the next hop cancelled the session: it has no room", "--disk"),
        ):
            with self.subTest(reason=reason):
                (self.directory / "log").unlink(missing_ok=True)
                [sent] = self.end(self.send(FIRST, port, self.file(30_000), *options), 1)
                self.assertEqual(sent["state"], "failed")
                self.assertIn(reason, sent["reason"])
                self.assertIn(hint, sent["hint"])
        words = ["send", str(self.file(30_000)), f"{FIRST}@127.0.0.1:{small}", "--to", "9", "--light-time", "1ms", "--rate", RATE]
        said = subprocess.run([self.binary, "ltp", *words], capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(said.returncode, 1)
        self.assertIn("the next hop cancelled the session (USR_CNCLD)", said.stderr)
        self.assertIn("hint: the next hop was ended, or says why", said.stderr)

    def test_a_file_that_is_too_large_for_the_far_engine_is_told_to_its_source(self) -> None:
        for passing in ((), ("--store-and-forward",)):
            with self.subTest(passing=passing):
                receiver, port = self.receive("--largest", "20kB")
                first, port = self.relay(FIRST, DESTINATION, port, *passing)
                second, port = self.relay(SECOND, FIRST, port, *passing)
                self.assertEqual(self.end(self.send(SECOND, port, self.file(20_000), "--report"))[0]["state"], "complete")
                [sent] = self.end(self.send(SECOND, port, self.file(20_001), "--report"), 1)
                self.assertEqual((sent["state"], sent["report"]["status"]), ("failed", "too large"))
                self.assertIn(f"as engine {DESTINATION} reports", sent["reason"])
                self.assertIn("--largest", sent["hint"])
                dropped = [it for it in self.interrupt(receiver) if it["state"] == "dropped"]
                self.assertEqual([it["reason"] for it in dropped], ["too large"])
                [kept] = self.inbox.iterdir()
                kept.unlink()
                for relay, engine in ((first, FIRST), (second, SECOND)):
                    self.interrupt(relay)

    def test_a_file_that_a_next_hop_refuses_without_a_report_is_told_to_its_source(self) -> None:
        # A receiver that knows nothing of several hops cancels the session, and that is all.
        _, port = self.listen("recv", "--out", str(self.inbox), "--largest", "20kB")
        relay, port = self.relay(FIRST, DESTINATION, port, "--store-and-forward")
        [sent] = self.end(self.send(FIRST, port, self.file(70_000), "--report"), 1)
        self.assertEqual((sent["state"], sent["report"]["status"]), ("failed", "given up"))
        self.assertIn(f"as engine {FIRST} reports", sent["reason"])
        self.assertIn("--largest", sent["hint"])
        self.assertIsNotNone(sent["seconds"], "the relay had it")
        self.interrupt(relay)

    def test_a_relay_that_is_killed_still_reports_what_it_gave_up(self) -> None:
        near = free_port(socket.SOCK_DGRAM)
        _, far = self.listen("recv", "--out", str(self.inbox), "--service", "20000")
        options = ("--store-and-forward", "--listen", f"127.0.0.1:{near}")
        relay, _ = self.relay(FIRST, DESTINATION, far, *options)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
            source.bind(("127.0.0.1", 0))
            source.sendto(segment(5, extensions(control=1), b"a block that nobody takes"), ("127.0.0.1", near))
            self.wait_for(relay, "dropped")
            # The report is not acknowledged. It is durable some time after it has left.
            spool = self.directory / f"spool{FIRST}"
            until = time.monotonic() + PATIENCE_S
            while [it.name.split("-")[:2] for it in spool.glob("block-*")] != [["block", str(FIRST)]]:
                self.assertLess(time.monotonic(), until, sorted(spool.iterdir()))
                time.sleep(0.01)
            relay.kill()
            source.setblocking(False)
            with self.assertRaises(BlockingIOError):
                while True:
                    source.recv(2_000)
            # No route leads to the source: the way that its block came is known.
            again, _ = self.relay(FIRST, DESTINATION, far, *options)
            resumed = self.wait_for(again, "resumed")
            self.assertEqual((resumed["source"], resumed["destination"], resumed["is_report"]), (FIRST, SOURCE, True))
            source.setblocking(True)
            source.settimeout(PATIENCE_S)
            while (told := source.recv(2_000))[0] & 0xf != 3:
                pass
            # Transfer 77, no route, no claims but that of the block.
            self.assertTrue(told.endswith(sdnv(77) + b"\x03" + sdnv(1) + sdnv(0) + sdnv(25)), told)
        self.interrupt(again)
        self.assertEqual(len(list(spool.glob("block-*"))), 1, "it is still not acknowledged")

    def test_a_relay_that_was_killed_knows_the_way_back_of_reports(self) -> None:
        near = free_port(socket.SOCK_DGRAM)
        options = ("--listen", f"127.0.0.1:{near}")
        relay, _ = self.relay(FIRST, DESTINATION, free_port(socket.SOCK_DGRAM), *options)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
            source.bind(("127.0.0.1", 0))
            source.settimeout(PATIENCE_S)
            # It is still coming when the relay dies.
            source.sendto(segment(5, extensions(), b"the beginning of a block", kind=0), ("127.0.0.1", near))
            self.wait_for(relay, "coming")
            relay.kill()
            again, _ = self.relay(FIRST, DESTINATION, free_port(socket.SOCK_DGRAM), *options)
            report = extensions(transfer=500, control=2, source=DESTINATION, destination=SOURCE)
            far.sendto(segment(8, report, sdnv(77) + b"\0\0", engine=DESTINATION), ("127.0.0.1", near))
            while (told := source.recv(2_000))[0] & 0xf != 3:
                pass
            self.assertTrue(told.endswith(sdnv(77) + b"\0\0"), told)
        self.interrupt(again)

    def test_a_next_hop_is_answered_about_sessions_of_before_the_relay_began(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hop:
            hop.bind(("127.0.0.1", 0))
            hop.settimeout(PATIENCE_S)
            relay, port = self.relay(FIRST, SECOND, hop.getsockname()[1])
            session = sdnv(FIRST) + sdnv(4_711) + b"\0"
            # RFC 5326 6.13, 6.17: a report and a cancellation.
            for said, answer in ((b"\x08" + session + b"\x09\0\x05\0\x01\0\x05", b"\x09" + session + b"\x09"), (b"\x0e" + session + b"\0", b"\x0f" + session)):
                hop.sendto(said, ("127.0.0.1", port))
                self.assertEqual(hop.recv(2_000), answer)
        self.interrupt(relay)

    def test_a_report_that_never_comes_ends_with_the_life(self) -> None:
        receiver, port = self.receive("--via", f"{FIRST}@127.0.0.1:{free_port(socket.SOCK_DGRAM)}")
        [sent] = self.end(self.send(DESTINATION, port, self.file(3_000), "--report", "--lifetime", "2s"), 1)
        self.assertEqual((sent["state"], sent["report"]), ("failed", None))
        self.assertIn("no report", sent["reason"])
        self.assertIn("look before it is sent again", sent["hint"])
        self.assertEqual(len(list(self.inbox.iterdir())), 1)

    def test_a_transfer_that_comes_twice_is_one_file(self) -> None:
        receiver, port = self.receive()
        octets = b"the same"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.sendto(segment(5, extensions(), octets), ("127.0.0.1", port))
            self.wait_for(receiver, "received")
            stranger.sendto(segment(6, extensions(), octets), ("127.0.0.1", port))
            self.wait_for(receiver, "duplicate")
        self.assertEqual([path.read_bytes() for path in self.inbox.iterdir()], [octets])

    def test_hostile_extensions_are_counted_and_files_cross_meanwhile(self) -> None:
        receiver, far = self.receive("--count", "1")
        relay, port = self.relay(FIRST, DESTINATION, far)
        source = random.Random(11)
        good = extensions()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for number in range(400):
                parts = list(good)
                at = source.randrange(len(parts))
                match number % 4:
                    case 0:
                        parts.pop(at)
                    case 1:
                        parts.append(parts[at])
                    case 2:
                        parts[at] = parts[at][:1] + sdnv(9) + source.randbytes(9)
                    case _:
                        parts[at] = parts[at][:1] + b"\x00"
                stranger.sendto(segment(number, parts, b"x"), ("127.0.0.1", port))
            self.cross(self.file(70_000), FIRST, port, receiver)
        self.assertIn("several hops", self.log())

    def test_strangers_take_no_place_of_neighbours_that_routes_name(self) -> None:
        receiver, far = self.receive("--count", "1")
        here = free_port(socket.SOCK_DGRAM)
        relay, port = self.relay(FIRST, DESTINATION, far, "--blocks", "80", "--route", f"{SOURCE}={SOURCE}@127.0.0.1:{here}")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            # Red data of 100 engines, of which no end ever comes.
            for engine in range(100, 200):
                stranger.sendto(segment(1, extensions(engine), b"x", kind=0, engine=engine), ("127.0.0.1", port))
            self.cross(self.file(70_000), FIRST, port, receiver, "--bind", f"127.0.0.1:{here}")
        self.assertIn("no room for a block of engine 140", self.log())

    def test_a_directory_is_that_of_one_relay_and_odd_things_in_it_are_passed_over(self) -> None:
        spool = self.directory / f"spool{FIRST}"
        (spool / "block-1-1").mkdir(parents=True)
        os.mkfifo(spool / "block-1-2")
        receiver, far = self.receive("--count", "1")
        relay, port = self.relay(FIRST, DESTINATION, far)
        argv = [self.binary, "ltp", "relay", "--engine", "5", "--listen", "127.0.0.1:0", "--dir", str(spool)]
        second = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(second.returncode, 1, second.stderr)
        self.assertIn("another relay uses", second.stderr)
        self.assertIn("--dir", second.stderr)
        self.cross(self.file(70_000), FIRST, port, receiver)

    def test_parts_that_contradict_each_other_end_no_relay(self) -> None:
        _, far = self.receive()
        relay, port = self.relay(FIRST, DESTINATION, far)
        red, red_end, green, block_end = 0, 2, 4, 7
        stories = [
            [(red, 0, 1_000), (green, 1_000, 1_000), (red_end, 500, 500)],
            [(red_end, 0, 1_000), (block_end, 1_000, 0)],
            [(green, 0, 1_000), (red_end, 0, 700), (block_end, 1_000, 10)],
            [(red, 0, 1_000), (green, 500, 1_000), (red_end, 0, 1_000), (block_end, 1_500, 1)],
            [(red, 0, 1_000), (block_end, 1_000, 9)],
        ]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for session, story in enumerate(stories, 1):
                parts = extensions(transfer=session)
                for kind, offset, length in story:
                    head = parts if offset == 0 else []
                    stranger.sendto(segment(session, head, bytes(length), kind, offset), ("127.0.0.1", port))
        [sent] = self.end(self.send(FIRST, port, self.file(70_000), "--report"))
        self.assertEqual(sent["state"], "complete")
        lines = self.interrupt(relay)
        self.assertEqual(len([it for it in lines if it["state"] == "coming" and it["transfer"] <= len(stories)]), len(stories))

    def test_a_plain_receiver_takes_the_last_hop_and_a_file_without_extensions_is_taken(self) -> None:
        plain, port = self.listen("recv", "--out", str(self.inbox), "--count", "1")
        _, port = self.relay(FIRST, DESTINATION, port)
        file = self.file(70_000)
        self.end(self.send(FIRST, port, file))
        self.assert_came(self.end(plain), file)
        receiver, port = self.receive("--count", "1")
        self.end(self.start("send", str(file), f"{DESTINATION}@127.0.0.1:{port}", "--light-time", "1ms"))
        self.assert_came(self.end(receiver), file)

    def test_tshark_finds_no_fault_and_shows_the_extensions(self) -> None:
        if reason := judge_missing():
            self.skipTest(reason)
        receiver, far = self.receive("--count", "1")
        capture = Capture(self.crew, self.directory / "hops.pcapng", [far], transport="udp", spoken="ltp")
        _, port = self.relay(FIRST, DESTINATION, far)
        self.cross(self.file(70_000), FIRST, port, receiver)
        capture.stop()
        self.assertEqual(capture.verdict("ltp").faults, [])
        # Its values of several extensions are those of the first.
        counts = capture.dissection.fields("ltp.hdr.extn.cnt", "ltp.hdr.extn.cnt")
        self.assertIn("7", {count for line in counts for count in line.split(",")})

    def test_what_cannot_be_is_said_at_once(self) -> None:
        file = str(self.file(10))
        for arguments, words in [
            (("send", file, "127.0.0.1:9", "--to", "3"), "has no ID"),
            (("send", file, "2@127.0.0.1:9", "--to", "3", "--mtu", "200"), "no room"),
            (("send", file, "2@127.0.0.1:9", "--report"), "--to"),
            (("relay", "--engine", "1", "--route", "3=127.0.0.1:9"), "no engine ID"),
            (("relay", "--engine", "1", "--route", "1=2@127.0.0.1:9"), "is this one"),
            (("relay", "--engine", "1", "--route", "3=1@127.0.0.1:9"), "no next hop"),
            (("relay", "--engine", "1", "--default", "2@127.0.0.1:0"), "nobody listens at port 0"),
            (("relay", "--engine", "1", "--route", "3=2@127.0.0.1:9", "--route", "3=4@127.0.0.1:9"), "two routes"),
        ]:
            with self.subTest(arguments=arguments):
                ended = subprocess.run([self.binary, "ltp", *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
                self.assertEqual(ended.returncode, 2, ended.stderr)
                self.assertIn(words, ended.stderr)
                self.assertRegex(ended.stderr, "hint: |For more information")


def extensions(transfer: int = 77, control: int = 0, source: int = SOURCE, destination: int = DESTINATION) -> list[bytes]:
    """Those of a block for the receiver (docs/ltp.md)."""
    values = [
        sdnv(source) + sdnv(SERVICE), sdnv(destination) + sdnv(SERVICE), sdnv(transfer), sdnv(0), sdnv(3_600), b"\x10", bytes([control])]
    return [bytes([0xc0 + at]) + sdnv(len(value)) + value for at, value in enumerate(values)]


def segment(session: int, parts: list[bytes], octets: bytes, kind: int = 3, offset: int = 0, engine: int = SOURCE) -> bytes:
    """A segment with header extensions, by itself a red block (RFC 5326 3.2.1)."""
    numbers = sdnv(engine) + sdnv(session)
    head = bytes([kind]) + numbers + bytes([len(parts) << 4]) + b"".join(parts)
    serials = sdnv(7) + sdnv(0) if kind in (1, 2, 3) else b""
    return head + sdnv(SERVICE) + sdnv(offset) + sdnv(len(octets)) + serials + octets


if __name__ == "__main__":
    unittest.main()
