"""Status reports (RFC 9171 6.1.1)."""

from dataclasses import dataclass
from datetime import datetime

from dhow import cbor
from dhow.bundle import BundleId, ReportKind, endpoint_of, moment
from dhow.errors import ProtocolError

STATUS_REPORT = 1
KINDS: tuple[ReportKind, ...] = ("reception", "forward", "delivery", "deletion")

# Reasons (RFC 9171 9.5).
REASONS = {
    0: "no additional information", 1: "lifetime expired", 2: "forwarded over unidirectional link",
    3: "transmission canceled", 4: "depleted storage", 5: "destination endpoint ID unavailable",
    6: "no known route to destination from here", 7: "no timely contact with next node on route",
    8: "block unintelligible", 9: "hop limit exceeded", 10: "traffic pared", 11: "block unsupported",
}


@dataclass(frozen=True, slots=True)
class StatusReport:
    """A node's report on a bundle.

    `events` has what happened to it there, each with its time (None where it was not asked for, or is unknown);
    `reporter` is the node that says so, `fragment` offset and length of the part of the payload that it is about.
    """

    bundle: BundleId
    reporter: str
    events: dict[ReportKind, datetime | None]
    reason: int
    fragment: tuple[int, int] | None = None

    @property
    def reason_text(self) -> str:
        """The reason in words."""
        return REASONS.get(self.reason, f"reason {self.reason}")


def status_report(payload: bytes, reporter: str) -> StatusReport | None:
    """The report in an administrative record of version 7; None for a record of another kind. Raises ProtocolError."""
    record, _ = cbor.decode(payload)
    match record:
        case [1, [list(states), int(reason), source, [int(creation_ms), int(sequence)], *rest]] if len(states) == len(KINDS):
            events = {kind: event for kind, state in zip(KINDS, states, strict=True) for event in happened(state)}
            fragment = None
            if rest:
                match rest:
                    case [int(offset), int(length)]:
                        fragment = (offset, length)
                    case _:
                        raise ProtocolError("a status report is malformed")
            return StatusReport(BundleId(endpoint_of(source), creation_ms, sequence), reporter, events, reason, fragment)
        case [int(kind), _] if kind != STATUS_REPORT:
            return None
    raise ProtocolError("a status report is malformed")


def happened(state: object) -> list[datetime | None]:
    """The time of an event, if it happened. Integers stand for Booleans in what deployed programs write."""
    match state:
        case [True | 1]:
            return [None]
        case [True | 1, int(time_ms)]:
            return [moment(time_ms)]
        case [False | 0, *_]:
            return []
    raise ProtocolError("an event of a status report is malformed")
