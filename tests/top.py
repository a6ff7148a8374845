"""`dhow top` in a real pseudo-terminal: what it draws, keys, and that the terminal is as before however it ends."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

from labs.interop.installation import NotInstalled, pyte
from labs.rig.binary import dhow, has
from labs.rig.node import free_port
from labs.rig.node import Link
from tests.workplace import Exchange

PATIENCE_S = 60.0

# Draws octets from a pipe on a terminal of so many columns and lines, and prints it as JSON.
DRAWN = """
import json, sys, pyte
screen = pyte.Screen(int(sys.argv[1]), int(sys.argv[2]))
pyte.ByteStream(screen).feed(sys.stdin.buffer.read())
print(json.dumps(screen.display))
"""

# Sequences that restore a terminal: the first screen, and a visible cursor.
RESTORED = (b"\x1b[?1049l", b"\x1b[?25h")


class Terminal:
    """A command in a pseudo-terminal."""

    def __init__(self, python: str, command: list[str], size: tuple[int, int], **environment: str) -> None:
        self.python, self.size, self.octets = python, size, b""
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave, self.is_open = slave, True
        self.program = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", **environment})

    def read(self, seconds: float) -> None:
        """Takes what comes in this time."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            self.octets += os.read(self.master, 1 << 16)

    def lines(self) -> list[str]:
        """The screen as it is now."""
        done = subprocess.run(
            [self.python, "-c", DRAWN, *map(str, self.size)], input=self.octets, capture_output=True, check=True, timeout=PATIENCE_S)
        return json.loads(done.stdout)

    def until(self, words: str) -> list[str]:
        """The screen once it shows these words."""
        end, lines = time.monotonic() + PATIENCE_S, []
        while time.monotonic() < end:
            self.read(0.3)
            lines = self.lines()
            if any(words in line for line in lines):
                return lines
        raise AssertionError(f"{words!r} never shown:\n" + "\n".join(lines))

    def press(self, keys: str) -> None:
        """Presses keys."""
        os.write(self.master, keys.encode())

    def end(self) -> int:
        """The exit code; all that was written is read."""
        end = time.monotonic() + PATIENCE_S
        while self.program.poll() is None and time.monotonic() < end:
            self.read(0.1)
        code = self.program.wait(1)
        self.read(0.1)
        return code

    def is_as_before(self) -> bool:
        """Whether lines are edited and echoed again, and the first screen is shown with its cursor."""
        return termios.tcgetattr(self.slave)[:4] == self.before[:4] and all(it in self.octets for it in RESTORED)

    def hang_up(self) -> None:
        """Closes the terminal."""
        os.close(self.master)
        os.close(self.slave)
        self.is_open = False

    def close(self) -> None:
        """Ends the program, and closes the terminal."""
        if self.program.poll() is None:
            self.program.kill()
            self.program.wait()
        if self.is_open:
            self.hang_up()


class Top(Exchange):
    """The sender's view; it has a link to the receiver and one to nobody."""

    def setUp(self) -> None:
        if not has("top", dhow("debug")):
            self.skipTest("the program was built without the feature top")
        super().setUp()
        try:
            self.python = str(pyte() / "python")
        except NotInstalled as reason:
            self.skipTest(str(reason))
        self.sender.settings.links.append(Link("nobody", f"127.0.0.1:{free_port()}"))
        self.sender.settings.routes.append(("dtn://far/**", "nobody"))
        self.start()

    def top(self, size: tuple[int, int], **environment: str) -> Terminal:
        """Starts `dhow top`."""
        terminal = Terminal(self.python, self.sender.command("top", "--interval", "200ms"), size, **environment)
        self.addCleanup(terminal.close)
        return terminal

    def keep(self, name: str, lines: list[str]) -> None:
        """Keeps a screen as text where somebody asks for it."""
        if directory := os.environ.get("DHOW_SCREENS"):
            with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
                file.write("\n".join(line.rstrip() for line in lines) + "\n")

    def test_all_tables_are_shown_and_keys_work_and_the_terminal_is_restored(self) -> None:
        self.send(self.sender, "dtn://far/mail", 3000)
        self.send(self.sender, "ipn:9.1", 700)
        terminal = self.top((160, 45))
        terminal.until("Connection refused")
        lines = terminal.until("dtn://far/mail")
        self.keep("wide.txt", lines)
        for words in ("ipn:1.0", "store [", "Links 2", "Queues 2", "Contacts", "Events"):
            self.assertTrue(any(words in line for line in lines), words)
        terminal.press("\t")
        terminal.until("▶ Queues")
        terminal.press("/ipn:9\r")
        terminal.until("Queues 1 of 2")
        terminal.press("w")
        terminal.until("no route leads to ipn:9.1")
        terminal.press("x")
        terminal.press("q")
        self.assertEqual(terminal.end(), 0)
        self.assertTrue(terminal.is_as_before())

    def test_a_link_goes_down_when_confirmed_and_its_event_is_told(self) -> None:
        terminal = self.top((120, 40))
        terminal.until("▶ Links 2")
        terminal.press("/receiver\r")
        terminal.until("Links 1 of 2")
        terminal.press("d")
        terminal.until("Take link receiver down?")
        terminal.press("y")
        terminal.until("session down")
        self.assertEqual([it["state"] for it in self.sender.show("links")["links"] if it["name"] == "receiver"], ["down"])

    def test_a_node_that_is_away_is_said_to_be_and_comes_back(self) -> None:
        terminal = self.top((40, 12), NO_COLOR="1")
        self.keep("small.txt", terminal.until("Links 2"))
        self.assertEqual(self.sender.stop(), 0)
        terminal.until("AWAY since")
        self.sender.start()
        end = time.monotonic() + PATIENCE_S
        while any("AWAY" in line for line in terminal.lines()) and time.monotonic() < end:
            terminal.read(0.3)
        self.assertFalse(any("AWAY" in line for line in terminal.lines()))
        # No colour was ever set.
        self.assertNotRegex(terminal.octets, rb"\x1b\[(3[0-7]|9[0-7]|38;)[0-9;]*m")
        terminal.press("\x03")
        self.assertEqual(terminal.end(), 130)
        self.assertTrue(terminal.is_as_before())

    def test_a_signal_restores_the_terminal_too(self) -> None:
        terminal = self.top((80, 24))
        terminal.until("Links 2")
        terminal.program.send_signal(signal.SIGTERM)
        self.assertEqual(terminal.end(), 130)
        self.assertTrue(terminal.is_as_before())

    def test_it_ends_with_its_terminal(self) -> None:
        terminal = self.top((80, 24))
        terminal.until("Links 2")
        terminal.hang_up()
        terminal.program.wait(PATIENCE_S)

    def test_without_a_terminal_it_says_what_to_use(self) -> None:
        done = self.sender.run("top")
        self.assertEqual(done.returncode, 2)
        self.assertIn("dhow top needs a terminal", done.stderr)
        self.assertIn("dhow status --json", done.stderr)


if __name__ == "__main__":
    unittest.main()
