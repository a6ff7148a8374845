"""The fate of the cargo: the table, the plain line, and whether anything was lost."""

from dataclasses import asdict, dataclass

from labs.demo.cargo import Cargo
from labs.rig.terminal import octets, table


@dataclass
class Outcome:
    """The figures of one run."""

    delivered: int
    expected: int
    octets: int
    duplicated: int
    receipts: bool
    identical: bool
    contacts: int
    open_s: float
    total_s: float
    gamma_down_s: float
    raw_octets_per_s: float
    path: str

    @property
    def lost(self) -> int:
        """Bundles that did not arrive."""
        return self.expected - self.delivered

    @property
    def contact_used(self) -> float:
        """Goodput while the link was up, as a share of what raw TCP moved through it: 0 to 1."""
        if not self.open_s or not self.raw_octets_per_s:
            return 0.0
        return self.octets / self.open_s / self.raw_octets_per_s

    @property
    def good(self) -> bool:
        """Whether nothing was lost, doubled or damaged, and every receipt came back."""
        return self.lost == 0 and self.duplicated == 0 and self.identical and self.receipts

    def line(self) -> str:
        """The plain line at the end."""
        files = "every file identical" if self.identical else "FILES DIFFER"
        return (
            f"delivered {self.delivered} of {self.expected} bundles, {octets(self.octets)}, {self.lost} lost, "
            f"{self.duplicated} duplicated, {files}; contact time used {self.contact_used:.0%}"
        )

    def record(self) -> dict[str, object]:
        """All figures, for --json."""
        return asdict(self) | {"lost": self.lost, "contact_used": round(self.contact_used, 4), "good": self.good}


def files_table(cargo: Cargo) -> str:
    """One row a file."""
    rows = [
        [
            parcel.name,
            octets(parcel.octets),
            f"{len(parcel.arrived)}/{parcel.expected}",
            "identical" if parcel.whole() else "DIFFERS",
        ]
        for parcel in cargo.parcels
    ]
    return table(["file", "size", "bundles", "SHA-256 at delta"], rows)


def figures_table(outcome: Outcome) -> str:
    """The figures of the link and the nodes."""
    return table(
        ["figure", "value"],
        [
            ["path", outcome.path],
            ["contacts, open for", f"{outcome.contacts}, {outcome.open_s:.1f} s of {outcome.total_s:.1f} s"],
            ["gamma killed, away for", f"{outcome.gamma_down_s:.2f} s"],
            ["raw TCP through the open link", f"{octets(outcome.raw_octets_per_s)}/s"],
            ["bundles through the open link", f"{octets(outcome.octets / max(outcome.open_s, 1e-9))}/s"],
            ["delivery receipts back at alpha", "all" if outcome.receipts else "SOME ARE MISSING"],
        ],
    )
