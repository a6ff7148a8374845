"""The display of a lab while it runs and at its end: a progress bar, tables, units."""

import os
import shutil
import sys
import time
from collections.abc import Sequence

# Seconds between two drawings of the bar on a terminal, and between two lines elsewhere.
REDRAW_S = 0.1
LINE_S = 2.0

EIGHTHS = " ▏▎▍▌▋▊▉"


def octets(count: float) -> str:
    """A number of octets for people, kB = 1000."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def say(text: str) -> None:
    """Talk: one line on standard error."""
    print(text, file=sys.stderr, flush=True)


class Bar:
    """Progress with rate and ETA: drawn in place on a terminal, a line now and then elsewhere."""

    def __init__(self, total: int, noun: str) -> None:
        self.total = total
        self.noun = noun
        self.start = time.monotonic()
        self.drawn = 0.0
        self.live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def show(self, done: int, size: float, note: str) -> None:
        """Shows the state: items done, their octets, and what happens now."""
        now = time.monotonic()
        if now - self.drawn < (REDRAW_S if self.live else LINE_S):
            return
        self.drawn = now
        elapsed = now - self.start
        rate = size / elapsed if elapsed else 0.0
        eta = f"{elapsed * (self.total - done) / done:.0f} s" if done else "–"
        moved = f"{octets(size)}  {octets(rate)}/s" if size else f"{done / elapsed if elapsed else 0.0:.1f}/s"
        text = f"{done}/{self.total} {self.noun}  {moved}  ETA {eta}  {note}"
        if not self.live:
            say(text)
            return
        width = shutil.get_terminal_size().columns
        room = max(10, min(40, width - len(text) - 4))
        print(f"\r\x1b[K{self._filled(done, room)} {text}"[: width + 4], end="", file=sys.stderr, flush=True)

    def _filled(self, done: int, room: int) -> str:
        eighths = min(room * 8, done * room * 8 // max(1, self.total))
        full, part = divmod(eighths, 8)
        return ("█" * full + (EIGHTHS[part] if part else "")).ljust(room, "·")

    def interrupt(self, text: str) -> None:
        """A line of talk above the bar."""
        if self.live:
            print("\r\x1b[K", end="", file=sys.stderr)
        say(text)
        self.drawn = 0.0

    def clear(self) -> None:
        """Takes the bar off the terminal."""
        if self.live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An aligned table: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(head), rule, *(line(row) for row in rows)])
