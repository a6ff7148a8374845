"""`dhow collect` beside other people's programs: sessions of OTG that were recorded, OML's Python client, clients that mean harm;
into SQLite and into a real PostgreSQL."""

import contextlib
import glob
import json
import os
import pwd
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from labs.interop.installation import NotInstalled, oml4py
from labs.rig.binary import ROOT, dhow, has
from labs.rig.crew import Crew, Program
from labs.rig.node import Link, Node, Settings, free_port

PATIENCE_S = 60.0

RECORDED = ROOT / "crates" / "measure" / "tests" / "data"

# Resident memory that a collector may gain while clients do harm, octets: the rooms that all clients share, and what each has for itself.
GAIN_OCTETS = 96 << 20

# OML's Python client, unchanged: streams before and after the start, escapes, a blob, a GUID, booleans, metadata.
OML4PY = r"""
import sys, time
import oml4py
client = oml4py.OMLBase("py", "pydomain", "snake", sys.argv[1])
client.addmp("early", "n:uint32 big:uint64 name:string blob:blob guid:guid truth:bool real:double")
client.start()
client.inject("early", [4000000000, 2**63 - 1, "tab\tline\nback\\slash", "AAEC/w==", 2**64 - 1, True, 0.1])
client.inject("early", [1, 2, "", "", 0, "F", float("nan")])
client.addmp("late", "count:int32")
for number in range(100):
    client.inject("late", [number])
client.inject_metadata("late", "unit", "m", "count")
client.inject_metadata(None, "purpose", "a\ttest")
client.close()
"""


