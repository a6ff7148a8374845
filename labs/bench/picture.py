"""The figures as a picture: goodput by size beside the yardstick, and the shares that have floors."""

import math
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from labs.bench import node_to_node, relay, yardstick
from labs.bench.row import Row
from labs.bench.sample import Kind, size_name
from labs.bench.targets import Unit

WIDTH = 960
LEFT, RIGHT = 84, 226
TOP = 96
UPPER, LOWER = 300, 220  # heights of the two panels
GAP = 72
HEIGHT = TOP + UPPER + GAP + LOWER + 36

# The least upper end of the scale of shares, and room above the highest.
SHARE_LEAST, SHARE_ROOM = 1.0, 0.1

STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#24292f}.title{font-size:15px;font-weight:600}.head{font-weight:600}"
    ".faint{fill:#57606a}.grid{stroke:#d8dee4;stroke-width:1}.axis{stroke:#8c959f;stroke-width:1}"
    ".line{fill:none;stroke-width:2.2;stroke-linejoin:round}.spread{stroke-width:1.2;opacity:.55}"
    ".floor{stroke:#1f2328;stroke-width:3}.goal{stroke:#1f2328;stroke-width:1}"
)

RAW, STICK, OTHERS = "#8c959f", "#57606a", ["#bc4c00", "#8250df", "#9a6700"]
SYNC, OS, DELAYED, RELAY, SEND, RECEIVE = "#0b5cad", "#54a3e8", "#6e40c9", "#1a7f37", "#bf3989", "#d4a72c"


@dataclass
class Series:
    """A line of the upper panel."""

    name: str
    colour: str
    rows: list[Row]
    dashes: str = ""


@dataclass
class Bars:
    """A kind of bar of the lower panel: the share that each size reached, beside its targets."""

    name: str
    colour: str
    rows: list[Row]


def series(rows: list[Row]) -> list[Series]:
    """The rows of the upper panel."""

    def of(case: str, durability: str = "sync", delay: int = 0) -> list[Row]:
        found = [row for row in rows if row.kind == Kind(case, row.kind.size, durability, delay)]
        return sorted(found, key=lambda row: row.kind.size)

    made = [
        Series("yardstick, sync", STICK, of(yardstick.CASE), "6 4"),
        Series("Dhow, sync", SYNC, of(node_to_node.CASE)),
        Series("Dhow, os", OS, of(node_to_node.CASE, "os")),
        Series("Dhow, sync, flush + 5 ms", DELAYED, of(node_to_node.CASE, "sync", 5)),
        Series("Dhow, relay, sync", RELAY, of(relay.CASE)),
        Series("Dhow, API send, sync", SEND, of(node_to_node.API_SEND)),
        Series("Dhow, API receive, sync", RECEIVE, of(node_to_node.API_RECEIVE)),
    ]
    others = dict.fromkeys(row.kind.case for row in rows if row.kind.case.startswith("node-to-node "))
    for case, colour in zip(others, OTHERS, strict=False):
        made.append(Series(f"{case.removeprefix('node-to-node ')}, memory", colour, of(case, "memory"), "2 3"))
    return [one for one in made if one.rows]


def bars(rows: list[Row]) -> list[Bars]:
    """The rows of the lower panel: cases whose targets are shares."""
    made = []
    for case, name, colour in (
        (node_to_node.CASE, "node to node, of the yardstick", SYNC),
        (relay.CASE, "relay, of iperf3", RELAY),
        (node_to_node.API_SEND, "API send, of iperf3", SEND),
    ):
        found = [
            row for row in rows
            if row.kind == Kind(case, row.kind.size, "sync")
            and (row.target is None or row.target.unit is not Unit.BUNDLES_PER_S) and row.reached is not None
        ]
        if found:
            made.append(Bars(name, colour, found))
    return made


@dataclass
class Panel:
    """A place with a scale of its own: where a size's column and a value's height are."""

    top: float
    height: float
    low: float
    high: float
    sizes: list[int]

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.top + self.height

    @property
    def column(self) -> float:
        """The width of a size's column."""
        return (WIDTH - LEFT - RIGHT) / max(1, len(self.sizes))

    def x(self, size: int) -> float:
        """The middle of a size's column."""
        return LEFT + self.column * (self.sizes.index(size) + 0.5)

    def y(self, value: float) -> float:
        """The height of a value; what is beyond the scale stands at its edge."""
        inside = min(max(value, self.low), self.high)
        return self.bottom - (inside - self.low) / (self.high - self.low) * self.height

    def level(self, value: float, label: str) -> list[str]:
        """A line of the grid with its label."""
        return [horizontal("grid", LEFT, WIDTH - RIGHT, self.y(value)), text(LEFT - 8, self.y(value) + 4, label, "end")]

    def names(self) -> list[str]:
        """The sizes below the panel."""
        return [text(self.x(size), self.bottom + 18, size_name(size), "middle") for size in self.sizes]


