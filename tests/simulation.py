"""`dhow sim run` as a person meets it: what it finds, what it refuses, and what it leaves behind when it is interrupted."""

import json
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from labs.rig.binary import ROOT, dhow
from labs.rig.capture import Dissection, reader_missing

LABS = ROOT / "labs"
PATIENCE_S = 120.0

# Seeds of a network in which everything goes wrong, and seconds that they may take, whatever else the machine does.
SEEDS, SEEDS_PATIENCE_S = 30, 600.0


class Simulation(unittest.TestCase):
    """Runs of scenarios in `labs/`."""

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="dhow-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def command(self, *words: str) -> list[str]:
        """`dhow sim run` with these words, its report in the test's directory."""
        return [str(dhow("debug")), "sim", "run", *words, "--out", str(self.directory / "report")]

    def run_to_end(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A run that ends by itself."""
        return subprocess.run(
            self.command(*words), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def interrupt(self, *words: str) -> tuple[str, str, str]:
        """The first line of progress of a run that is interrupted then, and what it says on stdout and stderr from there on."""
        process = subprocess.Popen(
            self.command(*words, "--json", "--progress"),
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            line = process.stderr.readline()
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=PATIENCE_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.assertEqual(process.returncode, 130, stderr)
        return line, stdout, stderr

    def test_a_value_that_is_set_holds_and_a_run_repeats_itself(self) -> None:
        words = ["labs/line.toml", "--set", "line.count=3", "--set", "traffic.to=n3", "--set", "traffic.count=20", "--json"]
        first, second = (json.loads(self.run_to_end(*words).stdout) for _ in range(2))
        self.assertEqual((first["sent"], first["delivered"], first["violations"]), (20, 20, []))
        self.assertEqual(first["trace_hash"], second["trace_hash"])

    def test_a_payload_that_no_store_takes_is_refused_and_takes_no_memory(self) -> None:
        done = self.run_to_end("labs/line.toml", "--set", "traffic.size=1000000TB", "--set", "traffic.count=3", "--json")
        told = json.loads(done.stdout)
        self.assertEqual((done.returncode, told["sent"], told["refused"], told["delivered"]), (0, 3, 3, 0))

    def test_a_run_with_a_large_payload_ends_when_it_is_interrupted(self) -> None:
        large = ("line.quota=2GB", "line.rate=10Gbit", "traffic.size=1GB", "traffic.count=1")
        _, stdout, stderr = self.interrupt("labs/line.toml", *(word for setting in large for word in ("--set", setting)))
        self.assertTrue(json.loads(stdout)["interrupted"], stderr)

    def test_a_contact_plan_is_refused_or_told_where_a_link_is_not_as_it_says(self) -> None:
        scenario, plan = self.directory / "s.toml", self.directory / "plan.rc"
        nodes = '[[node]]\nname = "x"\n[[node]]\nname = "y"\n[[contact_plan]]\nfile = "plan.rc"\n'
        scenario.write_text(nodes + '[[traffic]]\nfrom = "x"\nto = "y"\nsize = "1kB"\ncount = 5\n[stop]\nat = "1min"\n')
        plan.write_text("a contact +0 +10 1 2 100000\na contact +20 +30 1 2 10000\n")
        done = self.run_to_end(str(scenario))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("plan.rc:2: nodes 1 and 2 have a contact of 10000 octets a second here", done.stderr)
        done = self.run_to_end(str(scenario), "--set", "contact_plan.rate=80kbit", "--seeds", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = "plan.rc:1: the plan does not have all of this contact (and of one other) in the other direction"
        self.assertEqual(done.stderr.count(told), 1, done.stderr)

    def test_what_cannot_be_run_is_refused_before_anything_is_written(self) -> None:
        for words, said in [
            (["labs/line.toml", "--set", "trafic.size=2kB"], "did you mean 'traffic'?"),
            (["labs/line.toml", "--set", "traffic.to=n9"], "--set traffic.to=n9: there is no node 'n9'"),
            (["labs/thousand.toml", "--memory", "10MB"], "1,024 nodes and 1,984 links"),
            (["labs/thousand.toml", "--memory", "2GB", "--seeds", "9", "--jobs", "9"], "cannot run 9 at once"),
            (["labs/line.toml", "--set", "line.quota=99TB", "--set", "traffic.size=20TB"], "it would take about"),
            (["labs/line.toml", "--seeds", "2", "--pcap", str(self.directory / "report")], "--pcap goes with one seed"),
            (["labs/none.toml"], "labs/none.toml: No such file"),
        ]:
            with self.subTest(said):
                done = self.run_to_end(*words)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(said, done.stderr)
                self.assertFalse((self.directory / "report").exists())

    def test_mistakes_in_what_is_swept_or_reported_are_told(self) -> None:
        scenario = self.directory / "wrong.toml"
        text = (LABS / "line.toml").read_text()
        for more, said in [
            ('[report]\ny = "goodputt"\n', "'goodputt' is not measured: did you mean 'goodput'?"),
            ('[report]\nx = "traffic.size"\n', "x is 'traffic.size', which is not swept: nothing is"),
            ('[sweep]\n"traffic.size" = ["2parsec"]\n', "traffic.size = 2parsec: 'size' is not a size"),
            ('[sweep]\n"traffic.size" = []\n', "'traffic.size' has no values"),
        ]:
            with self.subTest(said):
                scenario.write_text(text + more)
                done = self.run_to_end(str(scenario))
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(said, done.stderr)
        # A swept value is run once, as the file or the command says.
        scenario.write_text(text + '[sweep]\n"traffic.count" = [5, 6]\n[report]\nx = "traffic.count"\n')
        done = self.run_to_end(str(scenario), "--set", "traffic.count=3", "--until", "1s")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_seeds_of_everything_at_once_break_no_rule(self) -> None:
        done = subprocess.run(
            self.command("labs/mixed.toml", "--seeds", str(SEEDS), "--keep-going", "--json"),
            cwd=ROOT, capture_output=True, text=True, timeout=SEEDS_PATIENCE_S, check=False)
        outcomes = [json.loads(line) for line in done.stdout.splitlines()]
        broken = {outcome["seed"]: outcome["violations"] for outcome in outcomes if outcome["violations"]}
        self.assertEqual(broken, {}, "keep the seed in crates/sim/tests/regressions")
        self.assertEqual((done.returncode, len(outcomes)), (0, SEEDS), done.stderr)
        # They saw what they are for.
        for what in ("crashes", "stalls", "duplicates", "delivered"):
            self.assertGreater(sum(outcome[what] for outcome in outcomes), SEEDS, what)

    def test_seeds_on_all_cores_say_what_they_say_one_after_the_other(self) -> None:
        words = ["labs/mixed.toml", "--until", "10s", "--seeds", "12", "--json"]
        # Duration and memory of runs are the machine's affair.
        told = [
            [{**json.loads(line), "wall_s": 0, "peak_octets": 0} for line in self.run_to_end(*words, *more).stdout.splitlines()]
            for more in [["--jobs", "1"], ["--jobs", "4"], []]
        ]
        self.assertEqual([run["seed"] for run in told[0]], list(range(1, 13)))
        self.assertEqual(len({run["trace_hash"] for run in told[0]}), 12)
        self.assertEqual(told[0], told[1])
        self.assertEqual(told[0], told[2])

    def test_the_first_seed_with_a_violation_ends_all_unless_it_is_told_otherwise(self) -> None:
        # About half of the seeds draw a payload that the link carries in time.
        scenario = self.directory / "late.toml"
        scenario.write_text("""
            [[line]]
            name = "n"
            count = 2
            rate = "8kbit"
            [[traffic]]
            from = "n1"
            to = "n2"
            size = "1kB..45kB"
            count = 1
            [stop]
            at = "30s"
            expects_all = true
        """)
        words = [str(scenario), "--seed", "6", "--seeds", "8", "--jobs", "4", "--json"]
        told = [json.loads(line) for line in self.run_to_end(*words, "--keep-going").stdout.splitlines()]
        self.assertEqual([run["seed"] for run in told], list(range(6, 14)))
        wrong = [place for place, run in enumerate(told) if run["violations"]]
        self.assertTrue(0 < len(wrong) < 8 and wrong[0] > 0, wrong)
        done = self.run_to_end(*words)
        self.assertEqual(done.returncode, 1, done.stderr)
        stopped = [json.loads(line)["trace_hash"] for line in done.stdout.splitlines()]
        self.assertEqual(stopped, [run["trace_hash"] for run in told[:wrong[0] + 1]])
        self.assertEqual(done.stderr.count("replay:"), 1, done.stderr)

    def test_many_seeds_that_are_interrupted_leave_the_report_of_what_ran(self) -> None:
        line, stdout, stderr = self.interrupt("labs/mixed.toml", "--seeds", "100000", "--jobs", "3")
        self.assertRegex(line, r"of 100000 seeds have run; [1-3] under way")
        seeds = [json.loads(row)["seed"] for row in stdout.splitlines()]
        self.assertEqual(seeds, list(range(1, len(seeds) + 1)))
        partial = sum(json.loads(row)["interrupted"] for row in stdout.splitlines())
        self.assertIn(f"interrupted: {len(seeds) - partial} of 100,000 seeds ran to the end, {partial} in part", stderr)
        self.assertFalse([row for row in stdout.splitlines() if json.loads(row)["events"] == 0])
        self.assertIn("<h2>Runs", (self.directory / "report" / "report.html").read_text())

    def study(self, more: str = "") -> Path:
        """A scenario with two variants and two values that are swept."""
        scenario = self.directory / "study.toml"
        scenario.write_text(f"""
            [[line]]
            name = "n"
            count = 2
            rate = "8kbit"
            [[traffic]]
            from = "n1"
            to = "n2"
            size = "1kB..45kB"
            count = 4
            every = "1s"
            [stop]
            at = "60s"
            {more}
            [[variant]]
            name = "slow"
            set = ["line.rate=4kbit"]
            [[variant]]
            name = "usual"
            set = []
            [sweep]
            "traffic.count" = [2, 4]
            [runs]
            repeats = 2
        """)
        return scenario

    def test_a_study_runs_each_combination_with_each_seed_and_says_their_means(self) -> None:
        command = [str(dhow("debug")), "sim", "run", str(self.study())]

        def told(*words: str) -> str:
            done = subprocess.run(
                [*command, *words], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
            return done.stdout

        runs = [json.loads(line) for line in told("--repeats", "3", "--json").splitlines()]
        self.assertEqual(
            [(run["set"]["variant"], run["set"]["traffic.count"], run["seed"]) for run in runs],
            [(variant, count, seed) for variant in ("slow", "usual") for count in ("2", "4") for seed in (1, 2, 3)])
        alone = json.loads(told("--set", "traffic.count=4", "--set", "line.rate=4kbit", "--seed", "2", "--json"))
        self.assertEqual(runs[4]["trace_hash"], alone["trace_hash"])
        # As often as the file says, whatever the number of runs at once.
        tables = [told("--study", "--jobs", jobs).split("\n\n")[1].splitlines() for jobs in ("1", "3")]
        self.assertEqual(tables[0], tables[1])
        self.assertEqual(tables[0][1].split()[:4], ["variant", "traffic.count", "runs", "delivery_prob"])
        rows = [line.split() for line in tables[0][2:]]
        self.assertEqual([row[:3] for row in rows], [
            ["slow", "2", "2"], ["slow", "4", "2"], ["usual", "2", "2"], ["usual", "4", "2"]])
        ratio = [run["delivery_ratio"] for run in runs[3:5]]
        self.assertEqual(float(rows[1][3]), round(sum(ratio) / 2, 3))
        self.assertEqual(rows[1][4], "±")

    def test_a_study_stops_at_the_first_violation_and_leaves_what_a_lab_does(self) -> None:
        scenario = self.study("expects_all = true")
        done = self.run_to_end(str(scenario), "--study", "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        last = json.loads(done.stdout.splitlines()[-1])
        self.assertIn("--set 'line.rate=4kbit' --set 'traffic.count=", last["violations"][0]["replay"])
        self.assertNotIn("runs.repeats", last["violations"][0]["replay"])
        self.assertIn("table", (self.directory / "report" / "report.html").read_text())
        self.assertTrue((self.directory / "report" / "runs.csv").exists())
        done = subprocess.run(
            [str(dhow("debug")), "sim", "run", str(scenario), "--study", "--seeds", "3"],
            cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_a_study_that_is_interrupted_says_what_there_is(self) -> None:
        with (self.directory / "stderr").open("w+") as stderr:
            process = subprocess.Popen(
                [str(dhow("debug")), "sim", "run", "labs/mixed.toml", "--repeats", "100000", "--until", "5s"],
                cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True)
            try:
                lines = [process.stdout.readline()]
                process.send_signal(signal.SIGINT)
                lines += process.stdout.readlines()
                process.wait(timeout=PATIENCE_S)
            finally:
                process.stdout.close()
                if process.poll() is None:
                    process.kill()
                    process.wait()
            stderr.seek(0)
            said = stderr.read()
        self.assertEqual(process.returncode, 130, said)
        whole = sum(line.startswith("seed ") and "(interrupted)" not in line for line in lines)
        self.assertGreater(whole, 0)
        self.assertEqual(lines[-1].split()[0], f"{whole:,}", lines)
        self.assertIn(f"interrupted: {whole:,} of 100,000 runs went to their end", said)

    def capture(self, *words: str, ltp: bool = False) -> tuple[Dissection, dict]:
        """The files of a run for the judge, and its output."""
        if reason := reader_missing():
            self.skipTest(reason)
        file = self.directory / "links.pcapng"
        told = json.loads(self.run_to_end(*words, "--json", "--pcap", str(file)).stdout)
        self.assertEqual(told["violations"], [])
        if ltp:
            # The judge knows the port by itself.
            return Dissection(file, [], transport="udp"), told
        return Dissection(file, [4556], ["-o", "tcp.check_checksum:TRUE"]), told

    def test_tshark_finds_the_bundles_and_no_fault_in_what_passed_over_links(self) -> None:
        words = ["labs/line.toml", "--set", "line.count=3", "--set", "traffic.to=n3", "--set", "traffic.count=20"]
        dissection, told = self.capture(*words, "--set", "traffic.size=1kB..300kB")
        self.assertEqual(told["trace_hash"], json.loads(
            self.run_to_end(*words, "--set", "traffic.size=1kB..300kB", "--json").stdout)["trace_hash"])
        verdict = dissection.verdict()
        self.assertEqual((verdict.faults, verdict.bundles), ([], 40))
        self.assertEqual(
            set(dissection.fields("bpv7", "frame.interface_name", "ipv6.src")),
            {"n1-n2\tfd64:746e::1", "n2-n3\tfd64:746e::2"})

    def test_tshark_finds_no_fault_of_tcp_where_links_and_nodes_fail(self) -> None:
        dissection, told = self.capture("labs/mixed.toml", "--until", "90s")
        self.assertGreater(told["crashes"], 5)
        # Headers are made up, so they are right: cuts show as resets, and as nothing else.
        wrong = "_ws.malformed || tcp.analysis.flags"
        self.assertEqual(dissection.fields(wrong, "frame.number", "_ws.expert.message"), [])
        checked = dissection.fields("tcp.checksum.status", "tcp.checksum.status")
        self.assertEqual(set(checked), {"1"})
        self.assertEqual(len(dissection.fields("tcp.flags.syn == 1 && tcp.flags.ack == 0", "tcp.stream")), told["connections"])
        self.assertTrue(dissection.fields("tcp.flags.reset == 1", "tcp.stream"))
        remarks = "".join(dissection.fields("frame.comment", "frame.comment"))
        for remark in ["orbiter is killed", "ground loses power", "lander starts", "a contact begins", "the contact ends"]:
            self.assertIn(remark, remarks)

    def test_tshark_knows_ltp_by_its_port_and_finds_no_fault(self) -> None:
        # Without loss: of blocks that are repaired the judge puts the octets together before all are there.
        keys = ("protocol=ltp", "delay=1s")
        words = [word for key in keys for word in ("--set", f"line.{key}")]
        dissection, _ = self.capture(
            "labs/line.toml", "--set", "line.count=2", "--set", "traffic.to=n2", "--set", "traffic.count=20",
            "--set", "traffic.size=1kB..300kB", *words, ltp=True)
        verdict = dissection.verdict("udp")
        self.assertEqual((verdict.faults, verdict.bundles), ([], 20))
        self.assertEqual(set(dissection.fields("ltp", "udp.dstport")), {"1113"})
        for kind in ("ltp.data.offset", "ltp.rpt.sno", "ltp.rpt.ack.sno"):
            self.assertTrue(dissection.fields(kind, kind), kind)

    def test_a_capture_ends_at_its_size_and_the_run_goes_on(self) -> None:
        file = self.directory / "links.pcapng"
        words = ["labs/line.toml", "--set", "line.count=2", "--set", "traffic.to=n2", "--set", "traffic.count=20", "--json"]
        done = self.run_to_end(*words, "--pcap", str(file), "--pcap-octets", "100kB")
        self.assertEqual((done.returncode, json.loads(done.stdout)["delivered"]), (0, 20))
        self.assertIn("is full: packets after", done.stderr)
        self.assertTrue(40_000 < file.stat().st_size < 101_000, file.stat().st_size)

    def test_an_interrupted_run_leaves_the_report_of_what_ran(self) -> None:
        line, stdout, _ = self.interrupt("labs/field.toml", "--set", "stop.at=3d", "--set", "field.step=1min")
        for word in ["seed 1:", "events/s", "created", "delivered", "expired", "in stores"]:
            self.assertIn(word, line)
        ran = json.loads(stdout)
        self.assertTrue(0 < ran["virtual_s"] < 3 * 86_400, ran)
        self.assertEqual((ran["violations"], ran["interrupted"]), ([], True))
        names = {path.name for path in (self.directory / "report").iterdir()}
        self.assertEqual(names, {"report.html", "samples.csv", "payloads.csv", "links.csv", "nodes.csv", "runs.csv"})


if __name__ == "__main__":
    unittest.main()
