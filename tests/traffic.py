"""Packets of `dhow otg` and `dhow iperf` are counted and measured one by one; experiments in OEDL become scenarios."""

import contextlib
import fcntl
import json
import re
import shutil
import socket
import sqlite3
import struct
import subprocess
import tempfile
import termios
import threading
import time
import tomllib
import unittest
from pathlib import Path

from labs.rig.binary import ROOT, dhow
from labs.rig.crew import Crew, Program
from labs.rig.network import namespaces_possible
from labs.rig.node import free_port

PATIENCE_S = 30.0
PACKET_FIELDS = "ts:double flow_id:guid seq_no:uint32 pkt_length:uint32 dst_host:string dst_port:uint32"
LISTINGS = ("iperf-all", "iperf-aggregated", "otg-all", "otg-aggregated")


class Session:
    """The output of a program for a collector, as text: schemas and rows by the names of tables."""

    def __init__(self, path: Path) -> None:
        head, _, body = path.read_text().partition("\n\n")
        self.fields: dict[str, str] = {}
        self.rows: dict[str, list[list[str]]] = {}
        self._names: dict[str, str] = {}
        for line in head.splitlines():
            key, _, value = line.partition(": ")
            if key == "schema":
                self._declare(value)
        for line in body.splitlines():
            _, number, _, *values = line.split("\t")
            if values[:2] == [".", "schema"]:
                self._declare(values[2])
            else:
                self.rows[self._names[number]].append(values)

    def _declare(self, schema: str) -> None:
        number, name, *fields = schema.split()
        self._names[number] = name
        self.fields[name] = " ".join(fields)
        self.rows.setdefault(name, [])


class Way:
    """Between two sockets on loopback: of ten datagrams it loses the third and gives the fifth and the sixth twice."""

    def __init__(self, port: str) -> None:
        self.to = ("127.0.0.1", int(port))
        self.here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.here.bind(("127.0.0.1", 0))
        self.port = str(self.here.getsockname()[1])
        self.came = self.lost = self.again = 0
        self.thread = threading.Thread(target=self._carry)
        self.thread.start()

    def _carry(self) -> None:
        sender = self.to
        while True:
            octets, source = self.here.recvfrom(65536)
            if not octets:
                return
            if source == self.to:
                self.here.sendto(octets, sender)
                continue
            sender = source
            # The last datagrams of iperf ask for an answer: their numbers are below 0.
            if octets[0] & 0x80 and octets[:2] != b"\xaa\xaa":
                self.here.sendto(octets, self.to)
                continue
            place = self.came % 10
            self.came += 1
            self.lost += place == 2
            self.again += place in (4, 5)
            for _ in range({2: 0, 4: 2, 5: 2}.get(place, 1)):
                self.here.sendto(octets, self.to)

    def close(self) -> None:
        """Carries nothing more."""
        self.here.sendto(b"", ("127.0.0.1", int(self.port)))
        self.thread.join()
        self.here.close()


