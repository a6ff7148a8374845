"""The Debian package on a bare system that systemd has booted: installed, a bundle sent and received, supervised, purged. The wheel on one that has Python, and what cargo installs on one that has nothing."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from labs.rig.binary import ROOT, dhow
from packaging import deb
from tests.python_libraries import LIBRARIES, environment

SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
TREES = ROOT / "target" / "trees"
BOOT_TIMEOUT_S = 60


def tree_with(name: str, packages: str, shown: str) -> Path:
    """A bare Debian tree with these packages, made once; what it shows last is there when it is whole."""
    tree = TREES / name
    if not (tree / shown).exists():
        shutil.rmtree(tree, ignore_errors=True)
        tree.parent.mkdir(parents=True, exist_ok=True)
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={packages}", SUITE, str(tree), MIRROR],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)
        if made.returncode != 0:
            shutil.rmtree(tree, ignore_errors=True)
            raise unittest.SkipTest(f"no Debian tree could be made: {made.stdout.decode()[-200:]}")
    return tree


def base() -> Path:
    """A bare Debian tree with systemd."""
    return tree_with(SUITE, "systemd,systemd-sysv,dbus", "usr/lib/systemd/systemd")


def missing() -> str | None:
    """Why this test cannot run here, if it cannot."""
    if os.geteuid() != 0:
        return "a tree is entered by root alone"
    lacking = [name for name in ("debootstrap", "systemd-nspawn", "nsenter", *deb.NEEDED) if shutil.which(name) is None]
    return f"there is no {', '.join(lacking)}" if lacking else None


class Machine:
    """A tree that its own systemd has booted, in namespaces of its own."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.process = subprocess.Popen(
            ["systemd-nspawn", "--directory", str(tree), "--private-network", "--boot", "--console=pipe",
             "--register=no", "--keep-unit", "--machine", tree.name],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.leader = self._leader()

    def _leader(self) -> int:
        """The process that is the first one inside, once its system is up."""
        end = time.monotonic() + BOOT_TIMEOUT_S
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while time.monotonic() < end:
            inside = children.read_text().split() if children.exists() else []
            if inside:
                self.leader = int(inside[0])
                state = self.run("systemctl", "is-system-running").stdout.strip()
                if state in ("running", "degraded"):
                    return self.leader
            time.sleep(0.3)
        self.close()
        raise unittest.SkipTest("systemd does not boot in a container here")

    def run(self, *command: str, timeout_s: float = 60) -> subprocess.CompletedProcess:
        """A command inside."""
        return subprocess.run(
            ["nsenter", "--target", str(self.leader), "--all", "--", *command],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, cwd="/")

    def run_as(self, user: str, *command: str) -> subprocess.CompletedProcess:
        """A command inside as a user, in a session with the groups of today."""
        return self.run("runuser", "-u", user, "--", *command)

    def close(self) -> None:
        """Ends everything inside."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Package(unittest.TestCase):
    """A package of the program that is built for tests, on one machine for all steps."""

    def setUp(self) -> None:
        why = missing()
        if why:
            self.skipTest(why)
        self.directory = Path(tempfile.mkdtemp(prefix="dhow-package-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.package, _ = deb.make(dhow("debug"), self.directory)
        tree = self.directory / "dhow-machine"
        subprocess.run(["cp", "-a", "--reflink=auto", str(base()), str(tree)], check=True)
        self.machine = Machine(tree)
        self.addCleanup(self.machine.close)

    def done(self, *command: str, user: str = "root") -> str:
        """The output of a command inside, which must succeed."""
        ran = self.machine.run_as(user, *command)
        self.assertEqual(ran.returncode, 0, f"{command}: {ran.stdout}{ran.stderr}")
        return ran.stdout

    def test_a_bare_debian_sends_a_bundle_minutes_after_it_had_nothing(self) -> None:
        self.install()
        self.exchange()
        self.permissions()
        self.supervision()
        self.purge()

    def install(self) -> None:
        """The package, and the node of its service."""
        target = self.machine.tree / "root" / self.package.name
        shutil.copy(self.package, target)
        self.assertIn("dhow node init --system", self.done("dpkg", "--install", f"/root/{self.package.name}"))
        for path in ("usr/share/man/man1/dhow-send.1.gz", *deb.COMPLETIONS.values()):
            self.assertGreater((self.machine.tree / path).stat().st_size, 0, path)
        # Without a configuration the service is skipped, not failed.
        self.done("systemctl", "start", "dhow")
        self.assertEqual(self.state("ActiveState"), "inactive")
        self.done("dhow", "node", "init", "--system", "ipn:2.0")
        self.done("systemctl", "enable", "--now", "dhow")
        self.assertEqual(self.state("ActiveState"), "active")
        self.assertEqual(self.state("StatusText"), "Node ipn:2.0 is ready")
        self.assertEqual(self.done("systemd-analyze", "verify", "--man=no", "dhow.service"), "")

    def state(self, name: str) -> str:
        """A property of the service."""
        return self.done("systemctl", "show", "--value", "--property", name, "dhow").strip()

    def exchange(self) -> None:
        """A member of the group sends and receives; others are told why they may not."""
        for user in ("ann", "ben"):
            self.done("useradd", "--create-home", user)
        self.done("usermod", "-aG", "dhow", "ann")
        self.done("sh", "-c", "echo over the hills > /home/ann/letter", user="ann")
        self.done("dhow", "send", "ipn:2.42", "/home/ann/letter", user="ann")
        refused = self.machine.run_as("ben", "dhow", "send", "ipn:2.42", "/etc/hostname")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("Permission denied", refused.stderr)
        self.assertIn("group", refused.stderr)
        self.assertNotIn("start a node", refused.stderr)

    def permissions(self) -> None:
        """A group may look and not change, another may operate."""
        refused = self.machine.run_as("ann", "dhow", "links")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("your user may not open", refused.stderr)
        self.done("groupadd", "--system", "dhow-admin")
        self.done("usermod", "-aG", "dhow-admin", "dhow")
        self.done("useradd", "--groups", "dhow-admin", "eve")
        file = self.machine.tree / "etc/dhow/node.toml"
        text = file.read_text()
        self.assertIn("# [admin]\n", text)
        with file.open("a") as configuration:
            configuration.write('\n[admin]\ngroup = "dhow-admin"\nread_group = "dhow"\n')
        self.done("systemctl", "restart", "dhow")
        bundles = self.done("dhow", "bundles", "--each", "--json", user="ann")
        (bundle,) = (it["id"] for it in json.loads(bundles))
        for user, word in (("ann", "may look"), ("ben", "neither operate")):
            refused = self.machine.run_as(user, "dhow", "bundle", "drop", bundle)
            self.assertEqual((refused.returncode, word in refused.stderr), (1, True), refused.stderr)
        self.done("dhow", "route", "add", "ipn:9.*", "--via", "ipn:3.0", user="eve")

    def supervision(self) -> None:
        """A node that hangs is ended and started again, with all that it had stored."""
        drop_in = self.machine.tree / "etc/systemd/system/dhow.service.d/test.conf"
        drop_in.parent.mkdir()
        drop_in.write_text("[Service]\nWatchdogSec=2s\n")
        self.done("systemctl", "daemon-reload")
        self.done("systemctl", "restart", "dhow")
        first = self.state("MainPID")
        time.sleep(5)
        self.assertEqual(self.state("MainPID"), first, "a node that works is left alone")
        self.done("systemctl", "kill", "--signal=STOP", "dhow")
        end = time.monotonic() + 60
        while time.monotonic() < end and (self.state("MainPID") in (first, "0") or self.state("ActiveState") != "active"):
            time.sleep(0.5)
        self.assertNotIn(self.state("MainPID"), (first, "0"))
        self.done("dhow", "recv", "ipn:2.42", "--count", "1", "--timeout", "30s", "--out", "/home/ann", user="ann")
        received = [path for path in (self.machine.tree / "home/ann").iterdir() if path.name not in ("letter",) and path.is_file() and not path.name.startswith(".")]
        self.assertEqual([path.read_text() for path in received], ["over the hills\n"])

    def purge(self) -> None:
        """The package is purged: nothing is left."""
        self.done("dpkg", "--purge", "dhow")
        for path in ("etc/dhow", "var/lib/dhow", "usr/bin/dhow", "run/dhow"):
            self.assertFalse((self.machine.tree / path).exists(), path)
        self.assertNotEqual(self.machine.run("getent", "passwd", "dhow").returncode, 0)


APPLICATION = """
import subprocess
import dhow
subprocess.run(["dhow", "node", "init", "ipn:7.0", "--dir", "node"], check=True)
with subprocess.Popen(["dhow", "node", "run", "--config", "node/node.toml"], stdout=subprocess.PIPE) as running:
    assert b"ready" in running.stdout.readline()
    with dhow.connect("node/dhow.sock") as node:
        bundle = node.send("ipn:7.42", b"over the hills")
        with next(node.receive("ipn:7.42", timeout=30)) as delivery:
            print(delivery.id == bundle, delivery.read())
    running.terminate()
