"""Makes the documentation a book: the pages that docs/SUMMARY.md names, and reference pages of commands and files.

    python3 -m packaging.book [--out target/book] [--binary target/debug/dhow] [--sources]

Its source is laid out as the repository is, so links between pages hold; files that pages link to come along. Reference
pages follow from `dhow … --help` and from docs/*.schema.json. mdBook then makes HTML of it in OUT/html.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from labs.rig.binary import ROOT, dhow, target_directory

SUMMARY = ROOT / "docs" / "SUMMARY.md"

# A chapter of SUMMARY.md; without an address its page is generated.
CHAPTER = re.compile(r"^(?P<indent> *)(?P<mark>- )?\[(?P<title>[^\]]+)\]\((?P<address>[^)]*)\)$", re.MULTILINE)

# A link or picture in a page, outside code.
LINK = re.compile(r"!?\[(?:[^\]\\]|\\.)*\]\(([^()\s]+)\)")

# Commands are looked for this many words deep.
DEEPEST = 4

REFERENCE = Path("docs") / "reference"

# mdBook's own first page is a copy of the first chapter, whose links hold in that chapter's directory alone.
FIRST = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={address}">
<title>Dhow</title>
<a href="{address}">Dhow</a>
</html>
"""


@dataclass(frozen=True)
class Page:
    """A chapter: its title and its file, relative to the repository; None where it is generated."""

    title: str
    file: Path | None


def chapters() -> list[Page]:
    """The chapters of docs/SUMMARY.md in their order. Raises ValueError where one leads out of the repository."""
    pages = []
    for found in CHAPTER.finditer(SUMMARY.read_text(encoding="utf-8")):
        address = found["address"]
        pages.append(Page(found["title"], (SUMMARY.parent / address).resolve().relative_to(ROOT) if address else None))
    return pages


