"""The book as mdBook makes it: every chapter is there, and every address on its pages leads to something."""

import html
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from urllib.parse import unquote

from labs.rig.binary import ROOT, dhow
from packaging.book import REFERENCE, chapters

PATIENCE_S = 300


class Made(unittest.TestCase):
    """The pages of HTML."""

    def setUp(self) -> None:
        if not shutil.which("mdbook"):
            self.skipTest("no mdbook: labs/setup book installs it")
        directory = tempfile.TemporaryDirectory(prefix="dhow-book-")
        self.addCleanup(directory.cleanup)
        command = [sys.executable, "-m", "packaging.book", "--out", directory.name, "--binary", str(dhow("debug"))]
        made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertNotRegex(made.stderr, "WARN|ERROR")
        self.top = Path(directory.name) / "html"

    def test_every_chapter_is_a_page_and_every_address_leads_somewhere(self) -> None:
        for page in chapters():
            if page.file:
                self.assertTrue((self.top / page.file).with_suffix(".html").is_file(), page.file)
        self.assertTrue((self.top / REFERENCE / "dhow-send.html").is_file())
        texts = {path: path.read_text(encoding="utf-8") for path in self.top.rglob("*.html") if path.name != "print.html"}
        names = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in texts.items()}
        wrong = []
        for path, text in texts.items():
            for address in re.findall(r'\b(?:href|src)="([^"]+)"', text):
                address = unquote(html.unescape(address))
                if re.match(r"[a-z]+:", address) or path.name in ("404.html", "toc.html"):
                    continue
                file, _, anchor = address.partition("#")
                target = (path.parent / file).resolve() if file else path
                if not target.exists():
                    wrong.append(f"{path.relative_to(self.top)}: {address}")
                elif anchor and target in names and anchor not in names[target]:
                    wrong.append(f"{path.relative_to(self.top)}: no heading {address}")
        self.assertEqual(wrong, [])
