"""The bench's arithmetic: medians, shares, floors, the shape of its file, and how it asks (labs/bench)."""

import json
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree
from dataclasses import replace
from pathlib import Path

from labs.bench import arrival, report, targets
from labs.bench.latency import IDLE, Latency
from labs.bench.picture import Picture
from labs.bench.plan import Results
from labs.bench.row import Row, rows
from labs.bench.sample import Kind, Sample, size_name, size_of
from labs.bench.targets import Unit

PAIR = Kind("node-to-node", 1_000, "sync")
YARDSTICK = replace(PAIR, case="yardstick")

# The keys of a row of target/bench/node.json, in their order.
KEYS = [
    "case", "size_octets", "durability", "bundles_per_s", "goodput_mbit_s", "yardstick_mbit_s", "iperf3_mbit_s",
    "ratio", "threads", "flush_delay_ms", "cpu_s_per_gb", "cpu_s_per_million", "rss_mb", "runs", "version",
]


def sample(kind: Kind, bundles: int, seconds: float = 1.0, cpu_s: float = 0.0, peak_mb: float = 0.0) -> Sample:
    """A measurement that took one second."""
    return Sample(kind, bundles, seconds, cpu_s, {"node": peak_mb})


def made() -> list[Row]:
    """Three rounds of a yardstick and of nodes at a quarter of it, with iperf3 at 16 Gbit/s."""
    samples = []
    for bundles in (240_000, 250_000, 400_000):
        samples += [sample(YARDSTICK, 1_000_000), sample(PAIR, bundles, cpu_s=0.5, peak_mb=bundles / 1e4)]
    return rows(samples, [15_000.0, 16_000.0, 17_000.0], [])


class Counted:
    """A node whose counter rises by itself with every question."""

    def __init__(self, counts: list[float]) -> None:
        self.counts = counts

    def metrics(self) -> dict[str, float]:
        """The next count, the last one again and again."""
        count = self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]
        return {arrival.RECEIVED: count, arrival.AGE: 0.0}


class Clock:
    """A clock that goes on when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Seconds since the beginning."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Lets the time pass at once."""
        self.now += seconds


class Bursting:
    """A node to which half of the bundles comes in the last twentieth of the time."""

    def __init__(self, clock: Clock, takes_s: float, bundles: int) -> None:
        self.clock = clock
        self.takes_s = takes_s
        self.bundles = bundles
        self.questions = 0

    def metrics(self) -> dict[str, float]:
        """The count of bundles that are there by now."""
        self.questions += 1
        done = min(self.clock.now / self.takes_s, 1.0)
        count = self.bundles * (done / 1.9 if done < 0.95 else 0.5 + (done - 0.95) * 10)
        return {arrival.RECEIVED: count, arrival.AGE: max(self.clock.now - self.takes_s, 0.0)}

    def last_words(self) -> str:
        """No last words."""
        return ""


