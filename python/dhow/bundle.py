"""Bundles by their identity, the kinds of their reports, and their times."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from dhow.errors import ProtocolError

DTN_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)

ReportKind = Literal["reception", "forward", "delivery", "deletion"]

# Bundle processing control flags (RFC 9171 4.2.3).
FLAG_MUST_NOT_FRAGMENT, FLAG_REPORT_TIMES = 0x4, 0x40
REPORT_FLAGS: dict[str, int] = {"reception": 0x4000, "forward": 0x1_0000, "delivery": 0x2_0000, "deletion": 0x4_0000}


@dataclass(frozen=True, slots=True, order=True)
class BundleId:
    """Source endpoint and creation timestamp, which no two bundles share (RFC 9171 4.2.7).

    `creation_ms` counts milliseconds from 2000-01-01T00:00:00Z and is 0 where the source has no accurate clock.
    As text it is SOURCE/TIME/SEQUENCE, as the command line and the admin API have it.
    """

    source: str
    creation_ms: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.source}/{self.creation_ms}/{self.sequence}"

    @property
    def created(self) -> datetime | None:
        """When the bundle was created; None where its source has no accurate clock, or beyond the year 9999."""
        return moment(self.creation_ms)


def moment(dtn_ms: int) -> datetime | None:
    """A DTN time (RFC 9171 4.2.6); None for 0, which is unknown, and beyond the year 9999."""
    try:
        return DTN_EPOCH + timedelta(milliseconds=dtn_ms) if dtn_ms else None
    except OverflowError:
        return None


def level(priority: str) -> int:
    """The number of a priority, the greater the more urgent: 1 "bulk", 2 "normal", 3 and N "expedited:N" (N 0 to 254). Raises ValueError."""
    name, colon, ordinal = priority.partition(":")
    if name == "expedited" and (not colon or ordinal.isdecimal() and ordinal.isascii() and int(ordinal) <= 254):
        return 3 + int(ordinal or 0)
    if priority not in ("bulk", "normal"):
        raise ValueError(f"a priority is bulk, normal, expedited or expedited:N with N at most 254, not {priority!r}")
    return 1 if priority == "bulk" else 2


def priority(number: int | None) -> str:
    """The name of the priority of a number; that of none is "normal"."""
    if number is None or number < 3:
        return "bulk" if number == 1 else "normal"
    return "expedited" if number == 3 else f"expedited:{number - 3}"


def milliseconds(lifetime: float | timedelta) -> int:
    """A lifetime in seconds or as a timedelta, in milliseconds. Raises ValueError below one of them."""
    seconds = lifetime.total_seconds() if isinstance(lifetime, timedelta) else lifetime
    whole = round(seconds * 1000)
    if not 1 <= whole < 1 << 64:
        raise ValueError(f"a lifetime is at least 1 ms, not {seconds} s")
    return whole


def report_flags(kinds: ReportKind | Sequence[ReportKind]) -> int:
    """The flags that ask for reports, with their times. Raises ValueError for an unknown kind."""
    flags = 0
    for kind in (kinds,) if isinstance(kinds, str) else kinds:
        if kind not in REPORT_FLAGS:
            raise ValueError(f"no report is called '{kind}'; reports are {', '.join(REPORT_FLAGS)}")
        flags |= REPORT_FLAGS[kind] | FLAG_REPORT_TIMES
    return flags


def endpoint_of(value: object) -> str:
    """An endpoint ID from a record (RFC 9171 4.2.5.1). Raises ProtocolError."""
    match value:
        case [1, 0]:
            return "dtn:none"
        case [1, str(rest)]:
            return f"dtn:{rest}"
        case [2, [int(first), int(second)]]:
            if first >> 32:
                return f"ipn:{first >> 32}.{first & 0xFFFF_FFFF}.{second}"
            return f"ipn:{first}.{second}"
        case [2, [int(authority), int(node), int(service)]]:
            return f"ipn:{authority}.{node}.{service}" if authority else f"ipn:{node}.{service}"
    raise ProtocolError("an endpoint ID is malformed")