class Traffic(unittest.TestCase):
    """Programs on loopback, in a directory of their own."""

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="dhow-traffic-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.crew = Crew()
        self.addCleanup(self.crew.close)

    def start(self, *words: str) -> Program:
        """A program of ours."""
        return self.crew.start([str(dhow("debug")), *words])

    def run_ours(self, *words: str, typed: str = "", patience_s: float = PATIENCE_S) -> subprocess.CompletedProcess:
        """A command of ours, to its end."""
        return subprocess.run(
            [str(dhow("debug")), *words], input=typed, capture_output=True, text=True, check=False, timeout=patience_s)

    def receive(self, *words: str) -> tuple[Program, str]:
        """A receiver that is ready, and its port."""
        receiver = self.start("otr", "--udp:local_host", "127.0.0.1", "--udp:local_port", "0", "--json", *words)
        return receiver, str(json.loads(str(receiver.line(PATIENCE_S)))["port"])

    def measured(self, name: str) -> tuple[Path, str]:
        """The destination of a program's measurements."""
        path = self.directory / f"{name}.oml"
        return path, f"file:{path}"

    def test_each_datagram_is_measured_at_both_ends(self) -> None:
        came, into = self.measured("in")
        left, out = self.measured("out")
        receiver, port = self.receive("--count", "500", "--duration", "20s", "--oml-collect", into)
        sent = self.run_ours(
            "otg", "-g", "cbr", "--cbr:size", "1470", "--cbr:rate", "20e6", "--udp:dst_host", "127.0.0.1", "--udp:dst_port", port,
            "--flow:id", "18000000000000000042", "--count", "500", "--json", "--oml-collect", out)
        self.assertEqual((sent.returncode, sent.stderr), (0, ""))
        self.assertEqual(json.loads(sent.stdout)["octets"], 500 * 1470)
        received = json.loads(str(receiver.line(PATIENCE_S)))
        flow = received["flows"][0]
        # A busy machine loses datagrams on loopback, too: what came is measured, and the rest is counted as lost.
        came_by = flow["packets"]
        self.assertEqual((flow["flow"], came_by + flow["lost"]), (18000000000000000042, 500))
        self.assertGreater(came_by, 0)
        self.assertGreaterEqual(flow["delay_s"]["min"], 0)
        # 499 intervals of 1470 × 8 bits at 20 Mbit/s.
        self.assertGreater(flow["active_s"], 0.25)
        self.assertEqual(receiver.wait(PATIENCE_S), 0)
        ours, theirs = Session(left), Session(came)
        self.assertEqual(ours.fields["otg2_udp_out"], PACKET_FIELDS)
        self.assertEqual(theirs.fields["otr2_udp_in"], PACKET_FIELDS)
        departures, arrivals = ours.rows["otg2_udp_out"], theirs.rows["otr2_udp_in"]
        self.assertEqual([int(row[2]) for row in departures], list(range(1, 501)))
        numbers = [int(row[2]) for row in arrivals]
        self.assertEqual((len(numbers), numbers), (came_by, sorted(set(numbers))))
        for rows in (departures, arrivals):
            self.assertEqual({(row[1], row[3], row[4]) for row in rows}, {("18000000000000000042", "1470", "127.0.0.1")})
        self.assertEqual({row[5] for row in departures}, {port})
        self.assertTrue(all(float(departures[int(back[2]) - 1][0]) <= float(back[0]) for back in arrivals))

    def way(self, port: str) -> Way:
        """A way that loses datagrams and doubles others."""
        way = Way(port)
        self.addCleanup(way.close)
        return way

    def test_a_datagram_that_comes_again_is_a_duplicate_and_makes_up_for_no_loss(self) -> None:
        receiver, port = self.receive()
        way = self.way(port)
        # Slow enough that loopback loses nothing; the last one arrives, so that the receiver knows of all.
        self.run_ours("otg", "--udp:dst_host", "127.0.0.1", "--udp:dst_port", way.port, "--cbr:rate", "2e6", "--count", "200")
        while way.came < 200:
            time.sleep(0.01)
        receiver.process.terminate()
        told = json.loads(str(receiver.line(PATIENCE_S)))
        flow = told["flows"][0]
        self.assertEqual((way.lost, way.again), (20, 40))
        self.assertEqual((flow["packets"], flow["lost"], flow["duplicates"], flow["out_of_order"]), (180, 20, 40, 0))
        self.assertEqual((told["packets"], flow["octets"]), (180, 180 * 512))

    def test_an_iperf_server_tells_duplicates_by_themselves(self) -> None:
        path, target = self.measured("iperf")
        port = str(free_port())
        server = self.start("iperf", "-s", "-u", "-B", "127.0.0.1", "-p", port, "--figures", "--oml-collect", target)
        self.wait_until_bound(port)
        way = self.way(port)
        said = self.ask_until_answered("iperf", way.port)
        figures = [json.loads(str(server.line(PATIENCE_S))) for _ in range(9)]
        value = {figure["figure"]: figure["value"] for figure in figures}
        server.process.terminate()
        server.wait(PATIENCE_S)
        # The client gives the server the number of all that it sent, and both say what came of them.
        self.assertEqual(self.reported(said), (10, 100))
        self.assertEqual((value["packets"], value["lost"], value["duplicates"], value["octets"]), (90, 0.1, 20, 90_000))
        rows = Session(path).rows
        self.assertEqual(rows["iperf_losses"][-1][4:], ["100", "10"])
        self.assertEqual(len([row for row in rows["iperf_packets"] if row[3] == "1000"]), 110)

    def test_octets_that_only_wait_in_a_socket_are_no_rate(self) -> None:
        for words in (("iperf", "-t", "0.5", "-c", "127.0.0.1", "-p"),
                      ("otg", "-p", "tcp", "--duration", "500ms", "--cbr:size", "9000", "--cbr:rate", "1e9", "--udp:dst_host", "127.0.0.1", "--udp:dst_port")):
            with self.subTest(words[0]), socket.create_server(("127.0.0.1", 0)) as listener:
                sent = self.run_ours(*words, str(listener.getsockname()[1]), "--figures")
                self.assertEqual((sent.returncode, sent.stderr), (0, ""))
                value = {figure["figure"]: figure["value"] for figure in map(json.loads, sent.stdout.splitlines())}
                stream, _ = listener.accept()
                with stream:
                    # Nobody reads: as much has arrived as is in the receiver's socket, and more was given to the sender's.
                    arrived, = struct.unpack("i", fcntl.ioctl(stream, termios.FIONREAD, bytes(4)))
                    self.assertGreater(arrived, 0)
                    self.assertLessEqual(value["rate"] * 0.5 / 8, arrived)
                    while stream.recv(1 << 20):
                        pass

    def test_a_sender_follows_its_standard_input(self) -> None:
        receiver, port = self.receive("-g", "tcp", "--duration", "20s")
        sent = self.run_ours(
            "otg", "-p", "tcp", "--tcp:dst_host", "127.0.0.1", "--tcp:dst_port", port, "--cbr:size", "100", "--cbr:rate", "8000",
            "--tcp:local_host", "127.0.0.2", "--at", "400ms exit", "--json", typed="cbr:size 300\ncbr:rate 1e6\nfly\n")
        self.assertEqual(sent.returncode, 0)
        self.assertIn("'fly' is none of pause, resume, exit", sent.stderr)
        told = json.loads(sent.stdout)
        # 300 octets at 1 Mbit/s, for 0.4 s less what starting takes, and not the 4 packets of the first rate.
        self.assertGreater(told["packets"], 20)
        self.assertLessEqual(told["packets"], 168)
        self.assertGreater(told["octets"], 299 * (told["packets"] - 1))
        receiver.process.terminate()
        received = json.loads(str(receiver.line(PATIENCE_S)))
        self.assertEqual((received["packets"], received["flows"][0]["octets"]), (told["packets"], told["octets"]))
        self.assertTrue(received["flows"][0]["from"].startswith("127.0.0.2:"), received["flows"])

    def test_what_is_planned_and_cannot_be_followed_is_refused_before_anything_leaves(self) -> None:
        for command, reason in (("cbr:size 3", "3 octets are not from"), ("exp:rate 5", "no property"), ("cbr:rate x", "cannot be 'x'")):
            refused = self.run_ours("otg", "-p", "null", "--count", "1", "--at", f"1h {command}")
            self.assertEqual((refused.returncode, refused.stdout), (2, ""))
            self.assertIn(reason, refused.stderr)

    def test_what_no_collector_took_is_kept_when_a_receiver_is_ended(self) -> None:
        nobody = str(free_port())
        log = self.directory / "otr.log"
        receiver = self.crew.start(
            [str(dhow("debug")), "otr", "--udp:local_host", "127.0.0.1", "--udp:local_port", "0", "--json",
             "--oml-collect", f"tcp:127.0.0.1:{nobody}"], log=log)
        port = str(json.loads(str(receiver.line(PATIENCE_S)))["port"])
        self.run_ours("otg", "--udp:dst_host", "127.0.0.1", "--udp:dst_port", port, "--cbr:rate", "1e6", "--count", "20")
        receiver.process.terminate()
        self.assertEqual(json.loads(str(receiver.line(PATIENCE_S)))["packets"], 20)
        self.assertEqual(receiver.wait(PATIENCE_S), 130)
        kept = Path(log.read_text().split(" is in ")[1].split()[0])
        self.addCleanup(kept.unlink)
        self.assertEqual(len(Session(kept).rows["otr2_udp_in"]), 20)

    def test_an_iperf_server_measures_what_its_client_sends(self) -> None:
        path, target = self.measured("iperf")
        port = str(free_port())
        server = self.start("iperf", "-s", "-u", "-B", "127.0.0.1", "-p", port, "-y", "C", "--oml-collect", target)
        self.wait_until_bound(port)
        said = self.ask_until_answered("iperf", port)
        server.process.terminate()
        server.wait(PATIENCE_S)
        measured = Session(path)
        # A busy machine loses datagrams on loopback, too: what came is measured, and the rest is counted as lost.
        numbers = [int(row[2]) for row in measured.rows["iperf_packets"] if row[3] == "1000"]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertLessEqual(set(numbers), set(range(100)))
        lost, sent = self.reported(said)
        self.assertEqual(sent, 100)
        self.assertEqual(len(numbers), sent - lost)
        self.assertEqual(measured.rows["iperf_losses"][-1][4:], [str(sent), str(lost)])
        self.assertEqual(len(measured.rows["iperf_connection"]), 1)

    def test_an_iperf_server_tells_figures_and_nothing_else(self) -> None:
        port = str(free_port())
        server = self.start("iperf", "-s", "-u", "-B", "127.0.0.1", "-p", port, "--figures")
        self.wait_until_bound(port)
        lost, sent = self.reported(self.ask_until_answered("iperf", port))
        names = ("rate", "octets", "packets", "lost", "duplicates", "jitter", "delay", "delay_least", "delay_most")
        told = [json.loads(str(server.line(PATIENCE_S))) for _ in names]
        self.assertEqual(tuple(figure["figure"] for figure in told), names)
        value = {figure["figure"]: figure["value"] for figure in told}
        self.assertEqual((value["packets"], value["lost"]), (sent - lost, lost / sent))
        self.assertTrue(0 <= value["delay_least"] <= value["delay"] <= value["delay_most"])
        server.process.terminate()

    def reported(self, said: str) -> tuple[int, int]:
        """Datagrams that were lost and that were sent, as a server's report has them."""
        found = re.search(r"(\d+)/ *(\d+) \(", said)
        self.assertIsNotNone(found, said)
        return int(found[1]), int(found[2])

    def wait_until_bound(self, port: str) -> None:
        """Until somebody has the UDP port, by what the kernel tells."""
        wanted = f":{int(port):04X} "
        deadline = time.monotonic() + PATIENCE_S
        while wanted not in Path("/proc/net/udp").read_text():
            self.assertLess(time.monotonic(), deadline, "nobody took the port")
            time.sleep(0.01)

    def ask_until_answered(self, program: str, port: str) -> str:
        """A client of ours, or another's, that sends 100 datagrams; what it said, once the server answered."""
        words = ["-c", "127.0.0.1", "-u", "-p", port, "-b", "8m", "-l", "1000", "-n", "100000"]
        command = [str(dhow("debug")), "iperf"] if program == "iperf" else ["iperf"]
        for _ in range(3):
            said = subprocess.run(
                [*command, *words], capture_output=True, text=True, check=False, timeout=PATIENCE_S).stdout
            if "Server Report" in said:
                return said
        self.fail(f"the server does not answer: {said}")

    def test_iperf_of_others_takes_ours_for_its_own(self) -> None:
        if not shutil.which("iperf"):
            self.skipTest("no iperf command")
        port = str(free_port())
        theirs = self.crew.start(["iperf", "-s", "-u", "-B", "127.0.0.1", "-p", port])
        self.wait_until_bound(port)
        lost, sent = self.reported(self.ask_until_answered("iperf", port))
        self.assertEqual(sent, 100)
        self.assertLess(lost, sent)
        theirs.process.terminate()
        port = str(free_port())
        ours = self.start("iperf", "-s", "-u", "-B", "127.0.0.1", "-p", port)
        self.assertIn("Listening".lower(), str([ours.line(PATIENCE_S) for _ in range(2)]).lower())
        lost, sent = self.reported(self.ask_until_answered("theirs", port))
        self.assertGreaterEqual(sent, 100)
        self.assertLess(lost, sent)
        ours.process.terminate()

    def test_the_papers_experiments_become_scenarios(self) -> None:
        if not shutil.which("ruby"):
            self.skipTest("no ruby command")
        for name in LISTINGS:
            with self.subTest(name):
                done = self.run_ours("lab", "oedl", str(ROOT / f"labs/overhead/{name}.rb"), "--print", "--", "--runtime", "30")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn('[stop]\nat = "4', done.stdout)
                self.assertEqual(done.stdout.count("[[program]]"), 2)
                self.assertIn(" -t 30" if "iperf" in name else "--cbr:rate 56623104", done.stdout)
                window = 'interval=\\"30\\"' if "aggregated" in name else 'samples=\\"1\\"'
                self.assertEqual(done.stdout.count(window), 2)

    def test_variants_of_the_lab_have_options_filters_and_intervals_of_their_listings(self) -> None:
        if not shutil.which("ruby"):
            self.skipTest("no ruby command")
        variants = tomllib.loads((ROOT / "labs/overhead/1-settings.toml").read_text())["variant"]
        sets = {variant["name"]: dict(one.split("=", 1) for one in variant.get("set", [])) for variant in variants}
        # The duration has another option, the size is iperf's own, and figures are for the report.
        more = {"--figures", "-l", "1470", "--duration", "300s"}

        def words(run: str) -> set[str]:
            return set(re.sub(r"{[^}]*}", "{}", run).split())

        def streams(text: str) -> list[str]:
            text = text.replace("\\", "").replace("'", '"').replace("></stream>", "/>")
            return re.findall(r"<stream.*(?:</stream>|/>)(?=</collect>)", text)

        for name in LISTINGS:
            with self.subTest(name):
                done = self.run_ours("lab", "oedl", str(ROOT / f"labs/overhead/{name}.rb"), "--print")
                of_lab = sets[name.replace("-", " ")]
                programs = tomllib.loads(done.stdout)["program"]
                for end, program in zip(("receiver", "sender"), programs, strict=True):
                    ours, theirs = words(of_lab[f"program.{end}.run"]), words(program["run"])
                    self.assertLessEqual(theirs, ours)
                    self.assertLessEqual(ours - theirs, more)
                    self.assertEqual(streams(of_lab[f"program.{end}.environment"]), streams(program["environment"][0]))
                    self.assertEqual(len(streams(program["environment"][0])), 1)

    def test_a_receiver_in_oedl_that_listens_at_its_own_address_hears_all_neighbours(self) -> None:
        reason = namespaces_possible() or (None if shutil.which("ruby") else "no ruby command")
        if reason:
            self.skipTest(reason)
        out = self.directory / "results"
        script = ROOT / "crates/testbed/tests/oedl/good/star.rb"
        done = self.run_ours("lab", "oedl", str(script), "--link-rate", "4Mbit", "--out", str(out), patience_s=90.0)
        self.assertEqual(done.returncode, 0, done.stderr)
        with contextlib.closing(sqlite3.connect(out / "0001" / "measurements.sq3")) as database:
            [(flows, sources)] = database.execute('SELECT COUNT(DISTINCT flow_id), COUNT(DISTINCT dst_host) FROM "otr2_udp_in"').fetchall()
        self.assertEqual((flows, sources), (3, 3))

    def test_an_experiment_of_the_paper_runs_and_every_packet_is_in_the_database(self) -> None:
        reason = namespaces_possible() or (None if shutil.which("ruby") else "no ruby command")
        if reason:
            self.skipTest(reason)
        out = self.directory / "results"
        done = self.run_ours(
            "lab", "oedl", str(ROOT / "labs/overhead/otg-all.rb"), "--link-rate", "28Mbit", "--out", str(out), "--",
            "--runtime", "1", patience_s=90.0)
        self.assertEqual(done.returncode, 0, done.stderr)
        with contextlib.closing(sqlite3.connect(out / "0001" / "measurements.sq3")) as database:
            counted = [
                database.execute(f'SELECT COUNT(*), COUNT(DISTINCT seq_no), MAX(seq_no) FROM "{table}"').fetchone()
                for table in ("otg2_udp_out", "otr2_udp_in")]
            senders = {name for name, in database.execute("SELECT name FROM _senders")}
            lost = database.execute("SELECT stream, what, rows FROM _dhow_loss WHERE what IN ('missing', 'gaps') AND rows > 0").fetchall()
        (left, left_numbers, left_last), (came, came_numbers, came_last) = counted
        self.assertEqual((left, left), (left_numbers, left_last))
        self.assertEqual(came, came_numbers)
        self.assertLessEqual(came_last, left_last)
        self.assertEqual(lost, [])
        self.assertEqual(senders, {"omf.pats.alix1", "omf.pats.alix2"})
        # 28 Mbit/s of packets of 1470 octets and their headers; what waits when the sender is stopped does not come.
        self.assertGreater(came, 1_000)
        self.assertLessEqual(came, left)
        self.assertLess(left, 4_000)
