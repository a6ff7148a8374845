"""The examples of the Python package, each between two nodes as its head says to run it."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import unittest
from collections.abc import Callable
from pathlib import Path

from labs.rig.binary import ROOT, target_directory
from labs.rig.crew import Program
from labs.rig.node import Node, free_port
from tests.workplace import Workplace

PATIENCE_S = 60.0

# The import that shows that paho-mqtt is there, of version 2 or newer.
PAHO = "import paho.mqtt.enums"


def until(condition: Callable[[], object], what: str) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not in {PATIENCE_S:.0f} s")
        time.sleep(0.02)


class Examples(Workplace):
    """Programs of python/examples."""

    more = '[reports]\ngenerate = ["delivery", "deletion"]\n'

    def setUp(self) -> None:
        super().setUp()
        self.start()

    def example(self, node: Node, *words: str, python: str = sys.executable, typed: bool = False) -> Program:
        """An example at a node."""
        name, *rest = words
        environment = [f"PYTHONPATH={ROOT / 'python'}", f"DHOW_NODE={node.socket}", "PYTHONDONTWRITEBYTECODE=1"]
        return self.crew.start(
            ["env", *environment, python, str(ROOT / "python" / "examples" / name), *rest], log=self.directory / "examples.log", typed=typed)

    def log(self) -> str:
        """The errors of examples."""
        return (self.directory / "examples.log").read_text()

    def test_examples_are_short(self) -> None:
        lengths = {path.name: len(path.read_text().splitlines()) for path in (ROOT / "python" / "examples").glob("*.py")}
        self.assertEqual(len(lengths), 4)
        self.assertEqual({name: length for name, length in lengths.items() if length > 60}, {})

    def test_two_people_chat(self) -> None:
        here = self.example(self.sender, "chat.py", "ipn:1.50", "ipn:2.50", typed=True)
        there = self.example(self.receiver, "chat.py", "ipn:2.50", "ipn:1.50", typed=True)
        here.type("hello")
        self.assertRegex(there.line(PATIENCE_S) or self.log(), r"^\[\d\d:\d\d:\d\d\] ipn:1.50: hello$")
        self.receiver.kill()
        here.type("are you there?")
        self.receiver.start()
        self.assertIn("are you there?", there.line(PATIENCE_S) or self.log())
        there.type("again")
        self.assertIn("ipn:2.50: again", here.line(PATIENCE_S) or self.log())

    def test_readings_arrive_and_receipts_come_back(self) -> None:
        sensor = self.example(self.sender, "sensor.py", "ipn:2.70", "0.001", "25")
        taken = self.receiver.run("recv", "ipn:2.70", "--count", "3", "--out", str(self.directory / "readings"), "--timeout", "60s")
        self.assertEqual(taken.returncode, 0, taken.stderr)
        readings = [json.loads(line) for path in sorted((self.directory / "readings").iterdir()) for line in path.read_text().splitlines()]
        self.assertEqual(len(readings), 25)
        self.assertEqual(sensor.wait(PATIENCE_S), 0, self.log())
        self.assertEqual(sum("delivery at ipn:2.0" in line for line in sensor.rest()), 3)

    def test_files_move_from_directory_to_directory(self) -> None:
        outgoing, incoming = self.directory / "outgoing", self.directory / "incoming"
        outgoing.mkdir()
        self.example(self.sender, "watch.py", "send", str(outgoing), "ipn:2.71")
        self.example(self.receiver, "watch.py", "receive", "ipn:2.71", str(incoming))
        octets = os.urandom(2_000_000)
        (outgoing / "one").write_bytes(octets)
        (outgoing / "two words").write_bytes(b"")
        until(lambda: (incoming / "one").exists() and (incoming / "two words").exists(), "the files arrive")
        self.assertEqual((incoming / "one").read_bytes(), octets)
        until(lambda: not list(outgoing.iterdir()), "the files leave")

    def test_messages_of_a_broker_come_to_another(self) -> None:
        python, mosquitto = self.paho(), self.broker_program()
        ports = [free_port(), free_port()]
        for port in ports:
            file = self.directory / f"broker-{port}.conf"
            file.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
            self.crew.start([mosquitto, "-c", str(file)], log=self.directory / "brokers.log")
        script = """if True:
            import sys
            from paho.mqtt import publish, subscribe
            from threading import Thread
            here, there = map(int, sys.argv[1:])
            got = set()
            def take(client, _, message):
                # With a quality of 1 a message may come again.
                if (message.topic, message.payload) in got:
                    return
                got.add((message.topic, message.payload))
                if len(got) == 1:
                    publish.multiple([{"topic": "sensors/%d" % at, "payload": b"\\0%d" % at, "qos": 1} for at in range(50)], port=here)
                if len(got) == 51:
                    client.disconnect()
            Thread(target=lambda: publish.single("sensors/first", "first", 1, True, port=here)).start()
            subscribe.callback(take, "sensors/#", qos=1, port=there)
            assert got == {("sensors/first", b"first")} | {("sensors/%d" % at, b"\\0%d" % at) for at in range(50)}, got
        """
        until(lambda: all(self.answers(port) for port in ports), "the brokers listen")
        self.example(self.receiver, "mqtt.py", "out", "ipn:2.80", f"127.0.0.1:{ports[1]}", python=python)
        bringing = self.example(self.sender, "mqtt.py", "in", f"127.0.0.1:{ports[0]}", "sensors/#", "ipn:2.80", python=python)
        self.assertEqual(bringing.line(PATIENCE_S), "subscribed", self.log())
        done = subprocess.run([python, "-c", script, *map(str, ports)], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr + self.log())

    @staticmethod
    def answers(port: int) -> bool:
        """Whether somebody listens at a port."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def paho(self) -> str:
        """A Python that has paho-mqtt; skips where there is none."""
        for python in (sys.executable, str(target_directory() / "python" / "environment" / "bin" / "python")):
            if Path(python).exists() and subprocess.run([python, "-c", PAHO], capture_output=True, check=False).returncode == 0:
                return python
        self.skipTest("no paho-mqtt 2 (python3 -m tests.run python_libraries installs it)")

    def broker_program(self) -> str:
        """The broker; skips where there is none."""
        found = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
        return found or self.skipTest("no mosquitto")


if __name__ == "__main__":
    unittest.main()
