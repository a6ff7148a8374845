"""Scenarios on network namespaces: bundles arrive, contacts come and go, and nothing is left, whatever happened."""

import contextlib
import csv
import datetime
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

from labs.rig import screen
from labs.rig.binary import ROOT, dhow
from labs.rig.capture import Dissection, judge_missing
from labs.rig.network import namespaces_possible

LABS = ROOT / "labs"
PATIENCE_S = 60.0

TWO = """
[[node]]
name = "east"
[[node]]
name = "west"
{node}
[[link]]
between = ["east", "west"]
name = "wire"
rate = "16Mbit"
{link}
[[traffic]]
from = "east"
to = "west"
size = "10kB"
{traffic}
[stop]
at = "20s"
when_delivered = true
expects_all = true
{more}
"""


# A program on a host without a node, for three seconds.
PROGRAM = """
[[node]]
name = "box"
{node}
[[program]]
name = "program"
node = "box"
run = {run}
[stop]
at = "30s"
when_ended = true
"""

# A file over two hops of LTP without bundles.
TWO_HOPS = """
[[node]]
name = "earth"
kind = "command"
[[node]]
name = "orbiter"
kind = "command"
[[node]]
name = "rover"
kind = "command"
[[link]]
name = "up"
between = ["earth", "orbiter"]
rate = "10Mbit"
delay = "50ms"
[[link]]
name = "down"
between = ["orbiter", "rover"]
rate = "10Mbit"
delay = "10ms"
[[program]]
name = "make"
node = "earth"
run = "sh -c 'head -c 100000 /dev/urandom > file'"
[[program]]
name = "receive"
node = "rover"
after = "make"
run = "dhow ltp recv --engine 9 --listen 0.0.0.0:{port} --out inbox --light-time 10ms --json"
ready = "listening"
until = "send"
[[program]]
name = "relay"
node = "orbiter"
after = "receive"
run = "dhow ltp relay --engine 2 --listen 0.0.0.0:{port} --route 9=9@{rover}:{port} --dir spool --light-time 50ms --json"
ready = "listening"
until = "send"
[[program]]
name = "send"
node = "earth"
after = "relay"
run = "dhow ltp send file 2@{orbiter}:{port} --engine 1 --to 9 --report --light-time 50ms --json"
[stop]
at = "30s"
when_ended = true
"""

# Eight threads read all pages of a file, each from another on, again and again.
AGAIN_AND_AGAIN = """
import os, sys, threading, time
file = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
pages = os.fstat(file).st_size // 4096
end = time.monotonic() + 5
def read(page):
    while time.monotonic() < end:
        os.pread(file, 4096, page % pages * 4096)
        page += 1
threads = [threading.Thread(target=read, args=(pages // 8 * part,)) for part in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""

# Four threads sleep with one lock of the C library.
ONE_LOCK = """
import ctypes, threading, time
libc = ctypes.CDLL(None)
lock = ctypes.create_string_buffer(64)
end = time.monotonic() + 3
def fight():
    while time.monotonic() < end:
        libc.pthread_mutex_lock(lock)
        time.sleep(0.02)
        libc.pthread_mutex_unlock(lock)
        time.sleep(0.001)
threads = [threading.Thread(target=fight) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""

# The switch of the kernel's account of waits.
SWITCH = Path("/proc/sys/kernel/task_delayacct")
CAN_SWITCH = os.access(SWITCH, os.W_OK)

# A file system without a disk.
MEMORY = Path("/dev/shm")

# The directory in which labs say that they need it on.
HOLDERS = Path("/run/dhow/task_delayacct")


def scenario(link: str = "", traffic: str = "count = 20", node: str = "", more: str = "") -> str:
    """Two nodes, a link, a traffic."""
    return TWO.format(link=link, traffic=traffic, node=node, more=more)


def namespaces() -> set[str]:
    """All network namespaces of labs."""
    shown = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in shown.splitlines() if line.startswith("dhow-")}


def others() -> set[str]:
    """Labs that somebody else runs on this machine, and networks of the tests in the lanes beside this one."""
    lanes = " ".join(path.read_text() for path in Path("/proc", str(os.getppid()), "task").glob("*/children")).split()
    return {path.stem for path in Path("/run/dhow/lab").glob("*.json")} | (set(lanes) - {str(os.getpid())}) | {"test"}


# Two hosts that run out of energy.
BATTERY = """
[[radio]]
name = "near"
reach_m = 10
rate = "8Mbit"

[[group]]
name = "a"
count = 2
radios = ["near"]
movement = "none"
width_m = 1
height_m = 1
battery = "5J"

[[traffic]]
from = "a1"
to = "a2"
size = "1kB"
count = 1

[stop]
at = "2s"
"""


