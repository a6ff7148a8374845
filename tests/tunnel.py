"""IP packets between two network namespaces that nothing but bundles joins: pings, a shell over SSH while the link is cut and nodes are killed, strangers, and the end."""

import contextlib
import hashlib
import json
import os
import queue
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from labs.rig.crew import Program
from labs.rig.network import namespaces_possible
from tests.udp import until
from tests.workplace import Workplace

HERE, THERE = "10.80.0.1", "10.80.0.2"

# The link is away for so long. DHOW_OUTAGE_S=30 is what a shell is meant to outlast.
OUTAGE_S = float(os.environ.get("DHOW_OUTAGE_S", "5"))

# A step takes no longer than this, seconds; a machine that is busy with something else included.
PATIENCE_S = 60.0

# Counts datagrams of UDP, and says how many came before the last.
COUNT = """
import socket
taken = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
taken.bind(("fd80::2", 9))
print("ready", flush=True)
count = 0
while taken.recv(9) != b"last":
    count += 1
print(count, flush=True)
"""

# Sends them, one and one that is an IPv6 header with nothing behind it (next header 59), and the last once those have come.
SEND = """
import socket, time
plain, bare = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM), socket.socket(socket.AF_INET6, socket.SOCK_RAW, 59)
for number in range(50):
    plain.sendto(b"x", ("fd80::2", 9))
    bare.sendto(b"", ("fd80::2", 0))
time.sleep(0.5)
plain.sendto(b"last", ("fd80::2", 9))
"""