def horizontal(kind: str, left: float, right: float, at: float, more: str = "") -> str:
    """A line from left to right."""
    return f'<line class="{kind}" x1="{left:.1f}" x2="{right:.1f}" y1="{at:.1f}" y2="{at:.1f}"{more}/>'


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "faint") -> str:
    """Words."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


@dataclass
class Picture:
    """All rows, drawn."""

    rows: list[Row]
    captions: list[str]  # two lines at most

    def write(self, path: Path) -> None:
        """Writes the picture as SVG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.svg(), encoding="utf-8")

    def svg(self) -> str:
        """The SVG text."""
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            f"<style>{STYLE}</style>", f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
            text(LEFT, 24, "Bundles over TCPCLv4 on one machine, beside TCP with a log", kind="title"),
            *(text(LEFT, 44 + 17 * number, line) for number, line in enumerate(self.captions)),
        ]
        upper, lower = series(self.rows), bars(self.rows)
        rows = [row for one in (*upper, *lower) for row in one.rows]
        if rows:
            sizes = sorted({row.kind.size for row in rows})
            parts += [*self._goodput(upper, sizes), *self._shares(lower, sizes)]
        return "\n".join([*parts, "</svg>\n"])

    @staticmethod
    def _goodput(drawn: list[Series], sizes: list[int]) -> list[str]:
        """The upper panel: Mbit/s, logarithmic."""
        raw = next((row.iperf3_mbit_s for one in drawn for row in one.rows if row.iperf3_mbit_s), None)
        powers = [math.log10(max(row.mbit_per_s, 1.0)) for one in drawn for row in one.rows]
        powers += [math.log10(raw)] if raw else []
        low, high = math.floor(min(powers)), max(math.ceil(max(powers)), math.floor(min(powers)) + 1)
        panel = Panel(TOP, UPPER, low, high, sizes)
        parts = [text(LEFT, TOP - 10, "goodput", kind="head")]
        for power in range(low, high + 1):
            parts += panel.level(power, f"{10**power / 1000:g} Gbit/s" if power >= 3 else f"{10**power:g} Mbit/s")
        labels = []
        if raw:
            at = panel.y(math.log10(raw))
            parts.append(horizontal("line", LEFT, WIDTH - RIGHT, at, f' stroke="{RAW}" stroke-dasharray="1 4"'))
            labels.append((at, "iperf3, one stream", RAW))
        for one in drawn:
            points = [(panel.x(row.kind.size), panel.y(math.log10(row.mbit_per_s))) for row in one.rows]
            dashes = f' stroke-dasharray="{one.dashes}"' if one.dashes else ""
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            parts.append(f'<polyline class="line" stroke="{one.colour}"{dashes} points="{path}"/>')
            for row, (x, y) in zip(one.rows, points, strict=True):
                low_y, high_y = (panel.y(math.log10(row.mbit_per_s * (1 + part))) for part in row.spread)
                ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{low_y:.1f}" y2="{high_y:.1f}"'
                parts.append(f'<line class="spread" stroke="{one.colour}" {ends}/>')
                told = f"{one.name}, {size_name(row.kind.size)}: {row.bundles_per_s:,.0f} bundles/s"
                dot = f'<circle fill="{one.colour}" cx="{x:.1f}" cy="{y:.1f}" r="2.8">'
                parts.append(f"{dot}<title>{escape(told)}</title></circle>")
            labels.append((points[-1][1], one.name, one.colour))
        return [*parts, *Picture._legend(labels), *panel.names()]

    @staticmethod
    def _legend(labels: list[tuple[float, str, str]]) -> list[str]:
        """Names at the right, moved apart where lines end close to each other."""
        parts, last, x = [], -math.inf, WIDTH - RIGHT + 12
        for at, name, colour in sorted(labels):
            last = max(at, last + 16)
            parts.append(f'<circle fill="{colour}" cx="{x}" cy="{last:.1f}" r="4"/>')
            parts.append(text(x + 10, last + 4, name, kind="name"))
        return parts

    @staticmethod
    def _shares(drawn: list[Bars], sizes: list[int]) -> list[str]:
        """The lower panel: shares of what they are measured by, with floors and goals."""
        highest = max([SHARE_LEAST, *(row.reached or 0.0 for kind in drawn for row in kind.rows)])
        panel = Panel(TOP + UPPER + GAP, LOWER, 0.0, highest + SHARE_ROOM, sizes)
        parts = [text(LEFT, panel.top - 10, "share of the yardstick, or of iperf3", kind="head")]
        for step in range(int((highest + SHARE_ROOM) * 5) + 1):
            parts += panel.level(step / 5, f"{step / 5:.1f}")
        width = panel.column * 0.8 / max(1, len(drawn))
        for number, kind in enumerate(drawn):
            for row in kind.rows:
                reached, target = row.reached or 0.0, row.target
                left, at = panel.x(row.kind.size) + (number - len(drawn) / 2) * width, panel.y(reached)
                place = f'x="{left + 1:.1f}" y="{at:.1f}" width="{width - 2:.1f}" height="{panel.bottom - at:.1f}"'
                told = f"{kind.name}, {size_name(row.kind.size)}: {reached:.3f}"
                parts.append(f'<rect fill="{kind.colour}" {place}><title>{escape(told)}</title></rect>')
                if target:
                    parts.append(horizontal("floor", left, left + width, panel.y(target.floor)))
                if target and target.goal:
                    parts.append(horizontal("goal", left, left + width, panel.y(target.goal)))
        x, at = WIDTH - RIGHT + 12, panel.top + 8
        for kind in drawn:
            parts.append(f'<rect fill="{kind.colour}" x="{x - 4}" y="{at - 9}" width="10" height="10"/>')
            parts.append(text(x + 10, at, kind.name, kind="name"))
            at += 19
        for name in ("floor", "goal"):
            parts += [horizontal(name, x - 6, x + 6, at - 4), text(x + 10, at, name, kind="name")]
            at += 19
        return [*parts, horizontal("axis", LEFT, WIDTH - RIGHT, panel.bottom), *panel.names()]
