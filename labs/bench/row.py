"""All samples of one kind, as one row."""

from dataclasses import dataclass, replace
from statistics import median

from labs.bench import narrow, node_to_node, yardstick
from labs.bench.sample import Kind, Sample
from labs.bench.targets import Target, Unit, target


@dataclass
class Row:
    """The medians of one kind of measurement, and what stood beside it in the same run."""

    kind: Kind
    samples: list[Sample]
    yardstick_mbit_s: float | None
    iperf3_mbit_s: float | None
    undelayed_mbit_s: float | None  # of the same kind without flush delay
    api_send_mbit_s: float | None  # what an application's sender reached
    version_7_mbit_s: float | None  # of the same kind in version 7

    @property
    def bundles_per_s(self) -> float:
        """Median."""
        return median(sample.bundles_per_s for sample in self.samples)

    @property
    def mbit_per_s(self) -> float:
        """Median."""
        return median(sample.mbit_per_s for sample in self.samples)

    @property
    def spread(self) -> tuple[float, float]:
        """Lowest and highest goodput, as shares of the median."""
        values = [sample.mbit_per_s for sample in self.samples]
        return min(values) / self.mbit_per_s - 1, max(values) / self.mbit_per_s - 1

    @property
    def peak_mb(self) -> float:
        """The most that any node needed in any run."""
        return max((peak for sample in self.samples for peak in sample.peaks_mb.values()), default=0.0)

    def peaks(self) -> str:
        """The most that each node needed in any run, in the order of the path."""
        names = list(self.samples[0].peaks_mb)
        return "/".join(f"{max(sample.peaks_mb[name] for sample in self.samples):.0f}" for name in names)

    def share(self, of: float | None) -> float | None:
        """The median as a share of something."""
        return self.mbit_per_s / of if of else None

    @property
    def target(self) -> Target | None:
        """The target of the row."""
        return target(self.kind)

    @property
    def reached(self) -> float | None:
        """The figure that the target is about."""
        match self.target:
            case None:
                return None
            case Target(unit=Unit.YARDSTICK):
                return self.share(self.yardstick_mbit_s)
            case Target(unit=Unit.IPERF3):
                return self.share(self.iperf3_mbit_s)
            case Target(unit=Unit.UNDELAYED):
                return self.share(self.undelayed_mbit_s)
            case Target(unit=Unit.VERSION_7):
                return self.share(self.version_7_mbit_s)
            case Target(unit=Unit.API_SEND):
                return self.share(self.api_send_mbit_s)
            case _:
                return self.bundles_per_s

    def record(self) -> dict[str, object]:
        """For target/bench/node.json; the names are a contract."""
        return {
            "case": self.kind.case,
            "size_octets": self.kind.size,
            "durability": self.kind.durability,
            "bundles_per_s": round(self.bundles_per_s, 1),
            "goodput_mbit_s": round(self.mbit_per_s, 1),
            "yardstick_mbit_s": rounded(self.yardstick_mbit_s, 1),
            "iperf3_mbit_s": rounded(self.iperf3_mbit_s, 1),
            "ratio": rounded(self.share(self.yardstick_mbit_s), 4),
            "threads": self.kind.threads,
            "flush_delay_ms": self.kind.flush_delay_ms,
            "cpu_s_per_gb": round(median(sample.cpu_s_per_gb for sample in self.samples), 3),
            "cpu_s_per_million": round(median(sample.cpu_s_per_million for sample in self.samples), 3),
            "rss_mb": round(self.peak_mb, 1),
            "runs": len(self.samples),
            "version": self.kind.version,
        }


def rounded(value: float | None, digits: int) -> float | None:
    """A figure that may be missing."""
    return None if value is None else round(value, digits)


def rows(samples: list[Sample], raw: list[float], raw_narrow: list[float]) -> list[Row]:
    """A row for each kind, in the order in which kinds were first measured."""
    by_kind: dict[Kind, list[Sample]] = {}
    for sample in samples:
        by_kind.setdefault(sample.kind, []).append(sample)
    goodput = {kind: median(sample.mbit_per_s for sample in of) for kind, of in by_kind.items()}

    def beside(case: str, kind: Kind) -> float | None:
        # The yardstick does not know of contacts: what puts its flushes off stands beside what does not.
        durability = "sync" if kind.durability == "contact" else kind.durability
        return goodput.get(Kind(case, kind.size, durability, kind.flush_delay_ms))

    made = []
    for kind, of in by_kind.items():
        is_narrow = kind.case in (narrow.CASE, narrow.YARDSTICK)
        iperf3 = raw_narrow if is_narrow else raw
        made.append(Row(
            kind, of,
            yardstick_mbit_s=beside(narrow.YARDSTICK if is_narrow else yardstick.CASE, kind),
            iperf3_mbit_s=median(iperf3) if iperf3 else None,
            undelayed_mbit_s=goodput.get(Kind(kind.case, kind.size, kind.durability, 0, kind.threads)),
            api_send_mbit_s=beside(node_to_node.API_SEND, kind),
            version_7_mbit_s=goodput.get(replace(kind, version=7)) if kind.version != 7 else None,
        ))
    return made