@unittest.skipIf(namespaces_possible(), f"no network namespaces: {namespaces_possible()}")
class Lab(unittest.TestCase):
    """`dhow lab`, as a researcher calls it."""

    def setUp(self) -> None:
        self.dhow = dhow("debug")
        self.place = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.labs_place = self.place / "labs"
        self.before = namespaces()
        self.addCleanup(self.nothing_is_left)
        # A test that fails leaves nothing either.
        self.addCleanup(self.lab, "down", "--all")

    def left(self) -> dict[str, Any]:
        """The namespaces and interfaces of this test's labs."""
        there = namespaces()
        foreign = others()
        ours = [name for name in (there & namespaces()) - self.before if name.split("-")[1] not in foreign]
        groups = [str(path) for pattern in ("*dhow-*", "*/dhow-*") for path in Path("/sys/fs/cgroup").glob(pattern)]
        nodes = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
                if str(self.labs_place).encode() in words:
                    nodes.append(entry.name)
        return {
            "namespaces": sorted(ours),
            "groups": [group for group in groups if group.rpartition("-")[2] not in foreign],
            "nodes": nodes,
            "files": sorted(path.name for path in self.labs_place.glob("*")),
        }

    def nothing_is_left(self) -> None:
        """Nothing is there of this test's labs."""
        self.assertEqual(self.left(), {"namespaces": [], "groups": [], "nodes": [], "files": []})

    def write(self, text: str, name: str = "study.toml") -> Path:
        """A scenario's file."""
        path = self.place / name
        path.write_text(text)
        return path

    def environment(self) -> dict[str, str]:
        """Labs of this test are apart from those of others."""
        return {**os.environ, "DHOW_LAB_DIR": str(self.labs_place)}

    def lab(self, *words: str | Path, code: int = 0, environment: dict[str, str] | None = None) -> str:
        """Runs `dhow lab`; what it prints on stdout, or where it fails on stderr."""
        done = subprocess.run(
            [self.dhow, "lab", *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False,
            cwd=self.place, env={**self.environment(), **(environment or {})},
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr if code else done.stdout

    def begin(self, *words: str | Path) -> subprocess.Popen[str]:
        """Starts `dhow lab` and returns once its network is there."""
        process = subprocess.Popen(
            [self.dhow, "lab", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd=self.place, env=self.environment(),
        )
        self.addCleanup(process.stdout.close)
        end = time.monotonic() + PATIENCE_S
        while not any(lab["is_up"] for lab in self.labs()):
            self.assertLess(time.monotonic(), end, "there is no lab")
            time.sleep(0.02)
        return process

    def labs(self) -> list[dict[str, Any]]:
        """All labs, as `inspect` tells them."""
        return [json.loads(line) for line in self.lab("inspect", "--json").splitlines()]

    def received(self, lab: str, node: str) -> int:
        """The number of bundles that a node has received."""
        asked = ("exec", lab, node, "--", self.dhow, "status", "--json")
        return json.loads(self.lab(*asked))["counters"]["received"]

    def table(self, name: str, out: str = "out") -> list[dict[str, str]]:
        """A table of the results."""
        with (self.place / out / name).open() as file:
            return list(csv.DictReader(file))

    def account(self) -> bool:
        """Whether the kernel counts waits now, and not for labs of others alone."""
        is_on = SWITCH.exists() and SWITCH.read_text().strip() == "1"
        return is_on and not (HOLDERS.is_dir() and not self.labs())

    def limits(self, text: str, out: str | Path = "out") -> str:
        """The limit that a scenario's report names."""
        process = self.begin("run", self.write(text), "--out", out)
        said, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 0, said)
        page = (self.place / out / "report.html").read_text()
        return ", ".join(re.findall(r"\w+ of \w+ \(waited for \d+ % of the time\)", page))

    @unittest.skipUnless(CAN_SWITCH, f"{SWITCH} is not for this user")
    def test_a_disk_that_is_slow_is_the_limit(self) -> None:
        before = self.account()
        node = 'disk_rate = "500kB"\n'
        limits = self.limits(scenario(traffic='total = "4MB"\n', node=node))
        self.assertRegex(limits, "^disk of west ")
        self.assertEqual(self.account(), before)

    @unittest.skipUnless(CAN_SWITCH, f"{SWITCH} is not for this user")
    def test_a_memory_that_is_small_is_the_limit(self) -> None:
        octets = self.place / "octets"
        with octets.open("wb") as file:
            file.write(os.urandom(1 << 20) * 52)
            file.flush()
            # The pages are to be those of the host that reads them.
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        node = 'memory = "48MiB"\nkind = "command"\n'
        run = f"python3 -c '{AGAIN_AND_AGAIN}' {octets}"
        limits = self.limits(PROGRAM.format(node=node, run=json.dumps(run)))
        self.assertRegex(limits, "^memory of box ")

    def test_a_lock_that_many_want_is_the_limit(self) -> None:
        run = f"python3 -c '{ONE_LOCK}'"
        limits = self.limits(PROGRAM.format(node='kind = "command"\n', run=json.dumps(run)))
        self.assertRegex(limits, "^locks of box ")

    @unittest.skipUnless(MEMORY.is_dir(), f"no {MEMORY}, and a disk may be as slow as a limit")
    def test_what_waits_for_the_network_or_runs_has_no_such_limit(self) -> None:
        # The stores are where the results are.
        out = self.enterContext(tempfile.TemporaryDirectory(dir=MEMORY))
        limits = self.limits(scenario(traffic='count = 20\nevery = "100ms"\n'), Path(out) / "out")
        self.assertEqual(limits, "")

    def test_short_contacts_that_are_full_both_ways_carry_what_they_can(self) -> None:
        # Acknowledgments that stand behind seconds of data do not come before the contact's end, and all of it goes once more.
        contacts = '[[contact]]\nlink = "wire"\nstart = "1s"\nfor = "3s"\nevery = "5s"\n'
        back = '[[traffic]]\nfrom = "west"\nto = "east"\nsize = "10kB"\ntotal = "4MB"\n'
        text = scenario('delay = "5ms"\n', 'total = "4MB"\n', more=contacts + back)
        text = text.replace('rate = "16Mbit"', 'rate = "2Mbit"').replace('at = "20s"', 'at = "15s"').replace("expects_all = true", "")
        self.lab("run", self.write(text), "--out", "out")
        arrived = sum(int(row["octets"]) for row in self.table("payloads.csv") if row["delivered_s"])
        self.assertGreater(arrived, 0.6 * 3 * 3 * 2e6 / 8 * 2)

    def test_a_first_bundle_arrives_within_five_seconds(self) -> None:
        path = self.write(scenario(traffic="count = 1"))
        begun = time.monotonic()
        run = json.loads(self.lab("run", path, "--out", "out", "--json"))["run"]
        self.assertEqual((run["status"], run["delivered"], run["wrong"]), ("done", 1, 0))
        self.assertLess(time.monotonic() - begun, 5.0)
        self.assertTrue((self.place / "out" / "report.html").exists())
        self.assertTrue(self.table("resources.csv") and self.table("links.csv"))

    def test_contacts_are_cut_in_every_way(self) -> None:
        contacts = '[[contact]]\nlink = "wire"\nstart = "500ms"\nfor = "500ms"\nevery = "1s"\n'
        for by in ("tbf", "emulator"):
            for at_end in ("reset", "silence"):
                with self.subTest(by=by, at_end=at_end):
                    out = f"{by}-{at_end}"
                    link = f'by = "{by}"\nat_end = "{at_end}"\n'
                    path = self.write(scenario(link, 'count = 60\nevery = "20ms"\n', more=contacts))
                    self.lab("run", path, "--out", out)
                    self.assertEqual(len(self.table("payloads.csv", out)), 60)
                    # Nothing arrives while there is no contact; what is under way may end a little later.
                    told = self.table("contacts.csv", out)
                    spans = [(float(row["start_s"]), float(row["end_s"]) + 0.3) for row in told]
                    for row in self.table("payloads.csv", out):
                        at = float(row["delivered_s"])
                        self.assertTrue(any(start <= at <= end for start, end in spans), (at, spans))

    def test_a_contact_that_is_reset_ends_its_session_at_both_nodes(self) -> None:
        contacts = '[[contact]]\nlink = "wire"\nstart = "500ms"\nfor = "500ms"\nevery = "1s"\n'
        for by in ("tbf", "emulator"):
            with self.subTest(by=by):
                path = self.write(scenario(f'by = "{by}"\n', 'count = 60\nevery = "50ms"\n', more=contacts))
                self.lab("run", path, "--out", by)
                for node in ("east", "west"):
                    log = (self.place / by / "0001" / "nodes" / node / "node.log").read_text()
                    told = re.findall(r"session (up|down)", log)
                    # A session that outlived its contact would end only when the next is up.
                    self.assertEqual(told, (["up", "down"] * len(told))[:len(told)], log)
                    self.assertGreaterEqual(told.count("up"), 3, log)

    def test_links_over_udp_of_every_kind_deliver_the_same_on_sockets_and_in_virtual_time(self) -> None:
        nodes = "".join(f'[[node]]\nname = "{name}"\n' for name in "abcd")
        links = "".join(
            f'[[link]]\nbetween = ["{one}", "{other}"]\nrate = "16Mbit"\nprotocol = "udp"\n{keys}'
            for one, other, keys in (
                ("a", "b", 'by = "veth"\n'), ("c", "b", 'by = "tbf"\nmtu = "4kB"\n'), ("c", "d", 'delay = "5ms"\non_sent = "keep"\n')))
        traffic = "".join(
            f'[[traffic]]\nfrom = "{one}"\nto = "{other}"\nsize = "16B..60kB"\ncount = 20\nevery = "10ms"\n' for one, other in ("ad", "da"))
        text = f'{nodes}{links}{traffic}[stop]\nat = "20s"\nwhen_delivered = true\nexpects_all = true\n'
        self.lab("run", self.write(text), "--backend", "netns", "--backend", "sim", "--out", "out")
        octets = {row["backend"]: row["delivered_octets"] for row in self.table("runs.csv") if row["status"] == "done"}
        self.assertEqual(octets["netns"], octets["sim"])
        log = (self.place / "out" / "0001" / "nodes" / "b" / "node.log").read_text()
        self.assertEqual(sorted(set(re.findall(r"session up.* link=\"([a-d-]+)\"", log))), ["a-b", "c-b"])

    def test_silence_loses_what_is_sent_over_udp_and_a_link_that_carries_less_than_is_sent_does_not(self) -> None:
        # Nobody is told of the silence from 1 s on, and half of what is sent goes there.
        silence = '[[contact]]\nlink = "wire"\nstart = "0"\nfor = "1s"\n'
        slow = 'rate = "4Mbit"\nprotocol = "udp"\nsend_rate = "1Gbit"\n'
        for by in ("tbf", "emulator"):
            with self.subTest(by=by):
                link = f'by = "{by}"\nat_end = "silence"\n'
                text = scenario(link, 'count = 40\nevery = "50ms"\n', more=silence).replace('rate = "16Mbit"\n', slow)
                text = text.replace('at = "20s"', 'at = "3s"').replace("expects_all = true", "")
                self.lab("run", self.write(text), "--backend", "netns", "--backend", "sim", "--out", by)
                for run in self.table("runs.csv", by):
                    [contact] = self.table("contacts.csv", f"{by}/{run['run']}")
                    for row in self.table("payloads.csv", f"{by}/{run['run']}"):
                        sent = float(row["sent_s"])
                        # The contact's ends take their time.
                        if 0.3 < sent < 0.9 or sent > float(contact["end_s"]):
                            self.assertEqual(bool(row["delivered_s"]), sent < 1, (run["backend"], row, contact))
                # A megabyte waits at once for a link whose queue holds a quarter of it.
                text = scenario(f'by = "{by}"\n', "count = 100\n").replace('rate = "16Mbit"\n', slow)
                self.lab("run", self.write(text), "--out", f"{by}-full")

    def test_sessions_of_version_3_are_dialled(self) -> None:
        for protocol in ("tcpcl3", "auto"):
            with self.subTest(protocol=protocol):
                self.lab("run", self.write(scenario(f'protocol = "{protocol}"\n')), "--out", protocol)

    def test_no_link_gives_more_than_its_rate_and_virtual_time_gives_as_much(self) -> None:
        # A contact of 4 s at 64 kbit/s carries 32 kB, with headers.
        contact = '[[contact]]\nlink = "wire"\nstart = "1s"\nfor = "4s"\n'
        more = f"{contact}[runs]\nrepeats = 3\n"
        text = scenario("", "count = 100\n", more=more).replace('"16Mbit"', '"64kbit"').replace('"10kB"', '"1kB"')
        text = text.replace("expects_all = true", "").replace('at = "20s"', 'at = "6s"')
        self.lab("run", self.write(text), "--backend", "netns", "--backend", "sim", "--out", "out")
        figures: dict[str, list[float]] = {"netns": [], "sim": []}
        for row in self.table("runs.csv"):
            self.assertEqual(row["status"], "done")
            self.assertLessEqual(int(row["delivered_octets"]), 32_000)
            self.assertAlmostEqual(float(row["goodput_bit_s"]), int(row["delivered_octets"]) * 8 / 4, delta=600)
            figures[row["backend"]].append(float(row["goodput_bit_s"]))
        # Sessions begin within the contact, and what is under way at its end is of no use.
        for backend, values in figures.items():
            self.assertGreater(min(values), 0.7 * 64_000, (backend, values))

    def test_one_seed_draws_the_same_sizes_and_times_for_both_backends(self) -> None:
        text = scenario("", 'count = 20\nmean = "50ms"\n', more="[runs]\nrepeats = 2\n").replace('"10kB"', '"100B..5kB"')
        self.lab("run", self.write(text), "--backend", "netns", "--backend", "sim", "--out", "out")
        drawn: dict[str, list[list[tuple[int, float]]]] = {}
        for run in self.table("runs.csv"):
            payloads = self.table("payloads.csv", f"out/{run['run']}")
            drawn.setdefault(run["backend"], []).append([(int(row["octets"]), float(row["sent_s"])) for row in payloads])
        for real, virtual in zip(drawn["netns"], drawn["sim"], strict=True):
            self.assertEqual([octets for octets, _ in real], [octets for octets, _ in virtual])
            # A real application wakes up no earlier than it is to.
            self.assertTrue(all(at >= planned - 1e-6 for (_, at), (_, planned) in zip(real, virtual)), (real, virtual))
        self.assertNotEqual(drawn["sim"][0], drawn["sim"][1])

    def test_goodput_over_links_of_any_rate_and_delay_is_below_what_they_carry_of_payload(self) -> None:
        text = (LABS / "rates.toml").read_text()
        path = self.write(text.replace('start = "2s"', 'start = "500ms"'))
        short = ["traffic.total=300kB", "variant.0.set=[\"link.rate=64kbit\", \"traffic.size=5kB\", \"traffic.total=20kB\"]"]
        short += [f"variant.{number}.set=[\"link.rate={rate}\", \"link.delay={delay}\", \"traffic.total={total}\"]"
                  for number, rate, delay, total in [
                      (2, "10Mbit", "0", "1MB"), (3, "100Mbit", "0", "4MB"), (4, "1Gbit", "0", "60MB"),
                      (5, "10Mbit", "20ms", "1MB"), (6, "100Mbit", "5ms", "4MB"), (7, "100Mbit", "20ms", "4MB"),
                      (8, "100Mbit", "100ms", "4MB"), (9, "1Gbit", "2ms", "20MB")]]
        words = [word for setting in short for word in ("--set", setting)]
        self.lab("run", path, "--backend", "netns", "--backend", "sim", "--out", "out", *words)
        rates = {"64 kbit/s": 64e3, "1 Mbit/s": 1e6, "10 Mbit/s": 1e7, "100 Mbit/s": 1e8, "1 Gbit/s": 1e9}
        for row in self.table("runs.csv"):
            carried = rates[row["point"].removeprefix("variant=").partition(",")[0]] * 1448 / 1500
            self.assertEqual(row["status"], "done")
            self.assertLessEqual(float(row["goodput_bit_s"]), carried, row)
            # The speed of this machine says nothing about virtual time, where windows that grow over delays, and sessions, take the rest.
            if row["backend"] == "sim" and "," not in row["point"]:
                self.assertGreater(float(row["goodput_bit_s"]), 0.9 * carried, row)

    def test_where_links_of_several_rates_come_and_go_goodput_is_below_the_slowest(self) -> None:
        nodes = "".join(f'[[node]]\nname = "{name}"\n' for name in ("a", "b", "c"))
        links = "".join(
            f'[[link]]\nname = "{one}{other}"\nbetween = ["{one}", "{other}"]\nrate = "{rate}"\n'
            f'[[contact]]\nlink = "{one}{other}"\nstart = "{start}"\nfor = "4s"\n'
            for one, other, rate, start in (("a", "b", "1Mbit", "500ms"), ("b", "c", "2Mbit", "2s")))
        text = (f'{nodes}{links}[[traffic]]\nfrom = "a"\nto = "c"\nsize = "10kB"\ncount = 10\n'
                '[stop]\nat = "10s"\nwhen_delivered = true\nexpects_all = true\n[runs]\nrepeats = 3\n')
        self.lab("run", self.write(text), "--backend", "netns", "--backend", "sim", "--out", "out")
        for row in self.table("runs.csv"):
            self.assertEqual(row["status"], "done")
            self.assertLessEqual(float(row["goodput_bit_s"]), 2e6, row["run"])
        page = (self.place / "out" / "report.html").read_text()
        for share in re.findall(r"link [a-c]{2} \((\d+) %\)", page):
            self.assertLessEqual(int(share), 100)

    def test_more_than_links_could_carry_is_no_result(self) -> None:
        path = self.write(scenario())
        self.lab("run", path, "--backend", "sim", "--out", "out")
        file = self.place / "out" / "sim-0001" / "payloads.csv"
        with file.open() as table:
            rows = list(csv.DictReader(table))
        for row in rows:
            row["delivered_s"] = str(float(row["sent_s"]) + 0.001)
        with file.open("w") as table:
            writer = csv.DictWriter(table, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
        said = self.lab("report", "out", code=1)
        self.assertIn("200 kB of payload were delivered over link wire, which could carry 2.00 kB at most", said)
        self.assertIn("It is in no figure.", (self.place / "out" / "report.html").read_text())

    def test_limits_programs_and_crashes_are_as_the_scenario_says(self) -> None:
        node = 'cpu = "50%"\nmemory = "256MiB"\nsettings = ["store.durability=contact"]\n'
        more = (
            '[[crash]]\nnode = "west"\nat = "500ms"\ndown = "300ms"\n'
            '[[program]]\nname = "echo"\nnode = "east"\nrun = "echo {west} \'{run} {east}\'"\n'
            '[[program]]\nname = "shell"\nnode = "east"\nrun = "sh -c \'command -v dhow\'"\n'
            '[[program]]\nname = "group"\nnode = "west"\nrun = "sh -c \'sleep 0.3; cat /proc/self/cgroup\'"\n'
        )
        path = self.write(scenario("", 'count = 60\nevery = "20ms"\n', node, more))
        self.lab("run", path, "--out", "out", "--keep")
        run = self.place / "out" / "0001"
        self.assertEqual((run / "programs" / "echo.log").read_text(), "198.18.0.2 0001 127.0.0.1\n")
        # A shell finds the program that runs the lab.
        self.assertEqual((run / "programs" / "shell.log").read_text(), f"{self.dhow}\n")
        self.assertRegex((run / "programs" / "group.log").read_text(), r"(?m)/dhow-[0-9a-f]{6}/west$")
        starts = (run / "nodes" / "west" / "node.log").read_text().count("store open")
        self.assertEqual(starts, 2, "a crash is an end and a start")
        self.assertIn('durability = "contact"', (run / "nodes" / "west" / "node.toml").read_text())
        self.assertTrue((run / "nodes" / "west" / "store").is_dir())

    def test_two_nodes_on_one_host_share_its_limits_and_its_wire(self) -> None:
        guests = '[[node]]\nname = "east2"\nhost = "east"\n[[node]]\nname = "west2"\nhost = "west"\n'
        contact = '[[link]]\nbetween = ["west2", "east2"]\nover = "wire"\n[[contact]]\nlink = "wire"\nstart = "2s"\nfor = "1s"\n'
        second = '[[traffic]]\nfrom = "east2"\nto = "west2"\nsize = "10kB"\ncount = 500\n'
        pause = '[pause]\nat = "1s"\nuntil_stored_at = "east"\n'
        text = scenario("", "count = 500\n", guests, contact + second + pause)
        for key in ("when_delivered", "expects_all"):
            text = text.replace(f"{key} = true", "")
        text = text.replace('at = "20s"', 'at = "4s"').replace('name = "east"\n', 'name = "east"\ncpu = "50%"\n')
        self.lab("run", self.write(text), "--out", "out")
        [run] = self.table("runs.csv")
        # Both deliver, and together no more than the wire carries in its contact.
        payloads = self.table("payloads.csv")
        delivered = {row["from"] for row in payloads if row["delivered_s"]}
        self.assertEqual(delivered, {"east", "east2"})
        self.assertLessEqual(int(run["delivered_octets"]), 2_000_000)
        self.assertAlmostEqual(float(run["goodput_bit_s"]), int(run["delivered_octets"]) * 8, delta=400_000)
        self.assertEqual({row["node"] for row in self.table("resources.csv")}, {"east", "west"})
        self.assertEqual({row["link"] for row in self.table("links.csv")}, {"wire"})
        conditions = json.loads((self.place / "out" / "0001" / "conditions.json").read_text())
        self.assertEqual(conditions["limits"]["east"], conditions["limits"]["east2"])

    def test_the_manifest_has_what_a_repetition_needs(self) -> None:
        more = '[[program]]\nname = "version"\nnode = "east"\nrun = "ip -V"\n[runs]\nrepeats = 2\n'
        path = self.write(scenario('by = "tbf"\n', "count = 2\n", 'cpu = "50%"\nmemory = "256MiB"\n', more))
        self.lab("run", path, "--out", "out")
        manifest = json.loads((self.place / "out" / "manifest.json").read_text())
        version = subprocess.run([self.dhow, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        self.assertEqual(version, f"dhow {manifest['version']} ({manifest['commit']})")
        self.assertIn("iproute2", manifest["programs"]["ip"]["version"])
        for run in ("0001", "0002"):
            told = manifest["conditions"][run]
            self.assertRegex(told["load_before"] + told["load_after"], r"^([0-9.]+ ?){5,6}$")
            self.assertIn("268435456", told["limits"]["west"].values())
            self.assertIn("tbf", [queue["kind"] for queue in told["queues"]["east"]])
        settings = {node["node"]: node["settings"] for node in manifest["nodes"]}
        # Nobody set these; what follows from memory follows from that of the node's group, in every run.
        self.assertEqual([node["runs"] for node in manifest["nodes"]], [["0001", "0002"]] * 2)
        self.assertEqual(settings["west"]["listen"][0]["cut_through"], True)
        self.assertEqual(settings["west"]["store"]["memory"], 15 << 20)
        page = (self.place / "out" / "report.html").read_text()
        self.assertIn("<summary>settings of node west</summary>", page)
        self.assertIn("&quot;cut_through&quot;: true", page)

    def test_what_a_node_measures_at_its_end_is_collected(self) -> None:
        measure = 'settings = ["measure.collect={collector}", "measure.interval=1h", "measure.sender=west"]'
        self.lab("run", self.write(scenario(node=measure)), "--out", "out")
        self.assertEqual(self.table("runs.csv")[0]["samples_lost"], "0")
        file = next((self.place / "out").glob("*/measurements.sq3"))
        with contextlib.closing(sqlite3.connect(file)) as database:
            rows = database.execute("SELECT received, delivered FROM dhow_state ORDER BY oml_seq").fetchall()
            names = database.execute("SELECT name FROM _senders").fetchall()
        # One at the node's start, the other at its end.
        self.assertEqual((rows, names), ([(0, 0), (20, 20)], [("west",)]))

    def figures(self, out: str = "out") -> dict[tuple[str, str], float]:
        """The figures of programs, by program and name."""
        return {(row["program"], row["name"]): float(row["value"]) for row in self.table("figures.csv", out)}

    def traffic(self, more: str) -> Path:
        """A scenario of two hosts, of which east sends a hundred packets and both measure each of them."""
        measured = 'environment = ["OML_COLLECT={collector}", "OML_DOMAIN={run}", "OML_NAME=%s"]'
        return self.write(f'''
[[node]]
name = "east"
kind = "command"
[[node]]
name = "west"
kind = "command"
[[link]]
name = "wire"
between = ["east", "west"]
rate = "16Mbit"
[[program]]
name = "take"
node = "west"
run = "dhow otr --udp:local_host 0.0.0.0 --figures"
output = "figures"
{measured % "take"}
stop = "3s"
[[program]]
name = "give"
node = "east"
run = "dhow otg --udp:dst_host {{west}} --cbr:rate 400000 --cbr:size 500 --count 100 --figures"
output = "figures"
{measured % "give"}
start = "500ms"
[stop]
at = "4s"
{more}''')

    def test_measurements_go_over_the_link_where_a_node_passes_them_on(self) -> None:
        ways = {"control": ("{collector}", "{collector}"), "link": ("{collector:west}", "{collector:east}")}
        more = ""
        for name, (give, take) in ways.items():
            of = {"give": give, "take": take}
            sets = [f'program.{it}.environment=[\\"OML_COLLECT={to}\\", \\"OML_DOMAIN={{run}}\\", \\"OML_NAME={it}\\"]'
                    for it, to in of.items()]
            more += f'[[variant]]\nname = "{name}"\nset = ["{sets[0]}", "{sets[1]}"]\n'
        self.lab("run", self.traffic(more + '[runs]\norder = "given"\n'), "--out", "out")
        runs = self.table("runs.csv")
        self.assertEqual([row["samples_lost"] for row in runs], ["0", "0"])
        # Of what was sent and of what came, and nothing that the two clients say of themselves.
        self.assertEqual([row["samples"] for row in runs], ["200", "200"])
        last = {row["run"]: row for row in self.table("links.csv")}
        back = [int(last[run]["octets_back"]) for run in ("0001", "0002")]
        forward = [int(last[run]["octets_forward"]) for run in ("0001", "0002")]
        # A row has more than 20 octets.
        self.assertTrue(back[0] < 2_000 < back[1], back)
        self.assertGreater(forward[1], forward[0] + 2_000)

    def test_programs_that_do_not_say_who_measures_are_told_apart(self) -> None:
        path = self.traffic('[runs]\norder = "given"\n')
        text = path.read_text()
        for name in ("take", "give"):
            self.assertIn(f', "OML_NAME={name}"', text)
            text = text.replace(f', "OML_NAME={name}"', "")
        path.write_text(text)
        self.lab("run", path, "--out", "out")
        with contextlib.closing(sqlite3.connect(self.place / "out" / "0001" / "measurements.sq3")) as database:
            self.assertEqual({name for name, in database.execute("SELECT name FROM _senders")}, {"take", "give"})

    def test_links_tell_what_left_their_ends_and_what_the_end_of_a_contact_took(self) -> None:
        text = (
            '[[node]]\nname = "a"\nkind = "command"\n[[node]]\nname = "b"\nkind = "command"\n'
            '[[link]]\nname = "l"\nbetween = ["a", "b"]\nrate = "2Mbit"\n[[contact]]\nlink = "l"\nstart = "1s"\nfor = "2s"\nevery = "3s"\n'
            '[[program]]\nname = "rx"\nnode = "b"\nrun = "dhow otr --udp:local_host 0.0.0.0 --duration 7s --figures"\noutput = "figures"\n'
            '[[program]]\nname = "tx"\nnode = "a"\nstart = "1500ms"\noutput = "figures"\n'
            'run = "dhow otg --udp:dst_host {b} --cbr:size 1000 --cbr:rate 3000000 --duration 4s --figures"\n'
            '[stop]\nat = "9s"\n'
            '[sweep]\n"link.at_end" = ["reset", "silence"]\n"link.by" = ["emulator", "tbf"]\n[runs]\norder = "given"\n')
        self.lab("run", self.write(text), "--out", "out")
        last = {row["run"]: row for row in self.table("links.csv")}
        came = {row["run"]: float(row["value"]) for row in self.table("figures.csv") if (row["program"], row["name"]) == ("rx", "packets")}
        self.assertEqual(len(last), 4)
        for run, row in last.items():
            with self.subTest(run):
                octets, packets, lost = (int(row[key]) for key in ("octets_forward", "packets_forward", "lost_forward"))
                # Two contacts while there was something to send, of 1.5 and 2 s at most; and what a bucket gives beside.
                self.assertLessEqual(octets, 2e6 / 8 * 3.5 + 10_000)
                # ARP aside, each packet is one of the sender's. All that left arrived, but for what was under way at an end.
                self.assertLessEqual(abs(packets - came[run]), 20)
                # Packets that came at 3 Mbit/s and did not leave at 2, in the queue when a contact ended, are lost.
                self.assertGreater(lost, 20)

    def test_a_variant_whose_program_is_not_installed_is_left_out(self) -> None:
        more = (
            '[[variant]]\nname = "ours"\n'
            '[[variant]]\nname = "theirs"\nneeds = ["no-such-program: build it"]\nset = ["program.give.run=no-such-program"]\n'
        )
        path = self.traffic(more)
        words = "ariant 'theirs' is left out: there is no program 'no-such-program' (hint: build it)"
        done = subprocess.run([self.dhow, "lab", "run", path, "--out", "out"], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=True, cwd=self.place, env=self.environment())
        self.assertIn(words, done.stderr)
        self.assertIn(words, (self.place / "out" / "report.html").read_text())
        told = self.figures()
        self.assertEqual(len(self.table("runs.csv")), 1)
        self.assertEqual((told[("give", "packets")], told[("take", "packets")], told[("take", "lost")]), (100, 100, 0))
        self.assertTrue(0 < told[("take", "delay_least")] <= told[("take", "delay")] <= told[("take", "delay_most")])
        alone = self.write(path.read_text().replace('[[variant]]\nname = "ours"\n', ""))
        self.assertIn("no variant of", self.lab("run", alone, "--out", "alone", code=1))

    @unittest.skipUnless(shutil.which("iperf"), "no iperf")
    def test_iperf_tells_what_it_prints_for_people(self) -> None:
        more = (
            '[[program]]\nname = "take"\nnode = "west"\nrun = "iperf -s -u"\n'
            '[[program]]\nname = "give"\nnode = "east"\nrun = "iperf -c {west} -u -b 2M -t 1"\n'
            'start = "300ms"\noutput = "iperf"\n'
        )
        text = scenario("", "count = 1\n", "", more).replace('at = "20s"', 'at = "4s"')
        self.lab("run", self.write(text.replace("when_delivered = true", "")), "--out", "out")
        told = self.figures()
        self.assertAlmostEqual(told[("give", "rate")], 2.1e6, delta=0.3e6)
        self.assertEqual(told[("give", "lost")], 0.0)

    @unittest.skipUnless(Path("/usr/sbin/sshd").exists() and Path("/run/sshd").exists(), "no sshd to copy files to")
    def test_sftp_tells_what_it_moved(self) -> None:
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], cwd=self.place, check=True)
        server = next(path for path in Path("/usr").glob("lib*/**/sftp-server") if path.is_file())
        (self.place / "sshd").write_text(
            f"HostKey {self.place}/host\nAuthorizedKeysFile {self.place}/user.pub\nStrictModes no\nUsePAM no\n"
            f"PidFile none\nSubsystem sftp {server}\n")
        (self.place / "batch").write_text(f"put {self.place}/sent {self.place}/got\n")
        (self.place / "sent").write_bytes(os.urandom(500_000))
        options = f"-i {self.place}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        more = (
            f'[[program]]\nname = "take"\nnode = "west"\nrun = "/usr/sbin/sshd -D -e -f {self.place}/sshd"\n'
            f'[[program]]\nname = "give"\nnode = "east"\nrun = "sftp -v -b {self.place}/batch {options} root@{{west}}"\n'
            'start = "500ms"\noutput = "sftp"\n'
        )
        text = scenario("", "count = 1\n", "", more).replace('at = "20s"', 'at = "4s"')
        self.lab("run", self.write(text.replace("when_delivered = true", "")), "--out", "out")
        self.assertEqual((self.place / "got").read_bytes(), (self.place / "sent").read_bytes())
        told = self.figures()
        self.assertTrue(500_000 < told[("give", "octets_sent")] < 520_000, told)
        self.assertTrue(0 < told[("give", "rate")] < 16e6, told)

    @unittest.skipUnless(shutil.which("perf"), "no perf")
    def test_a_profile_names_functions_of_each_node(self) -> None:
        try:
            self.lab("run", self.write(scenario("", "count = 200")), "--profile", "--out", "out")
        except AssertionError as error:
            if "perf cannot profile" in str(error):
                self.skipTest("perf is not allowed here")
            raise
        for node in ("east", "west"):
            place = self.place / "out" / "0001" / "nodes" / node
            self.assertRegex((place / "profile.txt").read_text(), r"(?m)^# Samples: .*\n +[0-9.]+% ")
            self.assertFalse((place / "perf.data").exists())
        self.assertIn("took most of the processor of node west", (self.place / "out" / "report.html").read_text())

    def test_the_page_of_a_lab_has_its_title(self) -> None:
        rope = self.place / "rope"
        rope.mkdir()
        for name in ("1-short.toml", "2-long.toml"):
            (rope / name).write_text(scenario())
        for title in ("rope", "Rope &amp; wire"):
            out = f"out-{len(title)}"
            self.lab("run", rope / ".", "--backend", "sim", "--out", out)
            shutil.move(self.place / out, self.place / f"{out}-moved")
            self.lab("report", f"{out}-moved")
            page = (self.place / f"{out}-moved" / "report.html").read_text()
            self.assertIn(f"<title>{title}</title>", page)
            (rope / "README.md").write_text("Of ropes\n\n# Rope & wire\n\nText\n")

    def test_ctrl_c_leaves_nothing_and_keeps_what_was_measured(self) -> None:
        path = self.write(scenario(traffic='every = "50ms"\n'))
        before = self.account()
        process = self.begin("run", path, "--out", "out")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.account(), before)
        self.assertEqual([row["status"] for row in self.table("runs.csv")], ["interrupted"])
        self.assertTrue(self.table("payloads.csv"))

    def test_what_a_kill_leaves_goes_and_the_study_goes_on(self) -> None:
        node = 'cpu = "90%"\n'
        more = '[sweep]\n"traffic.size" = ["1kB", "2kB"]\n'
        path = self.write(scenario("delay = \"5ms\"\n", 'count = 5\nevery = "200ms"\n', node, more))
        before = self.account()
        process = self.begin("run", path, "--out", "out")
        process.kill()
        process.wait()
        self.assertEqual(len(self.left()["namespaces"]), 3)
        self.assertEqual([lab["is_kept"] for lab in self.labs()], [False])
        self.assertEqual(self.account(), before or CAN_SWITCH)
        self.lab("down", "--all")
        self.assertEqual(self.account(), before)
        self.nothing_is_left()
        self.lab("run", path, "--out", "out", code=1)
        self.lab("run", path, "--out", "out", "--resume")
        self.assertEqual([row["status"] for row in self.table("runs.csv")], ["done", "done"])
        self.assertEqual(self.lab("run", path, "--out", "out", "--resume"), "")

    def test_another_plan_takes_nothing_from_results_that_are_there(self) -> None:
        text = scenario(more='[sweep]\n"traffic.size" = ["1kB", "2kB"]\n')
        again = ("--backend", "sim", "--out", "out")
        self.lab("run", self.write(text), *again)
        seals = {path: path.read_text() for path in (self.place / "out").glob("*/run.json")}
        self.assertEqual(len(seals), 2)
        for changed, words, said in [
            (text.replace('"1kB", "2kB"', '"500B", "1kB", "2kB"'), (), "the scenario is not as in its manifest.json"),
            (text, ("--set", "traffic.count=3"), "what is set (--set, --repeats) is not as"),
            (text, ("--full",), "--full is not as"),
        ]:
            with self.subTest(said=said):
                self.assertIn(said, self.lab("run", self.write(changed), *again, "--resume", *words, code=2))
                self.assertEqual({path: path.read_text() for path in seals}, seals)
        self.assertEqual(self.lab("run", self.write(text), *again, "--resume"), "")

    def test_a_program_that_tells_nothing_takes_nothing_from_others(self) -> None:
        (self.place / "figure").write_text(json.dumps({"figure": "luck", "value": 7, "unit": "share"}) + "\n")
        more = (
            '[[program]]\nname = "mute"\nnode = "east"\nrun = "true"\noutput = "figures"\n'
            f'[[program]]\nname = "tells"\nnode = "east"\nrun = "cat {self.place}/figure"\noutput = "figures"\n'
        )
        self.lab("run", self.write(scenario("", 'count = 20\nevery = "20ms"\n', more=more)), "--out", "out", code=1)
        [run] = self.table("runs.csv")
        self.assertIn("program 'mute': it printed no figure", run["status"])
        self.assertEqual([(row["program"], row["value"]) for row in self.table("figures.csv")], [("tells", "7.0")])
        self.assertEqual(len(self.table("payloads.csv")), 20)

    def test_a_program_tells_how_long_it_ran(self) -> None:
        program = '[[program]]\nname = "rest"\nnode = "east"\nrun = "sleep {time}"\noutput = "time"\n[values]\ntime = "{}"\n'
        for time, code in (("0.3", 0), ("30", 1)):
            text = scenario(more=program.replace('"{}"', f'"{time}"')).replace("when_delivered = true", "when_ended = true")
            said = self.lab("run", self.write(text.replace('at = "20s"', 'at = "3s"')), "--out", time, code=code)
            if not code:
                # Its host sends the traffic of the scenario, so there may be a time from the first packet as well.
                [figure] = [row for row in self.table("figures.csv", time) if row["name"] == "time"]
                self.assertEqual((figure["program"], figure["name"], figure["unit"]), ("rest", "time", "s"))
                self.assertGreaterEqual(float(figure["value"]), 0.29)
            else:
                [run] = self.table("runs.csv", time)
                self.assertIn("program 'rest' did not end by itself", run["status"], said)

    def test_a_program_that_leaves_another_behind_ends_nonetheless(self) -> None:
        run = "sh -c 'setsid sleep 50 & sleep 0.1'"
        more = f'[[program]]\nname = "parent"\nnode = "east"\nrun = "{run}"\n'
        begun = time.monotonic()
        self.lab("run", self.write(scenario("", 'count = 20\nevery = "20ms"\n', more=more)), "--out", "out")
        self.assertLess(time.monotonic() - begun, 20.0)

    def test_what_happens_while_a_program_does_not_end_is_not_counted(self) -> None:
        deaf = self.place / "deaf"
        deaf.write_text("trap '' TERM\nwhile :; do sleep 0.2; done\n")
        program = f'[[program]]\nname = "deaf"\nnode = "east"\nrun = "sh {deaf}"\n'
        text = scenario('by = "tbf"\n', "count = 2000\n", more=program)
        text = text.replace('"16Mbit"', '"200kbit"').replace('at = "20s"', 'at = "2s"').replace("expects_all = true", "")
        self.lab("run", self.write(text), "--out", "out")
        [run] = self.table("runs.csv")
        self.assertLess(float(run["duration_s"]), 3.0)
        self.assertGreater(int(run["delivered"]), 0)
        self.assertLess(int(run["delivered_octets"]), 200_000 / 8 * 3)
        self.assertIn("Program deaf did not end within its grace", (self.place / "out" / "report.html").read_text())

    def test_a_node_that_dies_is_told_with_its_last_words(self) -> None:
        path = self.write(scenario(traffic='every = "50ms"\n'))
        process = self.begin("run", path, "--out", "out")
        [lab] = self.labs()
        end = time.monotonic() + PATIENCE_S
        while not self.received(lab["lab"], "west"):
            self.assertLess(time.monotonic(), end, "nothing arrives")
            time.sleep(0.02)
        os.kill(lab["nodes"][1]["process"], signal.SIGKILL)
        process.wait(PATIENCE_S)
        self.assertEqual(process.returncode, 1)
        [run] = self.table("runs.csv")
        self.assertTrue(run["status"].startswith("failed: node 'west' ended by itself (signal: 9"), run["status"])
        self.assertGreater(int(run["sent"]), 0)

    def test_a_lab_stays_until_it_is_taken_down(self) -> None:
        far = '[[node]]\nname = "far"\n[[link]]\nbetween = ["west", "far"]\nrate = "16Mbit"\n'
        far += '[[traffic]]\nfrom = "east"\nto = "far"\nsize = "1kB"\ncount = 1\n'
        path = self.write(scenario(more=far))
        lab = self.lab("up", path).strip()
        shown = self.lab("inspect", lab)
        self.assertIn("198.18.0.1", shown)
        self.assertIn("link0", self.lab("exec", lab, "east", "--", "ip", "-brief", "link"))
        status = self.lab("exec", lab, "west", "--", self.dhow, "status", "--json")
        self.assertIn("ipn:2.0", status)
        # Over nodes between, answers come back too.
        told = self.lab("exec", lab, "east", "--", self.dhow, "ping", "ipn:3.7", "--count", "1")
        self.assertIn("1 received", told)
        self.assertIn("it has east, west", self.lab("exec", lab, "north", "--", "true", code=1))
        self.assertEqual(self.lab("down", lab).strip(), lab)

    def test_what_cannot_be_is_said_before_anything_is_made(self) -> None:
        for text, said in [
            (scenario(link='by = "steam"\n'), "'by' cannot be \"steam\""),
            (scenario(node='settings = ["store.durabilty=contact"]\n'), "did you mean 'durability'?"),
            (scenario(more='[faults]\nstall_every = "1s"\n'), "needs virtual time"),
            (BATTERY, "which needs virtual time"),
            (scenario(more='[[program]]\nname = "p"\nnode = "east"\nrun = "true {south}"\n'), "names no node"),
            (scenario(more='[[program]]\nname = "p"\nnode = "east"\nrun = "true {collector:south}"\n'), "names no node"),
            (scenario(more='[[program]]\nname = "p"\nnode = "east"\nrun = "true {collector:west}"\n'
                           '[[contact]]\nlink = "wire"\nstart = "1s"\nfor = "1s"\n'), "that is always there"),
            (scenario(more='[report]\ntable = ["cpu:east", "speed"]\n'), "'speed' is not measured"),
            (scenario(more='[report]\ny = "speed"\n'), "'speed' is not measured"),
            (scenario(more='[report]\ny = "cpu:south"\n'), "no node is named 'south'"),
            (scenario(more='[report]\ny = "figure:rate:probe"\n'), "no program 'probe' tells figures"),
            (scenario(more='[[program]]\nname = "p"\nnode = "east"\nrun = "no-such-program"\n'), "no program 'no-such-program' on this machine"),
            (scenario().replace('"east"', '".."'), "no node may be named '..'"),
            ('congestion_control = "nosuch"\n' + scenario(), "the kernel has no congestion control 'nosuch'"),
            (scenario(more='[report]\nx = "traffic.size"\n'), "x is 'traffic.size', which is not swept: nothing is"),
            (scenario(more='[report]\npaper = "there-is-none.csv"\n'), "there-is-none.csv"),
        ]:
            with self.subTest(said=said):
                self.assertIn(said, self.lab("run", self.write(text), "--out", "out", code=2))
                self.assertFalse((self.place / "out").exists())

    def test_what_virtual_time_has_not_is_refused_there(self) -> None:
        path = self.write(scenario())
        for option in ("--pcap", "--keep"):
            told = self.lab("run", path, "--backend", "sim", option, "--out", "out", code=2)
            self.assertIn(f"{option} is of no use in virtual time", told)
            self.assertFalse((self.place / "out").exists())
        limited = self.write(scenario(node='cpu = "50%"\n'))
        told = self.lab("run", limited, "--backend", "netns", "--backend", "sim", "--out", "out", code=2)
        self.assertIn("'cpu'", told)
        self.assertFalse((self.place / "out").exists())
        told = self.lab("run", self.write(scenario()), "--backend", "sim", "--set", "congestion_control=vegas", "--out", "out", code=2)
        self.assertIn("the congestion control 'vegas' cannot be simulated", told)
        self.assertIn("virtual time has bbr, reno and cubic", told)

    def test_files_with_programs_are_left_out_where_a_directory_runs_in_virtual_time(self) -> None:
        directory = self.place / "several"
        directory.mkdir()
        program = PROGRAM.format(node='kind = "command"', run='"true"')
        (directory / "2-program.toml").write_text(program)
        told = self.lab("run", directory, "--backend", "sim", "--out", "out", code=2)
        self.assertIn("runs in virtual time: all have programs\nhint: --backend netns has them", told)
        (directory / "1-bundles.toml").write_text(scenario())
        self.lab("run", directory, "--backend", "sim", "--out", "out")
        self.assertEqual([path.name for path in (self.place / "out").iterdir() if path.is_dir()], ["1-bundles"])

    @unittest.skipIf(judge_missing(), f"{judge_missing()}")
    def test_the_captures_of_a_link_have_the_sessions_of_that_hop_alone(self) -> None:
        path = self.write(TWO_HOPS)
        self.lab("run", path, "--pcap", "--out", "out")
        run = self.place / "out" / "0001"
        said = {
            log.stem: [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
            for log in (run / "programs").glob("*.log")
        }
        port = int(said["receive"][0]["listening"].rpartition(":")[2])
        sessions = {}
        for file in (run / "packets").iterdir():
            dissection = Dissection(file, [port], transport="udp", spoken="ltp")
            self.assertEqual(dissection.verdict("ltp").faults, [])
            sessions[file.name.removesuffix(".pcapng")] = set(dissection.fields("ltp", "ltp.session.orig", "ltp.session.number"))
        self.assertEqual(sessions.keys(), {"down-orbiter", "down-rover", "up-earth", "up-orbiter"})
        self.assertEqual(sessions["up-earth"], sessions["up-orbiter"])
        self.assertEqual(sessions["down-orbiter"], sessions["down-rover"])
        self.assertFalse(sessions["up-earth"] & sessions["down-rover"])
        # The sessions of the transfer, by what the ends say of them.
        sent, received = said["send"][-1], next(it for it in said["receive"] if it.get("state") == "received")
        self.assertEqual(sent["transfer"], received["transfer"])
        self.assertIn(f"1\t{sent['session']}", sessions["up-earth"])
        self.assertIn(f"2\t{received['session']}", sessions["down-rover"])

    def test_a_missing_program_is_named_with_its_package(self) -> None:
        path = self.write(scenario())
        # All but dumpcap.
        for program in ("ip", "tc", "nft"):
            if found := shutil.which(program):
                (self.place / program).symlink_to(found)
        told = self.lab("run", path, "--pcap", "--out", "out", code=1, environment={"PATH": str(self.place)})
        self.assertIn("there is no program 'dumpcap'\nhint: apt-get install wireshark-common", told)
        for program in ("ip", "tc", "nft"):
            (self.place / program).unlink(missing_ok=True)
        told = self.lab("run", path, "--out", "out", code=1, environment={"PATH": str(self.place)})
        self.assertIn("there is no program 'ip'\nhint: apt-get install iproute2", told)
        self.assertFalse((self.place / "out").exists())

    def test_a_terminal_shows_a_run_while_it_goes_on_and_nothing_of_it_at_the_end(self) -> None:
        text = scenario(traffic='count = 12\nevery = "100ms"', more="[runs]\nrepeats = 2\n")
        path = self.write(text.replace('"20s"', '"2s"'))
        environment = {**self.environment(), "TERM": "xterm"}
        environment.pop("NO_COLOR", None)
        words = [str(self.dhow), "lab", "run", str(path), "--out"]
        _, sent = screen.run([*words, "shown"], 64, 6, self.place, environment)
        terminal = screen.Screen(64, 6)
        seen = terminal.play(sent)
        for expected in (r"study run 1 of 2  .* left; all in some ", r"study run 2 of 2  .* left$",
                         r"^  (east|west) +up +\d+\.\d % of a core$", r"payloads delivered, .*bit/s$",
                         r"^  and 1 more nodes$"):
            self.assertTrue(any(re.search(expected, text, re.MULTILINE) for text in seen), f"{expected}: {seen[-3:]}")
        self.assertLessEqual(max(len(text.splitlines()) for text in seen), 6)
        self.assertEqual([line.split(" ")[:2] for line in terminal.text().splitlines()],
                         [["the", "report"], ["results", "are"]])
        short = ["--repeats", "1", "--set", "traffic.count=4"]
        for words_more, more in (([*words, "plain"], {"NO_COLOR": "1"}), ([*words, "data", "--json"], {})):
            _, sent = screen.run([*words_more, *short], 200, 6, self.place, {**environment, **more})
            self.assertNotIn("of a core", sent)
            self.assertIn("2 of 2 nodes", sent)

    def need_tun_for_users(self) -> None:
        """Skips a test where users may not make the devices of emulated links."""
        if not os.stat("/dev/net/tun").st_mode & 0o002:
            self.skipTest("/dev/net/tun is not for users here")

    def as_nobody(self, *words: str | Path) -> subprocess.Popen[str]:
        """The command as a user without any right, in a directory of that user."""
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
        possible = subprocess.run([*user, "unshare", "--user", "--map-root-user", "--net", "--mount", "true"],
                                  capture_output=True, text=True, check=False)
        if possible.returncode != 0:
            self.skipTest(f"no namespaces for users: {possible.stderr.strip()}")
        # The one that was built may lie where other users cannot go.
        mine = self.place / "dhow"
        if not mine.exists():
            shutil.copy(self.dhow, mine)
        os.chown(self.place, 65534, 65534)
        return subprocess.Popen([*user, str(mine), "lab", *map(str, words)], cwd=self.place, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_who_is_not_root_has_a_lab_of_which_nothing_is_left(self) -> None:
        self.need_tun_for_users()
        contacts = '[[contact]]\nlink = "wire"\nstart = "100ms"\nfor = "300ms"\nevery = "500ms"\n'
        path = self.write(scenario('delay = "2ms"\nat_end = "silence"\n', more=contacts))
        done = self.as_nobody("run", path, "--out", "out")
        _, said = done.communicate(timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 0, said)
        self.assertEqual([(run["status"], run["delivered"]) for run in self.table("runs.csv")], [("done", "20")])
        limited = self.as_nobody("run", self.write(scenario(node='memory = "64MiB"'), "limited.toml"), "--out", "no")
        _, said = limited.communicate(timeout=PATIENCE_S)
        self.assertEqual(limited.returncode, 1)
        self.assertIn("'west' has limits, and there is no right to make control groups", said)
        self.assertFalse((self.place / "no").exists())

    def test_a_lab_of_a_user_ends_with_its_command_however_that_ends(self) -> None:
        self.need_tun_for_users()
        path = self.write(scenario(traffic='every = "1s"'))
        # Under nohup(1) the end of a terminal ends nothing.
        hangup = [(signal.SIGHUP, 130)] if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN else []
        for number, (sent, code) in enumerate([(signal.SIGTERM, 130), *hangup, (signal.SIGKILL, -9)]):
            with self.subTest(signal=sent):
                lab = self.as_nobody("run", path, "--out", f"out{number}")
                end = time.monotonic() + PATIENCE_S
                while not (self.place / f"out{number}" / "0001" / "links.csv").exists():
                    self.assertIsNone(lab.poll(), "the lab ended before it began")
                    self.assertLess(time.monotonic(), end, "the lab does not begin")
                    time.sleep(0.05)
                lab.send_signal(sent)
                self.assertEqual(lab.wait(PATIENCE_S), code)
                for stream in (lab.stdout, lab.stderr):
                    self.assertIsNotNone(stream)
                    # Programs of the lab that are left have these open.
                    stream.read()
                    stream.close()
        self.assertEqual([run["status"] for run in self.table("runs.csv", "out0")], ["interrupted"])

    def test_runs_that_wait_run_at_once(self) -> None:
        more = '[[program]]\nname = "wait"\nnode = "east"\nrun = "sleep 3"\noutput = "time"\n[runs]\njobs = 3\nrepeats = 6\n'
        text = scenario("", "count = 5\n", more=more).replace("when_delivered", "when_ended")
        path = self.write(text)
        self.lab("run", path, "--out", "out")
        runs = self.table("runs.csv")
        self.assertEqual([(run["status"], run["delivered"]) for run in runs], [("done", "5")] * 6)
        begun = sorted(datetime.datetime.fromisoformat(run["started"].replace("Z", "+00:00")).timestamp() for run in runs)
        # Three began before the first can have ended.
        self.assertLess(begun[2] - begun[0], 3, begun)
        said = self.lab("run", path, "--out", "no", "--jobs", "2", "--page", code=2)
        self.assertIn("--page shows one run in namespaces at a time", said)

    def test_the_picture_of_a_network_has_its_nodes(self) -> None:
        path = self.write(scenario())
        self.assertIn(">east</text>", self.lab("graph", path))
        self.assertIn('"east" -- "west"', self.lab("graph", path, "--format", "dot"))


if __name__ == "__main__":
    unittest.main()