def prose(text: str) -> str:
    """A page without its blocks and pieces of code, in which nothing is a link."""
    text = re.sub(r"^(```+)[^\n]*\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(?: {4,}|\t).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def links(text: str) -> list[str]:
    """Addresses that a page links to within the book, with their anchors."""
    return [address for address in LINK.findall(prose(text)) if not re.match(r"[a-z]+:", address)]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as mdBook names them."""
    found: dict[str, int] = {}
    names = set()
    text = re.sub(r"^(```+)[^\n]*\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = "".join(letter for letter in heading.strip().lower() if letter.isalnum() or letter in " -_").replace(" ", "-")
        names.add(f"{name}-{found[name]}" if name in found else name)
        found[name] = found.get(name, 0) + 1
    return names


def words_of(binary: Path, *words: str) -> tuple[str, list[str]]:
    """The help of a command, and the commands below it."""
    said = subprocess.run([binary, *words, "--help"], check=True, capture_output=True, text=True, timeout=60).stdout
    below = re.search(r"^Commands:\n((?: .*\n|\n(?= ))+)", said, re.MULTILINE)
    named = re.findall(r"^  (\S+)  ", below[1], re.MULTILINE) if below else []
    # The output of `help` stands on the pages of the others.
    return said, [word for word in named if word != "help"]


def command_sections(binary: Path, words: tuple[str, ...]) -> list[str]:
    """A section with the help of a command, then those of the commands below it."""
    said, below = words_of(binary, *words)
    # The options of every command stand once, on the page of all commands.
    shown = re.sub(r"\nCommon options:\n(?:(?: .*)?\n)+(?=\S|\Z)", "\n", said).rstrip()
    sections = [f"{'#' * min(len(words), 6)} dhow {' '.join(words)}\n\n```text\n{shown}\n```\n"]
    if len(words) < DEEPEST:
        for word in below:
            sections += command_sections(binary, (*words, word))
    return sections


def command_pages(binary: Path) -> dict[str, tuple[str, str]]:
    """The page of all commands, then one for each: title and text by file name."""
    said, below = words_of(binary)
    pages = {"commands.md": ("Commands", f"# Commands\n\n```text\n{said.rstrip()}\n```\n")}
    for word in below:
        pages[f"dhow-{word}.md"] = (f"dhow {word}", "\n".join(command_sections(binary, (word,))))
    return pages


def cell(text: str) -> str:
    """Text as a cell of a table takes it, with marks of Markdown as they are."""
    return re.sub(r"([\\|<>*_\[\]`])", r"\\\1", text)


def taken(schema: dict) -> str:
    """The values that a key takes, in a few words."""
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "oneOf" in schema:
        return " or ".join(dict.fromkeys(taken(each) for each in schema["oneOf"]))
    if "pattern" in schema:
        return "text with a unit"
    if schema.get("type") == "array":
        return f"a list: {taken(schema['items'])}"
    words = {"string": "text", "boolean": "`true`, `false`", "integer": "whole number", "number": "number", "object": "keys and values"}
    word = words.get(schema.get("type", ""), "any value")
    least, most = schema.get("minimum"), schema.get("maximum")
    if schema.get("type") in ("integer", "number"):
        if least is not None and least == most:
            word = str(least)
        elif least is not None and most is not None:
            word += f" from {least} to {most}"
        elif least is not None and least > 0:
            word += f" from {least}"
    return word


def default(name: str, schema: dict, required: list[str]) -> str:
    """The value where the key is not written, behind the values that it takes."""
    if name in required:
        return "; must be set"
    if "default" in schema:
        return f"<br>default `{json.dumps(schema['default'])}`"
    said = cell(schema.get("$comment", "").removeprefix("default: "))
    return f"<br>default: {said}" if said else ""


def rows(keys: dict[str, dict], required: list[str]) -> str:
    """A table of keys."""
    lines = ["| key | meaning | values |", "|---|---|---|"]
    for name, schema in keys.items():
        meaning = cell(schema.get("description", ""))
        lines.append(f"| `{name}` | {meaning} | {taken(schema)}{default(name, schema, required)} |")
    return "\n".join(lines) + "\n"


def schema_page(file: str, title: str, opening: str) -> str:
    """A page of all sections and keys of a schema of docs/."""
    schema = json.loads((ROOT / "docs" / file).read_text(encoding="utf-8"))
    sections, keys = [], {}
    for name, section in schema["properties"].items():
        many = section.get("type") == "array"
        table = section["items"] if many else section
        if not table.get("properties"):
            keys[name] = section
            continue
        heading = f"[[{name}]]" if many else f"[{name}]"
        # Brackets of a heading would be read as a link.
        sections.append(f"## `{heading}`\n\n{table.get('description', '')}\n\n{rows(table['properties'], table.get('required', []))}")
    first = f"## Keys before the first section\n\n{rows(keys, schema.get('required', []))}"
    return "\n".join([f"# {title}\n\n{opening}\n", first, *sections])


def reference(binary: Path) -> dict[str, dict[str, tuple[str, str]]]:
    """The generated pages by the chapter of SUMMARY.md that they stand for: title and text by file name."""
    node = "Every key of a node file, from [node.schema.json](../node.schema.json). `dhow node init` writes a file with all of them, `dhow node config FILE` checks one."
    scenario = "Every key of a scenario file, from [scenario.schema.json](../scenario.schema.json), for [simulations](../simulation.md) and [labs](../lab.md)."
    return {
        "Commands": command_pages(binary),
        "Node file": {"node-file.md": ("Node file", schema_page("node.schema.json", "Node file", node))},
        "Scenario file": {"scenario-file.md": ("Scenario file", schema_page("scenario.schema.json", "Scenario file", scenario))},
    }


def summary(generated: dict[str, dict[str, tuple[str, str]]]) -> str:
    """SUMMARY.md of the book's source, with addresses from the repository's top and lines for generated pages."""
    def line(found: re.Match[str]) -> str:
        indent, mark, title = found["indent"], found["mark"] or "", found["title"]
        if found["address"]:
            return f"{indent}{mark}[{title}]({(SUMMARY.parent / found['address']).resolve().relative_to(ROOT)})"
        (first, head), *below = generated[title].items()
        lines = [f"{indent}{mark}[{head[0]}]({REFERENCE / first})"]
        return "\n".join(lines + [f"{indent}  - [{page[0]}]({REFERENCE / file})" for file, page in below])

    return CHAPTER.sub(line, SUMMARY.read_text(encoding="utf-8"))


def lay_out(out: Path, binary: Path) -> Path:
    """Writes the book's source to OUT, anew; its directory. Exits where a page links to a file that is not there."""
    source = out / "src"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "book.toml", out / "book.toml")
    generated = reference(binary)
    (source / "SUMMARY.md").write_text(summary(generated), encoding="utf-8")
    for pages in generated.values():
        for file, (_, text) in pages.items():
            (source / REFERENCE).mkdir(parents=True, exist_ok=True)
            (source / REFERENCE / file).write_text(text, encoding="utf-8")
    wanted = [page.file for page in chapters() if page.file] + [Path("docs") / "node.schema.json", Path("docs") / "scenario.schema.json"]
    while wanted:
        file = wanted.pop()
        target = source / file
        if target.exists():
            continue
        if not (ROOT / file).is_file():
            sys.exit(f"no file {file}, to which a page of the book links")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, target)
        if file.suffix == ".md":
            beside = (ROOT / file).parent
            wanted += [
                (beside / address.partition("#")[0]).resolve().relative_to(ROOT)
                for address in links((ROOT / file).read_text(encoding="utf-8")) if not address.startswith("#")
            ]
    return source


def main() -> None:
    """Lays out the source, then makes HTML of it."""
    parser = argparse.ArgumentParser(description="Makes the documentation a book.")
    parser.add_argument("--out", type=Path, default=target_directory() / "book", help="directory for it [default: target/book]")
    parser.add_argument("--binary", type=Path, help="program whose commands are described [default: target/debug/dhow]")
    parser.add_argument("--sources", action="store_true", help="lay out the source alone")
    arguments = parser.parse_args()
    lay_out(arguments.out, arguments.binary or dhow("debug"))
    if arguments.sources:
        return
    if not shutil.which("mdbook"):
        sys.exit("no mdbook\nhint: labs/setup book installs it")
    subprocess.run(["mdbook", "build", str(arguments.out)], check=True)
    first = next(page.file for page in chapters() if page.file)
    index = arguments.out / "html" / "index.html"
    index.write_text(FIRST.format(address=first.with_suffix(".html")), encoding="utf-8")
    print(index)


if __name__ == "__main__":
    main()
