"""Makes Debian packages of a program that is built: the binary, its service, manual pages, completions; and its symbols.

    python3 -m packaging.deb [--binary target/symbols/dhow] [--out target/packages]
"""

import argparse
import gzip
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OURS = ROOT / "packaging" / "debian"

# Programs that make packages.
NEEDED = ("dpkg", "dpkg-deb", "objcopy", "readelf", "strip")

# The directory in which each shell looks for completions of other packages.
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/dhow",
    "zsh": "usr/share/zsh/vendor-completions/_dhow",
    "fish": "usr/share/fish/vendor_completions.d/dhow.fish",
}

CONTROL = """\
Package: dhow
Version: {version}
Architecture: {architecture}
Maintainer: The Dhow developers <dhow@localhost>
Installed-Size: {kib}
Depends: libc6 (>= {libc}), libgcc-s1, adduser
Section: net
Priority: optional
Description: node of a delay-tolerant network, and its testbed
 Dhow stores, carries and forwards bundles (Bundle Protocol, RFC 9171) over
 links that are down most of the time: TCPCL, UDP and more. It also simulates
 and emulates such networks, and measures them.
"""


SYMBOLS_CONTROL = """\
Package: dhow-dbgsym
Version: {version}
Architecture: {architecture}
Maintainer: The Dhow developers <dhow@localhost>
Installed-Size: {kib}
Depends: dhow (= {version})
Section: debug
Priority: optional
Description: symbols of dhow, for debuggers and profilers
"""


def octets_of(command: list[str]) -> bytes:
    """The output of a command; its failure ends this program."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def libc_of(binary: Path) -> str:
    """The oldest version of the C library that has all symbols that a binary names."""
    versions = {tuple(map(int, found.split(b"."))) for found in re.findall(rb"GLIBC_(\d+\.\d+)", binary.read_bytes())}
    return ".".join(map(str, max(versions)))


def write(path: Path, content: bytes, mode: int = 0o644) -> None:
    """A file of the package, and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def lay_out(tree: Path, binary: Path) -> None:
    """Everything that the package installs, under `tree`."""
    write(tree / "usr/bin/dhow", binary.read_bytes(), 0o755)
    write(tree / "usr/lib/systemd/system/dhow.service", (OURS / "dhow.service").read_bytes())
    for shell, path in COMPLETIONS.items():
        write(tree / path, octets_of([str(binary), "completions", shell]))
    with tempfile.TemporaryDirectory() as directory:
        octets_of([str(binary), "manual", directory])
        for page in Path(directory).iterdir():
            write(tree / "usr/share/man/man1" / f"{page.name}.gz", gzip.compress(page.read_bytes(), mtime=0))
    documents = tree / "usr/share/doc/dhow"
    write(documents / "README.md", (ROOT / "README.md").read_bytes())
    write(documents / "changelog.gz", gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), mtime=0))
    write(documents / "copyright", (ROOT / "LICENSE").read_bytes())


def symbols_path(binary: Path) -> str:
    """The directory in which debuggers look for the symbols of a binary: by its build ID."""
    notes = octets_of(["readelf", "--notes", str(binary)]).decode()
    identity = re.search(r"Build ID: ([0-9a-f]+)", notes)
    if identity is None:
        raise ValueError(f"{binary} has no build ID")
    return f"usr/lib/debug/.build-id/{identity[1][:2]}/{identity[1][2:]}.debug"


def pack(tree: Path, control: str, out: Path, **fields: str) -> Path:
    """The package of a tree."""
    octets = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    text = control.format(kib=octets // 1024, **fields)
    write(tree / "DEBIAN/control", text.encode())
    for path in [tree, *tree.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
    name = re.search("Package: (.*)", text)[1]
    package = out / f"{name}_{fields['version']}_{fields['architecture']}.deb"
    octets_of(["dpkg-deb", "--root-owner-group", "--build", str(tree), str(package)])
    return package


def make(binary: Path, out: Path) -> list[Path]:
    """The packages of `binary` in the directory `out`: the program, and its symbols."""
    fields = {
        "version": json.loads(octets_of([str(binary), "version", "--json"]))["version"],
        "architecture": octets_of(["dpkg", "--print-architecture"]).decode().strip(),
    }
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        tree, stripped = Path(directory) / "program", Path(directory) / "dhow"
        octets_of(["strip", "-o", str(stripped), str(binary)])
        lay_out(tree, stripped)
        for script in ("postinst", "prerm", "postrm"):
            write(tree / "DEBIAN" / script, (OURS / script).read_bytes(), 0o755)
        symbols = Path(directory) / "symbols"
        path = symbols / symbols_path(binary)
        path.parent.mkdir(parents=True)
        octets_of(["objcopy", "--only-keep-debug", "--compress-debug-sections", str(binary), str(path)])
        path.chmod(0o644)
        return [
            pack(tree, CONTROL, out, libc=libc_of(stripped), **fields),
            pack(symbols, SYMBOLS_CONTROL, out, **fields),
        ]


def main(arguments: list[str]) -> int:
    """Makes the package and says where it is and how large."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, default=ROOT / "target/symbols/dhow", help="the program")
    parser.add_argument("--out", type=Path, default=ROOT / "target/packages", help="directory of the package")
    options = parser.parse_args(arguments)
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    if lacking:
        print(f"cannot make a package: there is no {', '.join(lacking)}\nhint: run this on Debian, with build-essential", file=sys.stderr)
        return 1
    if not options.binary.is_file():
        print(f"cannot make a package: there is no program at {options.binary}\nhint: make packages builds it", file=sys.stderr)
        return 1
    for package in make(options.binary.resolve(), options.out):
        print(f"{package} ({package.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
