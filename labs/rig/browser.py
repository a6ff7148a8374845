"""A browser that looks at a page: what of it is wider than the place that it has."""

import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

# Widths of a page: a telephone, a tablet, a small window, a large one; and the paper of A4 within its margins, at 96 pixels an inch.
SCREENS = [390, 768, 1100, 1600]
PAPER = 718

PATIENCE_S = 60.0

# Looks at the page in the frame and leaves what it finds where the command line can read it.
LOOK = """
<script>
addEventListener("load", () => {
  const frame = document.querySelector("iframe"), page = frame.contentDocument, found = [];
  page.querySelectorAll("details").forEach(it => it.open = true);
  const width = frame.clientWidth;
  const name = it => it.tagName + " " + (it.textContent || "").trim().slice(0, 60);
  for (const it of page.body.querySelectorAll("*")) {
    if (["TITLE", "STYLE"].includes(it.tagName)) continue;
    // A long table has a box that scrolls: the box has to fit, the table need not.
    const scroller = it.closest(".tall");
    if (scroller && (it !== scroller || getComputedStyle(it).overflowX === "auto")) {
      const box = scroller.getBoundingClientRect();
      if (getComputedStyle(scroller).overflowX === "auto" && box.right <= width + 1 && box.left >= -1) continue;
    }
    const box = it.getBoundingClientRect();
    if (box.width && (box.right > width + 1 || box.left < -1)) found.push(name(it) + ": " + Math.round(box.left) + " to " + Math.round(box.right));
    if (!it.closest("svg") && it.scrollWidth > it.clientWidth + 1 && getComputedStyle(it).overflowX != "visible") found.push(name(it) + ": " + it.scrollWidth + " in " + it.clientWidth);
  }
  const all = page.scrollingElement.scrollWidth;
  if (all > width) found.push("the page: " + all);
  const out = document.createElement("pre");
  out.id = "found";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
});
</script>
"""


def program() -> str | None:
    """The browser, where there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def too_wide(page: str, width: int, on_paper: bool = False) -> list[str]:
    """Elements of a page that do not fit into a width, on a screen or on paper."""
    if on_paper:
        page = page.replace("@media screen", "@media speech").replace("@media print", "@media all")
    frame = f'<iframe style="width:{width}px;height:2000px;border:0" srcdoc="{html.escape(page)}"></iframe>'
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "look.html"
        path.write_text(f"<!doctype html><meta charset='utf-8'><body style='margin:0'>{frame}{LOOK}")
        done = subprocess.run(
            [program() or "chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={place}/profile",
             "--window-size=1700,2000", "--virtual-time-budget=5000", "--dump-dom", path.as_uri()],
            capture_output=True, text=True, timeout=PATIENCE_S, check=True,
        )
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(html.unescape(found[1]))
