"""Peer x direction x size: a tick, or the reason why not; tshark judges what dhow sent."""

import argparse
import json
import random
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from labs.interop import meeting
from labs.interop.clients import Ud3tnClients
from labs.interop.dtn7 import Dtn7
from labs.interop.hardy import Hardy
from labs.interop.installation import NotInstalled
from labs.interop.ltp import Hdtn, Hdtn6, HdtnEncapsulated, Ion
from labs.interop.peer import OnPath, Peer, Skipped, Unable
from labs.interop.version6 import Dtnme, IbrDtn
from labs.rig.binary import dhow
from labs.rig.capture import Capture, judge_missing
from labs.rig.crew import Crew, end_on_sigterm
from labs.rig.node import NodeFailed
from labs.rig.terminal import say, table

SIZES = {"0 B": 0, "1 B": 1, "1 kB": 1_000, "64 kB": 64_000, "1 MB": 1_000_000, "10 MB": 10_000_000}
MORE_SIZES = {"100 MB": 100_000_000}
PEERS: dict[str, type[Peer]] = {
    "dtn7": Dtn7, "hardy": Hardy, "dtnme": Dtnme, "ibrdtn": IbrDtn, "ion": Ion, "hdtn": Hdtn, "hdtn6": Hdtn6,
    "hdtn-encapsulated": HdtnEncapsulated}
# Those that are found by beacons as well.
MEETINGS = {"dtn7": meeting.Dtn7, "ibrdtn": meeting.IbrDtn}
TICK = "✓"


@dataclass
class Cell:
    """One transfer."""

    peer: str
    direction: str
    size: str
    reason: str | None  # None: it went well

    @property
    def mark(self) -> str:
        """The mark in the table."""
        return TICK if self.reason is None else "✗"