class Figures(unittest.TestCase):
    """No measurement is taken here."""

    def test_a_row_is_the_median_beside_the_median_of_the_yardstick(self) -> None:
        row = made()[1]
        self.assertEqual(row.bundles_per_s, 250_000)
        self.assertEqual(row.mbit_per_s, 2_000)
        self.assertEqual(row.reached, 0.25)
        low, high = row.spread
        self.assertAlmostEqual(low, -0.04)
        self.assertAlmostEqual(high, 0.6)

    def test_the_file_has_the_promised_keys_and_no_others(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "bench" / "node.json"
            report.write(made(), Results(), "a machine", path)
            written = json.loads(path.read_text())
        self.assertEqual(list(written), ["machine", "rows"])
        self.assertEqual([list(row) for row in written["rows"]], [KEYS, KEYS])
        row = written["rows"][1]
        self.assertEqual((row["ratio"], row["yardstick_mbit_s"], row["iperf3_mbit_s"]), (0.25, 8_000, 16_000))
        self.assertEqual((row["cpu_s_per_gb"], row["cpu_s_per_million"], row["rss_mb"], row["runs"]), (2, 2, 40, 3))

    def test_version_6_stands_beside_version_7(self) -> None:
        older = replace(PAIR, version=6)
        [_, row] = rows([sample(PAIR, 100_000), sample(older, 90_000)], [], [])
        self.assertEqual((row.kind.terms, row.reached), ("sync, version 6", 0.9))

    def test_what_stood_beside_nothing_says_so(self) -> None:
        row, = rows([sample(PAIR, 5)], [], [])
        self.assertIsNone(row.reached)
        self.assertIsNone(row.record()["ratio"])
        self.assertIn("floors met: 0 of 0", report.text([row], Results(), "a machine", "make bench", 1))

    def test_durabilities_and_flush_delays_are_never_mixed(self) -> None:
        kinds = [PAIR, replace(PAIR, durability="os"), replace(PAIR, flush_delay_ms=5)]
        samples = []
        for number, kind in enumerate(kinds, 1):
            samples += [sample(replace(kind, case="yardstick"), 1_000_000 * number), sample(kind, 100_000 * number)]
        by_kind = {row.kind: row for row in rows(samples, [], [])}
        for number, kind in enumerate(kinds, 1):
            self.assertEqual(by_kind[kind].yardstick_mbit_s, 8_000 * number)
        self.assertEqual(by_kind[kinds[2]].undelayed_mbit_s, 800)
        self.assertEqual(by_kind[kinds[2]].reached, 3)

    def test_a_floor_is_met_where_it_is_reached_and_missed_below(self) -> None:
        printed = report.text(made(), Results(), "a machine", "make bench", 3)
        self.assertIn("floors met: 1 of 1", printed)
        below = rows([sample(YARDSTICK, 1_000_000), sample(PAIR, 249_999)], [16_000.0], [])
        self.assertIn("floors met: 0 of 1", report.text(below, Results(), "a machine", "make bench", 1))

    def test_targets_are_shares_of_what_they_name(self) -> None:
        relay = targets.target(Kind("relay", 10_000, "sync"))
        self.assertIsNotNone(relay)
        assert relay
        self.assertEqual((relay.unit, relay.floor, relay.goal), (Unit.IPERF3, 0.17, 0.34))
        self.assertIsNone(targets.target(Kind("relay", 10_000, "os")))
        older = targets.target(Kind("node-to-node", 1_000, "sync", version=6))
        self.assertEqual((older.unit, older.floor), (Unit.VERSION_7, 0.8))
        self.assertIsNone(targets.target(Kind("node-to-node", 1_000, "os")))
        delayed = targets.target(Kind("node-to-node", 1_000, "sync", 5))
        assert delayed
        self.assertEqual((delayed.unit, delayed.floor), (Unit.UNDELAYED, 0.8))

    def test_small_bundles_are_held_beside_large_ones(self) -> None:
        samples = [sample(replace(PAIR, size=size), bundles) for size, bundles in ((2_000, 100_000), (50_000, 10_000))]
        (words, met), = report.comparisons(rows(samples, [], []))
        self.assertIn("0.40 (floor 0.4 ✓, goal 0.55 ✗)", words)
        self.assertTrue(met)

    def test_round_trips_are_judged_idle_and_only_shown_loaded(self) -> None:
        results = Results(latencies=[Latency(IDLE, 0.4, 0.9, 0), Latency("ping, loaded", 40.0, 90.0, 1)])
        self.assertEqual([met for _, met in report.round_trips(results)], [True, None])

    def test_the_picture_is_well_formed_with_all_marks(self) -> None:
        drawn = Picture(made(), ["a <machine> & more"]).svg()
        root = xml.etree.ElementTree.fromstring(drawn)
        classes = [element.get("class") for element in root.iter()]
        self.assertIn("floor", classes)
        self.assertIn("goal", classes)

    def test_waiting_ends_with_the_question_that_shows_the_last_bundle(self) -> None:
        node = Counted([0.0, 10.0, 20.0, 30.0])
        arrival.wait_for(node, 30)  # type: ignore[arg-type]
        self.assertEqual(node.counts, [30.0])

    def test_an_end_that_comes_suddenly_is_told_exactly_and_noticed_soon(self) -> None:
        for takes_s in (0.1, 1.0, 60.0):
            clock = Clock()
            node = Bursting(clock, takes_s, 1000)
            with unittest.mock.patch.object(arrival, "time", clock):
                seen = arrival.wait_for(node, 1000)  # type: ignore[arg-type]
            self.assertAlmostEqual(seen, takes_s)
            self.assertLess(clock.now, takes_s * 1.21 + 0.006)
            self.assertLess(node.questions, 60)

    def test_sizes_are_read_as_they_are_written(self) -> None:
        for size in (100, 1_000, 2_000, 50_000, 1_000_000, 16_000_000):
            self.assertEqual(size_of(size_name(size).replace(" ", "")), size)


if __name__ == "__main__":
    unittest.main()