class Tunnels(Workplace):
    """Each node's tunnel has its device in a namespace of its own; the nodes reach each other over loopback."""

    def setUp(self) -> None:
        super().setUp()
        if reason := namespaces_possible():
            self.skipTest(reason)
        if not Path("/dev/net/tun").exists():
            self.skipTest("the kernel has no TUN devices here")
        self.spaces = []
        for end in ("here", "there"):
            space = f"dhow-{os.getpid()}-{end}"
            subprocess.run(["ip", "netns", "add", space], check=True)
            self.addCleanup(subprocess.run, ["ip", "netns", "delete", space], check=False, capture_output=True)
            subprocess.run(["ip", "-n", space, "link", "set", "lo", "up"], check=True)
            self.spaces.append(space)
        self.start()

    def tunnel(self, end: int, *words: str) -> Program:
        """Starts an end of the tunnel, and waits until it is up."""
        node, addresses = [(self.sender, ("ipn:1.80", "ipn:2.80", f"{HERE}/24")),
                           (self.receiver, ("ipn:2.80", "ipn:1.80", f"{THERE}/24"))][end]
        local, remote, address = addresses
        argv = node.command("tunnel", local, remote, "--address", address, "--json", *words)
        program = self.crew.start(argv, log=node.directory / "tunnel.log", namespace=self.spaces[end])
        line = self.event(program)
        self.assertEqual((line["event"], line["local"], line["addresses"][0]), ("up", local, address))
        return program

    def event(self, program: Program) -> Any:
        """The next line of a tunnel."""
        line = program.line(PATIENCE_S)
        self.assertIsNotNone(line, "the tunnel ended")
        return json.loads(line or "null")

    def within(self, end: int, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in an end's namespace."""
        return subprocess.run(["ip", "netns", "exec", self.spaces[end], *words],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def end(self, program: Program) -> Any:
        """Ctrl-C; the last line."""
        os.kill(program.pid, signal.SIGINT)
        line = self.event(program)
        self.assertEqual(program.wait(PATIENCE_S), 130)
        return line

    def kill_server(self) -> None:
        """Ends the SSH server, and waits for nothing."""
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((self.directory / "pid").read_text()), signal.SIGKILL)

    def test_packets_of_all_sizes_pass_and_the_device_goes_with_the_command(self) -> None:
        if not shutil.which("ping"):
            self.skipTest("no ping command")
        here, there = self.tunnel(0), self.tunnel(1)
        for octets in ("0", "1400", "5000"):
            done = self.within(0, "ping", "-c", "3", "-i", "0.2", "-W", "20", "-s", octets, THERE)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(" 0% packet loss", done.stdout)
        names = self.within(0, "ip", "-br", "link").stdout
        self.assertIn("dhow0", names)
        down = self.end(here)
        self.assertEqual(down["event"], "down")
        # A ping of 5,000 octets is four packets each way.
        self.assertEqual((down["sent_packets"], down["received_packets"]), (18, 18))
        self.assertEqual((down["dropped_packets"], down["refused_packets"], down["not_taken"]), (0, 0, 0))
        self.assertNotIn("dhow0", self.within(0, "ip", "-br", "link").stdout)
        self.assertEqual(self.end(there)["received_packets"], 18)

    def test_what_others_send_is_dropped_and_harms_nothing(self) -> None:
        if not shutil.which("ping"):
            self.skipTest("no ping command")
        there = self.tunnel(1)
        payload = self.directory / "payload"
        for octets, source in ((b"", "ipn:1.80"), (b"\x45", "ipn:1.80"), (b"\x00" * 3000, "ipn:1.80"),
                               (bytes([0x45, 0, 0, 20]) + bytes(16), "ipn:1.81"), (b"\xff" * 70_000, "ipn:1.80")):
            payload.write_bytes(octets)
            sent = self.sender.run("send", "ipn:2.80", str(payload), "--from", source)
            self.assertEqual(sent.returncode, 0, sent.stderr)
        self.tunnel(0)
        done = self.within(0, "ping", "-c", "1", "-W", "20", THERE)
        self.assertEqual(done.returncode, 0, done.stdout)
        # The answer may overtake the flush of the last confirmation.
        until(self, lambda: self.receiver.show("status")["store"]["bundles"] == 0)
        down = self.end(there)
        self.assertEqual(down["received_packets"], 1)
        self.assertGreaterEqual(down["not_taken"], 3)

    def test_an_end_that_cannot_be_is_refused_with_a_hint(self) -> None:
        self.tunnel(0)
        again = self.sender.run("tunnel", "ipn:1.80", "ipn:2.80")
        self.assertEqual(again.returncode, 1, again.stderr)
        self.assertIn("ipn:1.80", again.stderr)
        for words, code, said in (
            (("ipn:2.80", "ipn:1.80", "--address", "10.0.0.1"), 2, "10.80.0.1/24"),
            (("ipn:2.80", "ipn:2.80"), 2, "same endpoint"),
            (("ipn:9.80", "ipn:1.80"), 1, "ipn:9.80"),
            (("ipn:2.80", "dtn:none"), 2, "hint"),
            (("ipn:2.81", "ipn:1.80", "--device", "x" * 40), 1, "hint"),
        ):
            done = self.receiver.run("tunnel", *words)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(said, done.stderr)
        argv = ["setpriv", "--bounding-set", "-net_admin", *self.receiver.command("tunnel", "ipn:2.82", "ipn:1.80")]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("CAP_NET_ADMIN", done.stderr)

    def test_packets_that_the_node_never_takes_end_the_tunnel(self) -> None:
        file = self.sender.directory / "node.toml"
        file.write_text(file.read_text().replace("[api]", '[api]\nhighest_priority = "normal"'))
        self.assertEqual(self.sender.run("reload").returncode, 0)
        tunnel = self.tunnel(0, "--priority", "expedited")
        # A packet in the network of the device; that it comes nowhere is not told.
        self.within(0, "python3", "-c", f"import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('{THERE}', 9))")
        self.assertEqual(self.event(tunnel)["refused_packets"], 1)
        self.assertEqual(tunnel.wait(PATIENCE_S), 1)
        said = (self.sender.directory / "tunnel.log").read_text()
        self.assertIn("highest_priority", said)
        self.assertIn("hint", said)

    def test_an_address_of_version_6_where_there_are_none_is_refused_as_such(self) -> None:
        self.within(0, "sysctl", "-q", "-w", "net.ipv6.conf.default.disable_ipv6=1", "net.ipv6.conf.all.disable_ipv6=1")
        done = self.within(0, *self.sender.command("tunnel", "ipn:1.80", "ipn:2.80", "--address", "fd80::1/64"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("disable_ipv6", done.stderr)
        self.assertNotIn("dhow0", self.within(0, "ip", "-br", "link").stdout)

    def test_a_persistent_device_is_taken_again_and_stays(self) -> None:
        self.within(0, "ip", "tuntap", "add", "kept", "mode", "tun")
        for _ in range(2):
            self.end(self.tunnel(0, "--device", "kept", "--address", "fd80::1/64"))
            shown = self.within(0, "ip", "-br", "address", "show", "kept").stdout
            self.assertIn(f"{HERE}/24", shown)
            self.assertIn("fd80::1/64", shown)

    def test_packets_that_are_a_header_alone_pass_among_others(self) -> None:
        self.tunnel(0, "--address", "fd80::1/64"), self.tunnel(1, "--address", "fd80::2/64")
        count = self.crew.start(["python3", "-c", COUNT], log=self.directory / "count.log", namespace=self.spaces[1])
        self.assertEqual(count.line(PATIENCE_S), "ready")
        sent = self.within(0, "python3", "-c", SEND)
        self.assertEqual(sent.returncode, 0, sent.stderr)
        self.assertEqual(count.line(PATIENCE_S), "50")

    def test_a_shell_and_a_file_outlast_cuts_of_the_link_and_ends_of_nodes(self) -> None:
        for command in ("ssh", "dropbear", "dropbearkey"):
            if not shutil.which(command):
                self.skipTest(f"no {command} command")
        self.tunnel(0), self.tunnel(1)
        home = self.directory / "home"
        (home / ".ssh").mkdir(parents=True, mode=0o700)
        home.chmod(0o700)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": True}
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.directory / "key")], **quiet)
        subprocess.run(["dropbearkey", "-t", "ed25519", "-f", str(self.directory / "host")], **quiet)
        shutil.copy(self.directory / "key.pub", home / ".ssh" / "authorized_keys")
        # `ip netns exec` has mounts of its own, so that nobody else sees this home.
        serve = f"mount --bind {home} /root && exec dropbear -F -E -s -p {THERE}:2222 -r {self.directory / 'host'} -P {self.directory / 'pid'} > /dev/null"
        self.crew.start(["sh", "-c", serve], log=self.directory / "dropbear.log", namespace=self.spaces[1])
        self.addCleanup(self.kill_server)
        shell = self.crew.start(
            ["ssh", "-q", "-i", str(self.directory / "key"), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
             "-o", "ConnectionAttempts=20", "-p", "2222", f"root@{THERE}", "cat"],
            log=self.directory / "ssh.log", namespace=self.spaces[0], typed=True)

        def echoes(text: str) -> None:
            shell.type(text)
            try:
                self.assertEqual(shell.line(PATIENCE_S), text)
            except queue.Empty:
                logs = "".join(path.read_text() for path in (self.directory / "ssh.log", self.directory / "dropbear.log"))
                self.fail(f"'{text}' has not come back\n{logs}")

        echoes("before")
        self.sender.link_down("receiver")
        shell.type("typed while the link was down")
        time.sleep(OUTAGE_S)
        with contextlib.suppress(queue.Empty):
            self.fail(f"{shell.line(0.1)} came over a link that was down")
        self.sender.link_up("receiver")
        self.assertEqual(shell.line(PATIENCE_S), "typed while the link was down")
        for node in (self.receiver, self.sender):
            node.kill()
            shell.type(f"typed while {node.settings.node_id} was gone")
            node.start()
            self.assertEqual(shell.line(PATIENCE_S), f"typed while {node.settings.node_id} was gone")
        echoes("after")
        copy = self.crew.start(
            ["ssh", "-q", "-i", str(self.directory / "key"), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
             "-p", "2222", f"root@{THERE}", "sha256sum"],
            log=self.directory / "ssh.log", namespace=self.spaces[0], typed=True)
        octets = os.urandom(2_000_000)
        assert copy.process.stdin
        copy.process.stdin.write(octets)
        copy.process.stdin.close()
        self.assertEqual((copy.line(PATIENCE_S) or "").split()[:1], [hashlib.sha256(octets).hexdigest()])
