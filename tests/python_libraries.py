"""The parts of the Python package that take libraries or a while: types, results, the notebook, the wheel, applications over MQTT.

Libraries are installed into target/python the first time; without a registry all of this is skipped.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from labs.rig.binary import ROOT, dhow, target_directory
from labs.rig.node import free_port
from tests.libraries import environment

LIBRARIES = [
    "mypy", "pandas", "pandas-stubs", "pyarrow", "matplotlib", "nbclient", "nbformat", "ipykernel", "paho-mqtt", "maturin", "grpcio-tools",
    "openapi-python-client", "ruff",
]

# A step takes no longer than this, seconds.
PATIENCE_S = 300

# A small drive-by in virtual time: a radio whose rate and bundles are swept.
RADIO = """
name = "Radio rate"
[[node]]
name = "beta"
[[node]]
name = "gamma"
[[link]]
name = "radio"
between = ["beta", "gamma"]
rate = "12Mbit"
[[contact]]
link = "radio"
start = "1s"
for = "2s"
[[traffic]]
from = "beta"
to = "gamma"
size = "50kB"
total = "4MB"
[sweep]
"link.radio.rate" = ["6Mbit", "12Mbit"]
"traffic.size" = ["10kB", "50kB"]
[runs]
repeats = 3
[stop]
at = "4s"
[report]
x = "link.radio.rate"
group_by = "traffic.size"
more = "delay_median"
paper = "rate.csv"
"""

# Another, of which each point is a variant.
DISKS = RADIO.split("[sweep]")[0] + """
[[variant]]
name = "flash"
set = ["traffic.size=10kB"]
[[variant]]
name = "hard disk"
set = ["traffic.size=20kB"]
[stop]
at = "4s"
[report]
title = "Disks"
x = "variant"
y = "drain"
more = "delay_max, written_per_octet"
"""


class Apart(unittest.TestCase):
    """A directory, and the Python with all libraries."""

    python: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.python = environment("environment", LIBRARIES)

    def setUp(self) -> None:
        self.place = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="dhow-python-")))

    def run_python(self, *words: str, **environment: str) -> str:
        """The output of a Python program; the package is that of the sources."""
        done = subprocess.run(
            [str(self.python), *words], cwd=self.place, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
            env=os.environ | {"PYTHONPATH": str(ROOT / "python")} | environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def results(self) -> Path:
        """Results of the small drive-by."""
        scenarios = self.place / "scenarios"
        scenarios.mkdir()
        (scenarios / "7-disk.toml").write_text(DISKS)
        (scenarios / "8-rate.toml").write_text(RADIO)
        shutil.copy(ROOT / "labs" / "drive-by" / "rate.csv", scenarios)
        command = [dhow("debug"), "lab", "run", str(scenarios), "--backend", "sim", "--out", str(self.place / "drive-by")]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
        return self.place / "drive-by"


class Types(Apart):
    """The package as a type checker sees it."""

    def test_mypy_finds_nothing(self) -> None:
        self.run_python("-m", "mypy", "--strict", "--python-version", "3.11", "--cache-dir", str(self.place / "mypy"),
                        str(ROOT / "python" / "dhow"), str(ROOT / "python" / "examples"))


class Messages(Apart):
    """Our octets beside those of the protobuf library, by the messages of docs/aap2-dhow.proto."""

    def test_messages_are_those_of_the_protobuf_library(self) -> None:
        self.run_python("-m", "grpc_tools.protoc", f"-I{ROOT / 'docs'}", f"--python_out={self.place}", "aap2-dhow.proto")
        script = textwrap.dedent("""
            import random, sys
            sys.path.insert(0, ".")
            import aap2_dhow_pb2 as pb
            from dhow import wire

            dice = random.Random(8)
            number = lambda bits=64: dice.getrandbits(dice.randrange(bits) + 1)
            text = lambda: "".join(chr(dice.choice((65, 228, 8364, 128512))) for _ in range(dice.randrange(1, 30)))
            body = lambda framed: framed[wire.number(framed, 0)[1]:]
            for _ in range(3000):
                head = wire.Adu(text(), text(), payload_octets=number(), report_to=text(), lifetime_ms=number(), flags=number(), version=dice.choice((6, 7)), level=dice.randrange(1, 258))
                made = pb.AAPMessage.FromString(body(wire.request(head))).adu
                assert (made.src_eid, made.dst_eid, made.payload_length, made.report_to_eid) == (head.source, head.destination, head.payload_octets, head.report_to)
                assert (made.lifetime_ms, made.bundle_flags, made.bundle_version or 7, made.priority) == (head.lifetime_ms, head.flags, head.version, head.level)
                config = pb.AAPMessage.FromString(body(wire.config("e", subscribes=True, secret="s", keepalive_s=9, abandon=True, window=5))).config
                assert (config.is_subscriber, config.secret, config.endpoint_id, config.keepalive_seconds, config.failure_action, config.delivery_window) == (True, "s", "e", 9, 1, 5)
                identity = number()
                answer = pb.AAPResponse.FromString(body(wire.answer(8, identity)))
                assert (answer.response_status, answer.delivery_id) == (8, identity)
                adu = pb.BundleADU(src_eid=text(), dst_eid=text(), creation_timestamp_ms=number(), sequence_number=number(), payload_length=number(),
                    adu_flags=[0, 3], report_to_eid=text(), lifetime_ms=number(), delivery_id=number(), bundle_version=6, priority=9)
                read = wire.message(pb.AAPMessage(adu=adu).SerializeToString())
                assert read == wire.Adu(adu.src_eid, adu.dst_eid, adu.creation_timestamp_ms, adu.sequence_number, adu.payload_length, adu.report_to_eid,
                    adu.lifetime_ms, wire.FLAG_ADMINISTRATIVE, adu.delivery_id, 6, 9), read
                bundle = pb.Bundle(src_eid=text(), creation_timestamp_ms=number(), sequence_number=number(), lifetime_ms=number())
                response = pb.AAPResponse(response_status=1, bundle_headers=bundle, message=text(), request_id=number())
                assert wire.response(response.SerializeToString()) == wire.Response(1, response.message, bundle.src_eid, bundle.creation_timestamp_ms,
                    bundle.sequence_number, bundle.lifetime_ms)
                welcome = pb.Welcome(node_id=text(), extensions=1, payload_octets_max=number())
                assert wire.message(pb.AAPMessage(welcome=welcome).SerializeToString()) == wire.Welcome(welcome.node_id, 1, welcome.payload_octets_max)
            assert wire.message(pb.AAPMessage(keepalive=pb.Keepalive()).SerializeToString()) == wire.Keepalive()
            assert wire.message(pb.AAPMessage(link=pb.Link()).SerializeToString()) is None
        """)
        self.run_python("-c", script)


class Tables(Apart):
    """Results as tables."""

    def test_what_was_swept_is_in_columns_with_units(self) -> None:
        place = self.results()
        script = textwrap.dedent("""
            import sys
            import pandas as pd
            import dhow.results

            studies = dhow.results.load_all(sys.argv[1])
            assert list(studies["7-disk"].spread("drain")["variant"]) == ["flash", "hard disk"]
            study = studies["8-rate"]
            runs = study.runs
            assert study.swept == ["link.radio.rate", "traffic.size"], study.swept
            assert sorted(set(runs["link.radio.rate"])) == [6e6, 12e6] and sorted(set(runs["traffic.size"])) == [10e3, 50e3]
            assert (study.unit("link.radio.rate"), study.unit("goodput"), study.unit("traffic.size")) == ("bit/s", "bit/s", "octets")
            spread = study.spread("goodput", by=["link.radio.rate"])
            assert list(spread["count"]) == [6, 6] and spread["mean"][0] < 6e6 < spread["mean"][1] < 12e6, spread
            payloads = study.table("payloads")
            assert len(payloads) == runs["sent"].sum() and (payloads["delay_s"].dropna() > 0).all()
            written = study.to_parquet("parquet")
            again = pd.read_parquet("parquet/payloads.parquet")
            pd.testing.assert_frame_equal(again, payloads)
            assert again.attrs["units"]["traffic.size"] == "octets"
        """)
        self.run_python("-c", script, str(place))

    def test_results_of_a_simulation_are_tables_too(self) -> None:
        (self.place / "radio.toml").write_text(RADIO.split("[sweep]")[0] + '[stop]\nat = "4s"\n')
        command = [dhow("debug"), "sim", "run", "radio.toml", "--seeds", "3", "--out", "sim"]
        subprocess.run(command, cwd=self.place, check=True, capture_output=True, timeout=PATIENCE_S)
        script = "import dhow.results as r; s = r.load('sim'); assert len(s.runs) == 3; assert s.spread('sent')['mean'][0] == 80; assert len(s.table('payloads')) == 240"
        self.run_python("-c", script)

    def test_the_example_of_the_document_runs(self) -> None:
        text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
        block = re.search(r"^```python results\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        assert block
        command = [dhow("debug"), "lab", "run", str(ROOT / "labs" / "first.toml"), "--backend", "sim", "--out", "results"]
        subprocess.run(command, cwd=self.place, check=True, capture_output=True, timeout=PATIENCE_S)
        self.assertIn("octets", self.run_python("-c", block.group(1)))
        self.assertTrue((self.place / "parquet" / "links.parquet").exists())

    def test_measurements_of_a_run_are_tables(self) -> None:
        script = textwrap.dedent("""
            import pathlib, sqlite3
            import dhow, dhow.results
            pathlib.Path("lab/netns-0001").mkdir(parents=True)
            pathlib.Path("lab/runs.csv").write_text("seed\\n1\\n")
            results = dhow.results.load("lab")
            with sqlite3.connect("lab/netns-0001/measurements.sq3") as database:
                database.execute("CREATE TABLE link_octets (oml_ts_client REAL, octets INTEGER)")
                database.execute("CREATE TABLE _senders (id INTEGER)")
                database.execute("INSERT INTO link_octets VALUES (0.5, 7)")
            tables = results.measurements("netns-0001")
            assert list(tables) == ["link_octets"] and tables["link_octets"]["octets"][0] == 7
            for wrong in (lambda: results.measurements("netns-0002"), lambda: results.table("nothing"), lambda: dhow.results.load("."), lambda: dhow.results.load_all("x")):
                try:
                    wrong()
                except dhow.DhowError as error:
                    assert error.hint
                else:
                    raise AssertionError("nothing is there")
        """)
        self.run_python("-c", script)

    def test_quantities_are_read_as_scenarios_have_them(self) -> None:
        script = textwrap.dedent("""
            from dhow.results.quantity import half_interval, numbers
            assert numbers(["1kB", "2KiB", "0"]) == ([1000, 2048, 0], "octets")
            assert numbers(["6Mbit", "1Gbit/s"]) == ([6e6, 1e9], "bit/s") and numbers(["250ms", "5min"]) == ([0.25, 300], "s")
            assert numbers(["0.5%", "100%"]) == ([0.005, 1], "") and numbers(["3", "4"]) == ([3, 4], "")
            assert numbers(["1kB", "1s"]) is None and numbers(["flash", "1kB"]) is None
            assert abs(half_interval(1, 5) - 2.776 / 5**0.5) < 1e-3 and abs(half_interval(1, 101) - 0.1974) < 1e-3
        """)
        self.run_python("-c", script)

    def test_the_notebook_draws_the_figures_of_the_report(self) -> None:
        script = textwrap.dedent(f"""
            import nbformat
            from nbclient import NotebookClient
            notebook = nbformat.read({str(ROOT / 'labs' / 'drive-by' / 'figures.ipynb')!r}, 4)
            NotebookClient(notebook, resources={{"metadata": {{"path": {str(ROOT / 'labs' / 'drive-by')!r}}}}}, timeout={PATIENCE_S}).execute()
            for cell in notebook.cells:
                for output in cell.get("outputs", []):
                    print(output.get("text", ""), *output.get("data", ()))
        """)
        told = self.run_python("-c", script, DRIVE_BY=str(self.results()), IPYTHONDIR=str(self.place / "ipython"))
        self.assertIn("4 pictures", told)
        self.assertIn("written_per_octet is in no column", told)
        self.assertEqual(told.count("image/png"), 4, told)


class Wheel(Apart):
    """The wheel, installed where nothing else is."""

    def test_the_wheel_brings_the_program_and_the_package(self) -> None:
        if not shutil.which("strip"):
            self.skipTest("no strip (binutils)")
        command = [sys.executable, "-m", "packaging.wheel", "--binary", str(dhow("debug")), "--out", str(self.place)]
        command += ["--maturin", str(self.python.with_name("maturin"))]
        made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        wheel = Path(made.stdout.strip())
        fresh = self.place / "fresh"
        subprocess.run([sys.executable, "-m", "venv", str(fresh)], check=True, timeout=PATIENCE_S)
        subprocess.run([str(fresh / "bin" / "pip"), "install", "--quiet", "--no-index", str(wheel)], check=True, timeout=PATIENCE_S)
        script = textwrap.dedent("""
            import subprocess, sys
            import dhow
            assert dhow.__file__.startswith(sys.prefix), dhow.__file__
            subprocess.run(["dhow", "node", "init", "ipn:7.0", "--dir", "node"], check=True)
            with subprocess.Popen(["dhow", "node", "run", "--config", "node/node.toml"], stdout=subprocess.PIPE) as running:
                assert b"ready" in running.stdout.readline()
                with dhow.connect("node/dhow.sock") as node:
                    bundle = node.send("ipn:7.42", b"hello")
                    with next(node.receive("ipn:7.42", timeout=30)) as delivery:
                        print(delivery.id == bundle, delivery.read())
                running.terminate()
        """)
        environment = {"PATH": f"{fresh / 'bin'}:/usr/bin:/bin", "HOME": str(self.place)}
        done = subprocess.run(
            [str(fresh / "bin" / "python"), "-c", script], cwd=self.place, env=environment, capture_output=True, text=True,
            timeout=PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1:]), (0, ["True b'hello'"]), done.stderr)


class Generated(Apart):
    """A client that a generator makes of docs/openapi.json, with a node that runs."""

    def test_a_generated_client_sends_receives_and_is_refused(self) -> None:
        self.run_python("-m", "openapi_python_client", "generate", "--path", str(ROOT / "docs" / "openapi.json"), "--meta", "none",
                        "--output-path", str(self.place / "generated"), "--fail-on-warning",
                        PATH=f"{self.python.parent}:{os.environ['PATH']}")
        command = [dhow("debug"), "node", "init", "ipn:7.0", "--dir", str(self.place / "node")]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
        address = f"127.0.0.1:{free_port()}"
        file = self.place / "node" / "node.toml"
        file.write_text(f"""{file.read_text()}
