"""The cargo: files of this repository, cut into bundles at the source and joined again at the destination."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labs.rig.binary import ROOT

# Service numbers of the sources: one for each file, so that its bundles can be told from the others'.
FIRST_SERVICE = 101


@dataclass
class Parcel:
    """One file on its way."""

    path: Path
    source: str
    split_octets: int
    expected: int = 0
    arrived: dict[tuple[int, int], Path] = field(default_factory=dict)  # creation time and sequence to file

    @property
    def octets(self) -> int:
        """Size of the file."""
        return self.path.stat().st_size

    @property
    def name(self) -> str:
        """The name of the file in a table."""
        return str(self.path.relative_to(ROOT)) if self.path.is_relative_to(ROOT) else self.path.name

    def whole(self) -> bool:
        """Whether what arrived, joined in the order of creation, is the file, by SHA-256."""
        digest = hashlib.sha256()
        for _, part in sorted(self.arrived.items()):
            digest.update(part.read_bytes())
        return len(self.arrived) == self.expected and digest.digest() == hashlib.sha256(self.path.read_bytes()).digest()


class Cargo:
    """All parcels of one run."""

    def __init__(self, binary: Path, split_octets: int, node: str) -> None:
        paths = [binary, *documents()]
        self.parcels = [
            Parcel(path, f"{node}.{FIRST_SERVICE + number}", split_octets) for number, path in enumerate(paths)
        ]
        for parcel in self.parcels:
            parcel.expected = max(1, -(-parcel.octets // split_octets))
        self._by_source = {parcel.source: parcel for parcel in self.parcels}
        self.repeated = 0
        self.arrived_octets = 0

    @property
    def expected(self) -> int:
        """Bundles that must arrive."""
        return sum(parcel.expected for parcel in self.parcels)

    @property
    def octets(self) -> int:
        """Octets that must arrive."""
        return sum(parcel.octets for parcel in self.parcels)

    @property
    def arrived(self) -> int:
        """Different bundles that have arrived."""
        return sum(len(parcel.arrived) for parcel in self.parcels)

    def take(self, line: str) -> None:
        """Notes one line of `dhow recv`."""
        record: dict[str, Any] = json.loads(line)
        parcel = self._by_source[record["source"]]
        time_ms, sequence = record["creation"]
        if (time_ms, sequence) in parcel.arrived:
            self.repeated += 1
            return
        parcel.arrived[time_ms, sequence] = Path(record["path"])
        self.arrived_octets += record["octets"]


def documents() -> list[Path]:
    """The repository's own documents, in a fixed order."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/*"), ROOT / "LICENSE", ROOT / "Cargo.lock"]
    return sorted(path for path in found if path.is_file())