class Collecting:
    """A collector that runs."""

    def __init__(self, crew: Crew, log: Path, *options: str) -> None:
        command = [str(dhow("debug")), "collect", "--json", "--listen", "127.0.0.1:0", *options]
        self.log = log
        self.program: Program = crew.start(command, log=log)
        ready = json.loads(str(self.program.line(PATIENCE_S)))
        host, _, port = ready["listen"].rpartition(":")
        self.address = (host, int(port))
        self.url = f"tcp:{host}:{port}"

    def send(self, octets: bytes) -> None:
        """A session, until the collector has closed it."""
        with socket.create_connection(self.address, timeout=PATIENCE_S) as stream, contextlib.suppress(OSError):
            stream.sendall(octets)
            stream.shutdown(socket.SHUT_WR)
            stream.recv(1)

    def stop(self) -> dict[tuple[str, str], dict]:
        """Ends it as Ctrl-C does; what it says of each domain and stream."""
        self.program.process.send_signal(signal.SIGINT)
        said = json.loads(str(self.program.line(PATIENCE_S)))
        assert self.program.wait(PATIENCE_S) == 0, "a collector that is interrupted has done what it should"
        return {(line["domain"], line["stream"]): line for line in said["streams"]}

    def resident(self) -> int:
        """Octets of memory."""
        pages = Path(f"/proc/{self.program.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


class Server:
    """A PostgreSQL of its own, as an unprivileged user, in a directory."""

    def __init__(self, directory: Path) -> None:
        binaries = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        found = shutil.which("initdb")
        if not binaries and not found:
            raise unittest.SkipTest("PostgreSQL is not installed (labs/setup test installs it)")
        self.binaries = Path(binaries[-1]) if binaries else Path(str(found)).parent
        self.store = directory / "postgres"
        self.store.mkdir()
        self.user = "nobody" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        if os.getuid() == 0:
            directory.chmod(0o755)
            shutil.chown(self.store, self.user)
        self.port = free_port()
        self.url = f"postgresql://tester@127.0.0.1:{self.port}/postgres"
        self.command("initdb", "--auth=trust", "--username=tester", "--no-sync", "-D", str(self.store))
        self.start()

    def command(self, name: str, *arguments: str) -> str:
        """Runs one of its programs as the user. Raises where it fails."""
        done = subprocess.run(
            [str(self.binaries / name), *arguments], user=self.user if os.getuid() == 0 else None,
            cwd=self.store, env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, capture_output=True, text=True, check=False,
            timeout=PATIENCE_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self) -> None:
        """Until it takes connections."""
        options = f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories='' -c fsync=off"
        self.command("pg_ctl", "-D", str(self.store), "-w", "-l", str(self.store / "log"), "-o", options, "start")

    def stop(self) -> None:
        """Cuts its clients off."""
        self.command("pg_ctl", "-D", str(self.store), "-w", "-m", "immediate", "stop")

    def ask(self, query: str) -> list[str]:
        """The answer's rows, columns apart by `|`."""
        return self.command("psql", "-X", "-A", "-t", "-d", self.url, "-c", query).splitlines()


class Measurement(unittest.TestCase):
    """A collector and those who measure."""

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="dhow-measurement-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.crew = Crew()
        self.addCleanup(self.crew.close)

    def collect(self, *options: str) -> Collecting:
        """A collector."""
        return Collecting(self.crew, self.directory / "collect.log", *options)

    def count(self, domain: str, query: str) -> list[tuple]:
        """The answer of a domain's file."""
        with contextlib.closing(sqlite3.connect(self.directory / f"{domain}.sq3")) as database:
            return database.execute(query).fetchall()

    def oml4py(self) -> str:
        """The Python that has OML's client, or the test is skipped."""
        try:
            return str(oml4py() / "python")
        except NotInstalled as reason:
            self.skipTest(str(reason))

    def run_oml4py(self, collecting: Collecting) -> None:
        """OML's client against a collector."""
        python = self.oml4py()
        done = subprocess.run(
            [python, "-c", OML4PY, collecting.url], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_a_node_without_a_link_reports_all_once_there_is_one(self) -> None:
        port = free_port()
        measure = '[measure]\ncollect = "bundles:ipn:2.3003"\ninterval = "20ms"\npoints = ["created", "state"]\n'
        alpha = Node(self.crew, dhow("debug"), self.directory / "alpha", Settings(
            "ipn:1.0", links=[Link("beta", f"127.0.0.1:{port}", 'backoff_max = "200ms"')],
            routes=[("ipn:2.*", "beta")], more=measure))
        beta = Node(self.crew, dhow("debug"), self.directory / "beta", Settings("ipn:2.0", listen=f"127.0.0.1:{port}"))
        # Two lives without anybody to report to.
        for _ in range(2):
            alpha.start()
            done = alpha.run("send", "ipn:2.42", str(ROOT / "LICENSE"), "--count", "500")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(alpha.stop(), 0)
        beta.start()
        database = self.directory / "far.sq3"
        collecting = self.collect("--db", str(database), "--node", str(beta.socket), "--endpoint", "ipn:2.3003")
        alpha.start()
        deadline = time.monotonic() + PATIENCE_S
        rows: list[tuple] = []
        while rows != [(1000, 1000)]:
            self.assertLess(time.monotonic(), deadline, rows)
            time.sleep(0.1)
            with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(database)) as stored:
                rows = stored.execute("SELECT count(*), count(DISTINCT bundle) FROM dhow_created").fetchall()
        self.assertEqual(alpha.stop(), 0)
        said = collecting.stop()
        for stream in ("dhow_created", "dhow_state"):
            counts = said["dhow", stream]
            self.assertEqual((counts["missing"], counts["repeated"], counts["rejected"]), (0, 0, 0), stream)
        # Every parcel was confirmed, so none comes again.
        again = self.collect("--db", str(database), "--node", str(beta.socket), "--endpoint", "ipn:2.3003")
        time.sleep(0.5)
        self.assertEqual(sum(line["repeated"] for line in again.stop().values()), 0)
        self.assertEqual(beta.stop(), 0)

    def test_reports_stay_at_their_node_until_their_database_can_be_opened(self) -> None:
        node = Node(self.crew, dhow("debug"), self.directory / "alpha", Settings(
            "ipn:1.0", more='[measure]\ncollect = "bundles:ipn:1.3003"\ndomain = "far"\npoints = ["created"]\n'))
        node.start()
        done = node.run("send", "ipn:1.42", str(ROOT / "LICENSE"), "--count", "50")
        self.assertEqual(done.returncode, 0, done.stderr)
        # Its end makes the report.
        self.assertEqual(node.stop(), 0)
        node.start()
        in_the_way = self.directory / "far.sq3"
        in_the_way.mkdir()
        collecting = self.collect("--dir", str(self.directory), "--node", str(node.socket), "--endpoint", "ipn:1.3003")
        deadline = time.monotonic() + PATIENCE_S
        while "bundles stay at the node" not in collecting.log.read_text():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        in_the_way.rmdir()
        parcels: list[tuple] = []
        while parcels != [(1,)]:
            self.assertLess(time.monotonic(), deadline, parcels)
            time.sleep(0.05)
            with contextlib.suppress(sqlite3.Error):
                parcels = self.count("far", "SELECT count(*) FROM _dhow_parcels") if in_the_way.exists() else []
        counts = collecting.stop()["far", "dhow_created"]
        self.assertEqual((counts["rows"], counts["repeated"], counts["rejected"]), (50, 0, 0))
        self.assertEqual(node.stop(), 0)

    def test_recorded_sessions_of_otg_give_the_rows_that_they_have(self) -> None:
        collecting = self.collect("--dir", str(self.directory))
        for name in ("otg-text", "otg-binary", "otg-filters-text"):
            collecting.send((RECORDED / f"{name}.omsp").read_bytes())
        said = collecting.stop()
        self.assertEqual({place: line["rows"] for place, line in said.items()}, {
            ("t1", "_experiment_metadata"): 6, ("t1", "_client_instrumentation"): 3, ("t1", "otg2_udp_out"): 19,
            ("bx", "_experiment_metadata"): 4, ("bx", "otg2_udp_out"): 15,
            ("t2", "otg2_every10"): 4, ("t2", "otg2_udp_out"): 3})
        self.assertEqual(said["t1", "otg2_udp_out"]["reasons"], {"nul": 1})
        self.assertEqual(said["t1", "otg2_udp_out"]["missing"], 1)
        self.assertEqual(self.count("t1", "SELECT count(*), min(seq_no), max(seq_no) FROM otg2_udp_out"), [(19, 1, 20)])
        self.assertEqual(self.count("bx", "SELECT DISTINCT pkt_length FROM otg2_udp_out"), [(64,)])

    def test_the_python_client_of_oml_is_stored_whole(self) -> None:
        collecting = self.collect("--dir", str(self.directory))
        self.run_oml4py(collecting)
        said = collecting.stop()
        self.assertEqual(said["pydomain", "py_late"]["rows"], 100)
        self.assertEqual([line["rejected"] + line["missing"] for line in said.values()], [0, 0, 0])
        rows = self.count("pydomain", "SELECT n, big, name, blob, printf('%u', guid), truth, real FROM py_early")
        self.assertEqual(rows, [
            (4000000000, 2**63 - 1, "tab\tline\nback\\slash", b"\x00\x01\x02\xff", str(2**64 - 1), 1, 0.1),
            (1, 2, "", b"", "0", 0, None)])
        self.assertEqual(self.count("pydomain", "SELECT sum(count) FROM py_late"), [(4950,)])
        self.assertEqual(
            self.count("pydomain", "SELECT subject, key, value FROM _experiment_metadata WHERE oml_sender_id = 1"),
            [(".py_late.count", "unit", "m"), (".", "purpose", "a\ttest")])

    def test_postgresql_has_the_same_rows_and_none_is_lost_while_it_is_away(self) -> None:
        if not has("postgres", dhow("debug")):
            self.skipTest("the program was built without the feature postgres")
        server = Server(self.directory)
        self.addCleanup(server.stop)
        collecting = self.collect("--db", server.url)
        self.run_oml4py(collecting)
        collecting.send((RECORDED / "otg-text.omsp").read_bytes())
        header = "protocol: 4\ndomain: d\nstart-time: 1\nsender-id: s\napp-name: a\nschema: 1 a_p n:int32\n\n"
        with socket.create_connection(collecting.address) as stream:
            stream.sendall(header.encode())
            for number in range(1, 3001):
                stream.sendall(f"{number / 1000}\t1\t{number}\t{number}\n".encode())
                if number == 1000:
                    server.stop()
                if number == 2000:
                    server.start()
        end = time.monotonic() + PATIENCE_S
        while server.ask("SELECT count(*) FROM pg_tables WHERE tablename = 'a_p'") != ["1"] or (
                server.ask("SELECT count(*) FROM a_p") != ["3000"]):
            self.assertLess(time.monotonic(), end, (self.directory / "collect.log").read_text())
            time.sleep(0.2)
        said = collecting.stop()
        self.assertEqual(said["d", "a_p"]["rows"], 3000)
        self.assertEqual(server.ask("SELECT count(DISTINCT n), sum(n) FROM a_p"), ["3000|4501500"])
        self.assertEqual(
            server.ask("SELECT n, big, name, encode(blob, 'hex'), guid, truth, real FROM py_early ORDER BY oml_seq LIMIT 1"),
            ["4000000000|9223372036854775807|tab\tline", "back\\slash|000102ff|18446744073709551615|t|0.1"])
        self.assertEqual(server.ask("SELECT count(*) FROM otg2_udp_out"), ["19"])
        self.assertEqual(server.ask("SELECT name FROM _senders ORDER BY name"), ["s", "snake", "tx"])

    def test_many_clients_share_little_memory(self) -> None:
        collecting = self.collect("--db", str(self.directory / "many.sq3"), "--clients", "200")
        before = collecting.resident()
        header = "protocol: 4\ndomain: d\nstart-time: 1\nsender-id: s{}\napp-name: a\nschema: 1 a_p n:int32 t:string\n\n"
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(socket.create_connection(collecting.address, timeout=PATIENCE_S)) for _ in range(200)]
            for number, stream in enumerate(streams):
                stream.sendall(header.format(number).encode())
            for turn in range(20):
                rows = "".join(f"{turn}\t1\t{turn * 100 + row + 1}\t7\tsome words of a row\n" for row in range(100)).encode()
                for stream in streams:
                    stream.sendall(rows)
                self.assertLess(collecting.resident() - before, GAIN_OCTETS)
            for stream in streams:
                stream.shutdown(socket.SHUT_WR)
                stream.recv(1)
        collecting.stop()
        self.assertEqual(self.count("many", "SELECT count(*), count(DISTINCT oml_sender_id) FROM a_p"), [(400_000, 200)])

    def test_clients_that_mean_harm_cost_no_one_else_a_row(self) -> None:
        inside = self.directory / "inside"
        collecting = self.collect("--dir", str(inside), "--clients", "64")
        header = "protocol: 4\ndomain: {}\nstart-time: 1\nsender-id: {}\napp-name: a\nschema: 1 a_p n:int32\n\n"
        before = collecting.resident()
        endless = []
        for number in range(20):
            stream = socket.create_connection(collecting.address, timeout=PATIENCE_S)
            if number % 2:
                stream.sendall(header.format("good", f"evil{number}").encode())
            endless.append(stream)
        with socket.create_connection(collecting.address, timeout=PATIENCE_S) as good:
            good.sendall(header.format("good", "good").encode())
            for number in range(1, 201):
                good.sendall(f"{number}\t1\t{number}\t{number}\n".encode())
                for stream in endless:
                    # Those whose header never ends are let go at some point.
                    with contextlib.suppress(OSError):
                        stream.sendall(b"x" * 20_000)
            for hostile in (
                    header.format("../outside", "s"), header.format("/tmp/outside", "s"), header.format("good", "s" * 5000),
                    "\n\n\n", "GET / HTTP/1.1\r\n\r\n", "\x00" * 1000, header.replace("a_p", "a\"; DROP TABLE _senders; --")):
                collecting.send(hostile.encode())
            good.sendall(b"201\t1\t201\t201\n")
        gained = collecting.resident() - before
        for stream in endless:
            stream.close()
        said = collecting.stop()
        self.assertLess(gained, GAIN_OCTETS)
        self.assertEqual([path.name for path in self.directory.iterdir() if path.is_dir()], ["inside"])
        self.assertEqual({path.name.partition(".")[0] for path in inside.iterdir()}, {"good"})
        self.directory = inside
        self.assertEqual(
            self.count("good", "SELECT count(*), sum(n) FROM a_p JOIN _senders ON id = oml_sender_id WHERE name = 'good'"),
            [(201, 201 * 202 // 2)])
        self.assertGreater(sum(line["rejected"] for line in said.values()), 0)
