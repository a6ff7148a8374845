"""The demonstration: alpha – beta ~ gamma – delta, the middle link mostly down, gamma killed on the way."""

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from labs.demo.cargo import Cargo
from labs.demo.outcome import Outcome, figures_table, files_table
from labs.demo.picture import Picture
from labs.demo.voyage import GIVE_UP_S, Voyage
from labs.rig.binary import ROOT, dhow
from labs.rig.crew import Crew, Program, end_on_sigterm
from labs.rig.network import Loopback, Namespaces, Network, namespaces_possible
from labs.rig.node import Link, Node, Settings, free_port
from labs.rig.terminal import octets, say

NAMES = ["alpha", "beta", "gamma", "delta"]
WEAK = 1  # the link beta – gamma
GAMMA = 2
DESTINATION = "ipn:4.42"

YARDSTICK_S = 2.5

PICTURE = ROOT / "target" / "demo" / "voyage.svg"

# The rate of the weak link is set so that the cargo needs about this many seconds of contact.
CONTACT_TIME_WANTED_S = 14.0


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--loopback", action="store_true", help="do not use network namespaces")
    parser.add_argument("--split", type=int, default=50_000, help="payload octets of a bundle (default 50000)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON instead of tables")
    parser.add_argument("--keep", action="store_true", help="keep the nodes' directories and say where they are")
    return parser.parse_args()


def network(loopback: bool) -> Network:
    """Namespaces where they can be had, loopback otherwise; says which."""
    reason = "asked for" if loopback else namespaces_possible()
    if reason is None:
        made: Network = Namespaces(NAMES, WEAK, 4556)
        say(f"path: {made.kind}")
    else:
        made = Loopback([free_port() for _ in NAMES], WEAK)
        say(f"path: {made.kind} ({reason})")
    return made


def nodes(crew: Crew, binary: Path, directory: Path, path: Network) -> list[Node]:
    """Four nodes in a chain, each dialling its neighbours, routes in both directions."""
    made = []
    for host, name in enumerate(NAMES):
        links = [
            Link(NAMES[neighbour], path.dial(host, neighbour))
            for neighbour in (host - 1, host + 1)
            if 0 <= neighbour < len(NAMES)
        ]
        routes = [
            (f"ipn:{other + 1}.*", NAMES[host + 1 if other > host else host - 1])
            for other in range(len(NAMES))
            if other != host
        ]
        settings = Settings(
            node_id=f"ipn:{host + 1}.0", listen=path.listen(host), links=links, routes=routes,
            more='[reports]\ngenerate = ["delivery"]\n',
        )
        made.append(Node(crew, binary, directory / name, settings, path.namespace(host)))
    return made


def raw_tcp(crew: Crew, path: Network) -> float:
    """Octets per second of one raw TCP stream through the weak link while it is up."""
    here = [sys.executable, "-m", "labs.rig.yardstick"]
    host, port = path.listen(WEAK + 1).rsplit(":", 1)
    receiver = crew.start([*here, "receive", f"{host}:{port}"], namespace=path.namespace(WEAK + 1))
    receiver.line(10)
    sender = crew.start(
        [*here, "send", path.dial(WEAK, WEAK + 1), str(YARDSTICK_S)], namespace=path.namespace(WEAK)
    )
    sender.wait(30)
    reading = json.loads(receiver.line(30) or "{}")
    crew.dismiss(sender)
    crew.dismiss(receiver)
    return reading["octets"] / reading["seconds"]


def enqueue(alpha: Node, cargo: Cargo) -> list[Program]:
    """Sends every file and waits until alpha holds all bundles; the senders then wait for their receipts."""
    senders = [
        alpha.begin(
            "send", DESTINATION, str(parcel.path), "--from", parcel.source, "--split", f"{parcel.split_octets}B",
            "--lifetime", "1h", "--report", "delivery", "--wait", "--json",
        )
        for parcel in cargo.parcels
    ]
    for sender, parcel in zip(senders, cargo.parcels, strict=True):
        for _ in range(parcel.expected):
            if sender.line(30) is None:
                sys.exit(f"alpha did not take {parcel.name}:\n{alpha.last_words()}")
    return senders


