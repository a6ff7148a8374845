"""A terminal on which a command draws: what it shows at every moment, and what is left at the end."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

# Sequences that commands here send beside text: the cursor up or down so many lines or to a column, and erasures.
SEQUENCE = re.compile(r"\x1b\[\??([0-9;]*)([A-Za-z])")


class Screen:
    """Lines of text and a cursor; a line that is wider than the terminal goes on in the next."""

    def __init__(self, columns: int, lines: int) -> None:
        self.size = (columns, lines)
        self.lines = [""]
        self.row = 0
        self.column = 0

    def text(self) -> str:
        """The present text of the screen."""
        return "\n".join(line.rstrip() for line in self.lines).rstrip()

    def play(self, sent: str) -> list[str]:
        """Shows what was sent; all that was to be seen, whenever something was about to be erased."""
        seen = []
        place = 0
        while place < len(sent):
            if found := SEQUENCE.match(sent, place):
                place = found.end()
                count = int(found[1] or 1) if found[1].isdigit() or not found[1] else 1
                if found[2] == "K":
                    seen.append(self.text())
                    self.lines[self.row] = "" if found[1] == "2" else self.lines[self.row][: self.column]
                elif found[2] in "AB":
                    self._go(self.row + (count if found[2] == "B" else -count))
                elif found[2] == "J":
                    seen.append(self.text())
                    self.lines = [*self.lines[: self.row], self.lines[self.row][: self.column]]
                continue
            self._put(sent[place])
            place += 1
        return [*seen, self.text()]

    def _go(self, row: int) -> None:
        self.row = max(0, row)
        self.lines += [""] * (self.row + 1 - len(self.lines))

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self._go(self.row + 1)
        else:
            if self.column == self.size[0]:
                self._go(self.row + 1)
                self.column = 0
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1


def run(words: list[str], columns: int, lines: int, directory: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Runs a command whose standard error is a terminal of that size: its exit code, and what it sent there."""
    here, there = pty.openpty()
    try:
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        command = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=there, cwd=directory, env=environment)
    finally:
        os.close(there)
    sent = b""
    with open(here, "rb", buffering=0) as terminal:
        while True:
            try:
                octets = terminal.read(65536)
            except OSError:
                # The other end is closed.
                break
            if not octets:
                break
            sent += octets
    return command.wait(), sent.decode()
