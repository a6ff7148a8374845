"""A browser that looks at a page: what of it is wider than the place that it has."""

import base64
import fcntl
import html
import json
import os
import re
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

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


class Browser:
    """A browser that is driven over a pipe (the DevTools protocol): one page of a width, as it runs."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        self._place = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        ours, theirs = os.pipe(), os.pipe()
        # The protocol has it on the descriptors 3 and 4.
        command = [program() or "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                   f"--user-data-dir={self._place.name}/profile", "about:blank"]
        # Out of the way of each other.
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (ours[0], theirs[1])]
        self._process = subprocess.Popen(
            command, pass_fds=(3, 4), preexec_fn=lambda: [os.dup2(end, to) for end, to in zip(high, (3, 4))],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for end in (ours[0], theirs[1], *high):
            os.close(end)
        self._write, self._read = ours[1], theirs[0]
        self._rest, self._number, self._session = b"", 0, None
        [page] = [it for it in self._call("Target.getTargets")["targetInfos"] if it["type"] == "page"]
        attached = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        self.resize(width, height)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._place.cleanup()

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The browser's answer to a method."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE_S
        while True:
            while b"\0" not in self._rest:
                ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
                piece = os.read(self._read, 1 << 20) if ready else b""
                if not piece:
                    raise TimeoutError(f"the browser does not answer {method}")
                self._rest += piece
            told, _, self._rest = self._rest.partition(b"\0")
            answer = json.loads(told)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])

    def resize(self, width: int, height: int = 900) -> None:
        """Give the page a width and a height, in pixels."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)

    def open(self, url: str) -> None:
        """Go to a page."""
        self._call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page, or of what it promises."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']['text']}")
        return answer["result"].get("value")

    def until(self, script: str, timeout_s: float = PATIENCE_S) -> Any:
        """The value of an expression, once it is a true one."""
        end = time.monotonic() + timeout_s
        while not (value := self.evaluate(script)):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {script}")
            time.sleep(0.1)
        return value

    def press(self, key: str) -> None:
        """Press a key, as Tab or Enter."""
        codes = {"Tab": 9, "Enter": 13, " ": 32, "Escape": 27}
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=codes[key], text=text if kind == "keyDown" else "")

    def write(self, text: str) -> None:
        """Write into what has the focus."""
        self._call("Input.insertText", text=text)

    def picture(self, path: Path, height: int | None = None) -> None:
        """The page as a PNG, whole or down to a height."""
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], height or size["height"]), "scale": 1}
        picture = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(picture["data"]))