def receipts(senders: list[Program]) -> bool:
    """Whether every sender has got every delivery receipt."""
    end = time.monotonic() + 20
    codes = []
    for sender in senders:
        try:
            codes.append(sender.wait(max(0.1, end - time.monotonic())))
        except Exception:  # noqa: BLE001 (a sender that still waits has not got its receipts)
            codes.append(-1)
    return all(code == 0 for code in codes)


def run(options: argparse.Namespace, directory: Path) -> Outcome:
    """One demonstration; everything it started has ended when it returns."""
    binary = dhow("demo")
    cargo = Cargo(binary, options.split, "ipn:1")
    path = network(options.loopback)
    try:
        with Crew() as crew:
            rate = cargo.octets / CONTACT_TIME_WANTED_S
            path.limit(rate)
            say(f"beta–gamma is limited to {rate * 8 / 1e6:.1f} Mbit/s; raw TCP goes first, as the yardstick")
            raw = raw_tcp(crew, path)
            path.cut()
            chain = nodes(crew, binary, directory, path)
            for node in chain:
                node.start()
            say(f"alpha, beta, gamma and delta run; beta–gamma is cut; raw TCP moved {octets(raw)}/s")
            receiver = chain[-1].begin(
                "recv", DESTINATION, "--count", str(cargo.expected), "--out", str(directory / "arrived"),
                "--timeout", f"{GIVE_UP_S:.0f}s", "--json",
            )
            senders = enqueue(chain[0], cargo)
            say(f"{len(cargo.parcels)} files wait at alpha and beta: {cargo.expected} bundles, {octets(cargo.octets)}")
            voyage = Voyage(path, cargo, chain[GAMMA], receiver)
            start = time.monotonic()
            voyage.sail()
            if not voyage.contacts.up:
                path.join()  # receipts go home
            open_s = voyage.contacts.open_seconds(voyage.last_arrival)
            outcome = Outcome(
                delivered=cargo.arrived, expected=cargo.expected, octets=cargo.arrived_octets,
                duplicated=cargo.repeated, receipts=receipts(senders),
                identical=all(parcel.whole() for parcel in cargo.parcels),
                contacts=len(voyage.contacts.past), open_s=open_s, total_s=voyage.last_arrival - start,
                gamma_down_s=voyage.gamma_down_s, raw_octets_per_s=raw, path=path.kind,
            )
            print(json.dumps(outcome.record()) if options.json else
                  f"\n{files_table(cargo)}\n\n{figures_table(outcome)}\n")
            draw(voyage, start, outcome)
            if not options.json:
                print(outcome.line())
            return outcome
    finally:
        path.close()


def draw(voyage: Voyage, start: float, outcome: Outcome) -> None:
    """The voyage as a picture beside what was built."""
    if not voyage.arrivals:
        return
    picture = Picture(
        arrivals=[(at - start, moved) for at, moved in voyage.arrivals], contacts=voyage.contacts.past, start=start,
        killed=voyage.killed_at - start if voyage.killed_at is not None else None,
        raw_octets_per_s=outcome.raw_octets_per_s,
        caption=f"{outcome.expected} bundles through alpha, beta, gamma and delta; {outcome.path}",
    )
    picture.write(PICTURE)
    say(f"picture: {PICTURE.relative_to(ROOT)}")


def main() -> int:
    """Returns 0 when nothing was lost, 1 otherwise, 130 when interrupted."""
    options = arguments()
    end_on_sigterm()
    directory = Path(tempfile.mkdtemp(prefix="dhow-demo-"))
    try:
        return 0 if run(options, directory).good else 1
    except KeyboardInterrupt:
        say("\ninterrupted; processes, namespaces and files are removed")
        return 130
    finally:
        if options.keep:
            say(f"kept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
