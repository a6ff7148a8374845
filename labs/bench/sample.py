"""One measurement, and what tells it from others."""

from dataclasses import dataclass, field


def size_name(size: int) -> str:
    """A bundle's size for people, kB = 1000."""
    for unit, octets in (("MB", 1_000_000), ("kB", 1_000)):
        if size >= octets:
            return f"{size / octets:g} {unit}"
    return f"{size} B"


def size_of(text: str) -> int:
    """`2000`, `2kB` or `1MB` as octets. Raises ValueError."""
    for unit, octets in (("MB", 1_000_000), ("kB", 1_000), ("B", 1)):
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * octets)
    return int(text)


@dataclass(frozen=True, order=True)
class Kind:
    """The kind of a measurement: samples of one kind are runs of the same thing."""

    case: str
    size: int  # payload octets of a bundle
    durability: str
    flush_delay_ms: int = 0
    threads: int = 1
    version: int = 7  # of the Bundle Protocol; 6 goes over TCPCLv3, 7 over TCPCLv4

    @property
    def terms(self) -> str:
        """Durability, flush delay, threads and version for people."""
        delay = f" +{self.flush_delay_ms} ms" if self.flush_delay_ms else ""
        threads = f", {self.threads} threads" if self.threads > 1 else ""
        return f"{self.durability}{delay}{threads}" + (f", version {self.version}" if self.version != 7 else "")


@dataclass
class Sample:
    """The result of one measurement."""

    kind: Kind
    bundles: int
    seconds: float
    cpu_s: float = 0.0  # of all processes that were measured
    peaks_mb: dict[str, float] = field(default_factory=dict)  # most resident memory of each node
    backlog: float = 0.0  # of a relay: the share of the time in which it gives out what it has taken in before

    @property
    def bundles_per_s(self) -> float:
        """Bundles a second."""
        return self.bundles / self.seconds if self.seconds else 0.0

    @property
    def mbit_per_s(self) -> float:
        """Payload a second."""
        return self.bundles_per_s * self.kind.size * 8 / 1e6

    @property
    def cpu_s_per_gb(self) -> float:
        """Processor seconds for 10^9 octets of payload."""
        return self.cpu_s / (self.bundles * self.kind.size) * 1e9 if self.kind.size else 0.0

    @property
    def cpu_s_per_million(self) -> float:
        """Processor seconds for 10^6 bundles."""
        return self.cpu_s / self.bundles * 1e6

    def record(self) -> dict[str, object]:
        """For JSON."""
        return {
            "case": self.kind.case, "size_octets": self.kind.size, "durability": self.kind.durability,
            "flush_delay_ms": self.kind.flush_delay_ms, "threads": self.kind.threads, "version": self.kind.version,
            "bundles": self.bundles,
            "seconds": self.seconds, "bundles_per_s": self.bundles_per_s, "goodput_mbit_s": self.mbit_per_s,
            "cpu_s": self.cpu_s, "peaks_mb": self.peaks_mb, "backlog": self.backlog,
        }
