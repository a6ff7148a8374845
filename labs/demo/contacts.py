"""When the weak link is up: contacts of a few seconds, opened and cut as the clock says."""

import time
from dataclasses import dataclass

from labs.rig.network import Network


@dataclass
class Contact:
    """One time in which the link was up, in seconds of the monotonic clock."""

    opened: float
    cut: float | None = None

    def seconds(self, until: float) -> float:
        """The time for which the contact was open before `until`."""
        return max(0.0, min(self.cut if self.cut is not None else until, until) - self.opened)


class Contacts:
    """Opens and cuts the link by turns; `turn` is called often and does what is due."""

    def __init__(self, path: Network, open_s: float, gap_s: float) -> None:
        self.path = path
        self.open_s = open_s
        self.gap_s = gap_s
        self.past: list[Contact] = []
        self._next = time.monotonic()

    @property
    def up(self) -> bool:
        """Whether the link is up now."""
        return bool(self.past) and self.past[-1].cut is None

    def turn(self) -> str | None:
        """Opens or cuts when it is time; says what it did."""
        now = time.monotonic()
        if now < self._next:
            return None
        if self.up:
            self.path.cut()
            self.past[-1].cut = time.monotonic()
            self._next = now + self.gap_s
            return f"contact {len(self.past)} is over"
        self.path.join()
        self.past.append(Contact(time.monotonic()))
        self._next = now + self.open_s
        return f"contact {len(self.past)} opens"

    def note(self) -> str:
        """The state of the link, for the progress bar."""
        left = max(0.0, self._next - time.monotonic())
        return f"link {'up' if self.up else 'down'}, {left:.1f} s"

    def open_seconds(self, until: float) -> float:
        """The time for which the link was up before `until`, all contacts together."""
        return sum(contact.seconds(until) for contact in self.past)
