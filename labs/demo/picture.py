"""The voyage as a picture: what had arrived when, over the contacts, beside what raw TCP would have moved."""

from dataclasses import dataclass
from pathlib import Path

from labs.demo.contacts import Contact

WIDTH, HEIGHT = 760, 330
LEFT, RIGHT, TOP, BOTTOM = 62, 18, 46, 46

STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#24292f}.title{font-size:15px;font-weight:600}"
    ".faint{fill:#57606a}.contact{fill:#dbeafe}.grid{stroke:#d0d7de;stroke-width:1}"
    ".raw{fill:none;stroke:#8c959f;stroke-width:1.5;stroke-dasharray:5 4}"
    ".dhow{fill:none;stroke:#0b5cad;stroke-width:2.5}.kill{stroke:#cf222e;stroke-width:1.5}.killed{fill:#cf222e}"
)


@dataclass
class Picture:
    """The data of the picture; times in seconds from the start."""

    arrivals: list[tuple[float, int]]  # time and octets that had arrived by then
    contacts: list[Contact]
    start: float
    killed: float | None
    raw_octets_per_s: float
    caption: str

    def write(self, path: Path) -> None:
        """Draws it as SVG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.svg(), encoding="utf-8")

    def svg(self) -> str:
        """The SVG text."""
        end = max(self.arrivals[-1][0], 1.0)
        top = max(self.arrivals[-1][1], 1)

        def x(seconds: float) -> float:
            return LEFT + min(max(seconds, 0.0), end) / end * (WIDTH - LEFT - RIGHT)

        def y(octets: float) -> float:
            return HEIGHT - BOTTOM - min(octets, top) / top * (HEIGHT - TOP - BOTTOM)

        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            f"<style>{STYLE}</style>", f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
            f'<text class="title" x="{LEFT}" y="20">Arrived at delta, over a link that is mostly down</text>',
            f'<text class="faint" x="{LEFT}" y="37">{self.caption}</text>',
        ]
        for contact in self.contacts:
            opened = contact.opened - self.start
            cut = (contact.cut - self.start) if contact.cut is not None else end
            if opened < end:
                width = x(cut) - x(opened)
                height = HEIGHT - TOP - BOTTOM
                parts.append(f'<rect class="contact" x="{x(opened):.1f}" y="{TOP}" width="{width:.1f}" height="{height}"/>')
        for step in range(5):
            octets = top * step / 4
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(octets):.1f}" y2="{y(octets):.1f}"/>')
            parts.append(f'<text class="faint" x="{LEFT - 6}" y="{y(octets) + 4:.1f}" text-anchor="end">{octets / 1e6:.1f} MB</text>')
        for step in range(7):
            seconds = end * step / 6
            parts.append(f'<text class="faint" x="{x(seconds):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{seconds:.0f} s</text>')
        parts.append(f'<polyline class="raw" points="{self._raw(x, y, end)}"/>')
        parts.append(f'<polyline class="dhow" points="{self._steps(x, y)}"/>')
        if self.killed is not None:
            at = x(self.killed)
            parts.append(f'<line class="kill" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
            parts.append(f'<text class="killed" x="{at + 5:.1f}" y="{TOP + 14}">gamma: SIGKILL, then restarted</text>')
        legend = HEIGHT - 8
        parts.append(f'<line class="dhow" x1="{LEFT}" x2="{LEFT + 24}" y1="{legend - 4}" y2="{legend - 4}"/>')
        parts.append(f'<text x="{LEFT + 30}" y="{legend}">bundles, whole and durable</text>')
        parts.append(f'<line class="raw" x1="{LEFT + 220}" x2="{LEFT + 244}" y1="{legend - 4}" y2="{legend - 4}"/>')
        parts.append(f'<text x="{LEFT + 250}" y="{legend}">raw TCP at its measured rate</text>')
        parts.append(f'<rect class="contact" x="{LEFT + 450}" y="{legend - 11}" width="24" height="12"/>')
        parts.append(f'<text x="{LEFT + 480}" y="{legend}">link up</text></svg>\n')
        return "\n".join(parts)

    def _steps(self, x, y) -> str:  # noqa: ANN001 (two scales)
        points, before = [f"{x(0):.1f},{y(0):.1f}"], 0
        for seconds, octets in self.arrivals:
            points.append(f"{x(seconds):.1f},{y(before):.1f}")
            points.append(f"{x(seconds):.1f},{y(octets):.1f}")
            before = octets
        return " ".join(points)

    def _raw(self, x, y, end: float) -> str:  # noqa: ANN001
        points, moved = [f"{x(0):.1f},{y(0):.1f}"], 0.0
        for contact in self.contacts:
            opened = contact.opened - self.start
            cut = min((contact.cut - self.start) if contact.cut is not None else end, end)
            if opened >= end:
                break
            points.append(f"{x(opened):.1f},{y(moved):.1f}")
            moved += (cut - opened) * self.raw_octets_per_s
            points.append(f"{x(cut):.1f},{y(moved):.1f}")
        points.append(f"{x(end):.1f},{y(moved):.1f}")
        return " ".join(points)