"""


# A node, a bundle to itself and its payload, for a shell.
LETTER = """set -e
cd /root
dhow node init ipn:7.0 --dir node
dhow node run --config node/node.toml > ready &
node=$!
for step in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do grep -q ready ready && break; sleep 0.5; done
echo over the hills > letter
export DHOW_NODE=/root/node/dhow.sock
dhow send ipn:7.42 letter
dhow recv ipn:7.42 --count 1 --timeout 30s --out received
kill $node
wait $node
cat received/*
"""


def inside(tree: Path, steps: str) -> subprocess.CompletedProcess:
    """The lines of a shell in a tree that is not booted."""
    command = ["systemd-nspawn", "--directory", str(tree), "--private-network", "--register=no", "--keep-unit", "--pipe", "--quiet", "env", "HOME=/root", "sh", "-c", steps]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)


class Cargo(unittest.TestCase):
    """What `cargo install` installs, on a bare Debian."""

    def test_what_cargo_installs_needs_nothing_else(self) -> None:
        why = missing()
        if why:
            self.skipTest(why)
        directory = Path(tempfile.mkdtemp(prefix="dhow-cargo-"))
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        # As it is built for the other tests, so that it is not built again.
        command = ["cargo", "install", "--path", "crates/cli", "--features", "otlp,postgres,top", "--debug", "--locked", "--root", str(directory / "installed")]
        made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        tree = directory / "tree"
        subprocess.run(["cp", "-a", "--reflink=auto", str(base()), str(tree)], check=True)
        shutil.copy(directory / "installed" / "bin" / "dhow", tree / "usr" / "local" / "bin")
        done = inside(tree, LETTER)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1:]), (0, ["over the hills"]), done.stdout + done.stderr)


class Wheel(unittest.TestCase):
    """The wheel on a bare Debian with Python."""

    def test_a_wheel_brings_a_node_and_an_application_of_ten_lines(self) -> None:
        why = missing()
        if why:
            self.skipTest(why)
        directory = Path(tempfile.mkdtemp(prefix="dhow-wheel-"))
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        made = subprocess.run(
            [sys.executable, "-m", "packaging.wheel", "--binary", str(dhow("debug")), "--out", str(directory), "--maturin", str(environment("environment", LIBRARIES).with_name("maturin"))],
            cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        wheel = Path(made.stdout.strip())
        tree = directory / "tree"
        subprocess.run(["cp", "-a", "--reflink=auto", str(tree_with(f"{SUITE}-python", "python3-venv", "usr/bin/python3")), str(tree)], check=True)
        shutil.copy(wheel, tree / "root")
        (tree / "root" / "application.py").write_text(APPLICATION, encoding="utf-8")
        steps = f"cd /root && python3 -m venv env && env/bin/pip install --quiet --no-index {wheel.name} && PATH=/root/env/bin:$PATH python3 application.py"
        done = inside(tree, steps)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1:]), (0, ["True b'over the hills'"]), done.stdout + done.stderr)