class Matrix:
    """All cells, filled one after the other."""

    def __init__(self, binary: Path, directory: Path, full: bool) -> None:
        self.binary = binary
        self.full = full
        self.sizes = SIZES | (MORE_SIZES if full else {})
        self.directory = directory
        self.cells: list[Cell] = []
        self.notes: list[str] = []
        self.meetings: list[meeting.Outcome] = []
        self.faults = 0
        dice = random.Random(7)
        for octets in self.sizes.values():
            (directory / str(octets)).write_bytes(dice.randbytes(octets))

    def fill(self, peer: str, direction: str, transfer: Callable[[Path], None], sizes: dict[str, int] = SIZES) -> None:
        """One row: sizes in one direction."""
        for size, octets in sizes.items():
            reason = None
            try:
                transfer(self.directory / str(octets))
            except (Unable, NodeFailed, TimeoutError) as error:
                reason = str(error)
            except Exception as error:  # noqa: BLE001 (one bad cell must not hide the others)
                reason = f"{type(error).__name__}: {error}"
            self.cells.append(Cell(peer, direction, size, reason))
            say(f"{peer}, {direction}, {size}: {reason or 'arrived whole'}")

    def fail(self, peer: str, directions: list[str], reason: str) -> None:
        """All rows of a peer that could not be tried."""
        say(f"{peer}: {reason}")
        self.cells += [Cell(peer, direction, size, reason) for direction in directions for size in self.sizes]

    def try_node(self, kind: type[Peer]) -> None:
        """Both directions with one peer node, under the judge's eyes."""
        if issubclass(kind, OnPath):
            try:
                kind.look()
            except Skipped as reason:
                say(f"{kind.name}: skipped, {reason}")
                self.notes.append(f"{kind.name}: skipped, {reason}")
                return
        if needs := kind.needs():
            self.notes.append(f"{kind.name} needs: " + ", ".join(needs))
        try:
            with Crew() as crew:
                peer = kind(crew, self.binary, self.directory / kind.__name__.lower())
                capture = None
                missing = judge_missing() if kind.spoken else "its layer is not TCPCLv4"
                if missing is None:
                    transport = "udp" if kind.transport == socket.SOCK_DGRAM else "tcp"
                    capture = Capture(
                        crew, peer.directory / "session.pcapng", [peer.port, peer.dhow_port], transport, kind.spoken)
                peer.node.start()
                peer.start()
                self.try_rows(peer, SIZES)
                if capture:
                    capture.stop()
                    self.judge(peer, capture)
                else:
                    self.notes.append(f"{peer.name}: not judged, {missing}")
                # The judge would read gigabytes for hours.
                self.try_rows(peer, MORE_SIZES if self.full else {})
                peer.node.stop()
        except (NotInstalled, Unable, NodeFailed) as error:
            self.fail(kind.name, [direction for direction, _ in kind.rows(self.full)], str(error))

    def try_rows(self, peer: Peer, sizes: dict[str, int]) -> None:
        """Sizes in all directions with one peer."""
        for direction, lost in peer.rows(self.full):
            peer.lose(lost)
            self.fill(peer.name, direction, peer.from_dhow if direction.startswith("from") else peer.to_dhow, sizes)

    def judge(self, peer: Peer, capture: Capture) -> None:
        """The verdict of tshark on the frames that dhow sent to this peer."""
        verdict = capture.verdict(peer.own_frames)
        self.faults += len(verdict.faults)
        messages = "frames of LTP" if peer.spoken == "ltp" else "TCPCL messages"
        self.notes.append(
            f"{peer.name}: tshark read {verdict.messages} {messages} and {verdict.bundles} bundles from dhow, "
            f"{len(verdict.faults)} faults" + "".join(f"\n  frame {fault}" for fault in verdict.faults[:5]))

    def try_clients(self) -> None:
        """The AAP 2.0 clients."""
        directions = ["aap2-send to dhow recv", "dhow send to aap2-receive"]
        try:
            with Crew() as crew:
                clients = Ud3tnClients(crew, self.binary, self.directory / "clients")
                self.fill(clients.name, directions[0], clients.send)
                self.fill(clients.name, directions[1], clients.receive)
                try:
                    clients.ping()
                    self.notes.append(f"{clients.name}: aap2-ping got every echo across two nodes")
                except Unable as error:
                    self.faults += 1
                    self.notes.append(f"{clients.name}: aap2-ping failed: {error}")
        except (NotInstalled, NodeFailed) as error:
            self.fail(Ud3tnClients.name, directions, str(error))

    def meet(self, peers: list[str]) -> None:
        """Nodes that find peers by their beacons, and bundles for nodes behind them."""
        kinds = {MEETINGS[name] for name in peers if name in MEETINGS}
        self.meetings, notes = meeting.meet(self.binary, self.directory / "meetings", kinds)
        self.notes += notes

    def text(self) -> str:
        """The tables, the reasons, and what the judge says."""
        rows: dict[tuple[str, str], list[Cell]] = {}
        for cell in self.cells:
            rows.setdefault((cell.peer, cell.direction), []).append(cell)
        lines = [table(
            ["peer, direction", *self.sizes],
            [[f"{peer}, {direction}", *(cell.mark for cell in cells)] for (peer, direction), cells in rows.items()])]
        reasons = [cell for cell in self.cells if cell.reason]
        lines += [f"✗ {cell.peer}, {cell.direction}, {cell.size}: {cell.reason}" for cell in reasons]
        good = len(self.cells) - len(reasons)
        if self.meetings:
            lines += ["", meeting.text(self.meetings)]
        return "\n".join([*lines, "", *self.notes, f"{good} of {len(self.cells)} transfers arrived whole"])


def main() -> int:
    """Returns 0 when all was tried and tshark found no fault; reasons are part of the result."""
    parser = argparse.ArgumentParser(prog="make interop", description=__doc__)
    parser.add_argument("--peers", nargs="*", choices=[*PEERS, "clients"], default=[*PEERS, "clients"])
    parser.add_argument("--full", action="store_true", help="100 MB as well, and over LTP losses of 1 %% beside those of 5 %%")
    parser.add_argument("--json", action="store_true", help="print cells and notes as JSON")
    parser.add_argument("--keep", action="store_true", help="keep logs and captures and say where they are")
    options = parser.parse_args()
    end_on_sigterm()
    directory = Path(tempfile.mkdtemp(prefix="dhow-interop-"))
    try:
        matrix = Matrix(dhow("release"), directory, options.full)
        for name in options.peers:
            if name == "clients":
                matrix.try_clients()
            else:
                matrix.try_node(PEERS[name])
        matrix.meet(options.peers)
    except KeyboardInterrupt:
        say("\ninterrupted")
        return 130
    finally:
        if options.keep:
            say(f"kept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    if options.json:
        print(json.dumps({"cells": [asdict(cell) for cell in matrix.cells], "notes": matrix.notes,
                          "meetings": [asdict(it) for it in matrix.meetings]}))
    else:
        print(f"\n{matrix.text()}")
    return 1 if matrix.faults else 0


if __name__ == "__main__":
    sys.exit(main())