[http]
listen = "{address}"
[[token]]
secret = "sends-and-receives"
scopes = ["send", "receive"]
[[token]]
secret = "sends-and-no-more"
scopes = ["send"]
""")
        script = textwrap.dedent("""
            import io, sys
            from generated import AuthenticatedClient
            from generated.api.default import confirm_delivery, decline_delivery, openapi, receive_bundle, send_bundle
            from generated.models import Created, Refusal
            from generated.types import File

            def client(token):
                return AuthenticatedClient(base_url=sys.argv[1], token=token, timeout=60)

            both, payload = client("sends-and-receives"), bytes(range(256)) * 1000
            created = send_bundle.sync(client=both, to="ipn:7.42", lifetime="1h", body=File(io.BytesIO(payload)))
            assert isinstance(created, Created) and created.lifetime_ms == 3_600_000, created
            for end in (decline_delivery, confirm_delivery):
                answer = receive_bundle.sync_detailed("42", client=both, wait="30s")
                assert (answer.status_code, answer.parsed.payload.read()) == (200, payload)
                assert (answer.headers["dhow-bundle"], answer.headers["dhow-destination"]) == (created.id, "ipn:7.42")
                done = end.sync_detailed("42", answer.headers["dhow-delivery"], client=both)
                assert done.status_code == 204, done
            assert receive_bundle.sync_detailed("42", client=both).status_code == 204
            for refused, code, word in (
                (receive_bundle.sync_detailed("42", client=client("sends-and-no-more")), 403, "receive"),
                (receive_bundle.sync_detailed("42", client=client("none")), 401, "token"),
                (receive_bundle.sync_detailed("ipn:8.42", client=both), 400, "ipn:8.42"),
                (confirm_delivery.sync_detailed("42", "77", client=both), 404, "leased"),
                (send_bundle.sync_detailed(client=both, to="nobody", body=File(io.BytesIO(b"x"))), 400, "nobody"),
            ):
                assert refused.status_code == code and isinstance(refused.parsed, Refusal), refused
                assert word in refused.parsed.error + str(refused.parsed.hint), refused.parsed
            assert openapi.sync(client=both).to_dict()["openapi"].startswith("3.")
        """)
        with subprocess.Popen([dhow("debug"), "node", "run", "--config", str(file)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
            assert running.stdout is not None
            try:
                self.assertIn(b"ready", running.stdout.readline())
                self.run_python("-c", script, f"http://{address}")
            finally:
                running.terminate()


if __name__ == "__main__":
    unittest.main()
