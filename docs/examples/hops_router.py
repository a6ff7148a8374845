#!/usr/bin/env python3
"""A router that is a program of its own: each bundle goes to the neighbour from which its destination has the fewest hops.

Routers tell their neighbours, in adverts, how many hops they have to which nodes (a distance vector): python3 hops_router.py SOCKET [NAME]
"""

import select
import sys
import time

from dhow_external import Connection, decode, encode

WELCOME, NEIGHBOUR, BUNDLE, COPY, GONE, ADVERT, BYE = range(1, 8)
FORWARD, HOLD, DISCARD, ROUTES, TELL = range(16, 21)
ONE = 0  # to the first of the next hops that has room
INTERVAL_S = 2.0  # from advert to advert
FAR = 16  # hops that are as good as none


class Router:
    def __init__(self, path, name):
        self.connection = Connection(path, "router", name)
        self.own = []
        self.tables = {}  # what each neighbour says: hops by node
        self.waiting = {}  # destinations of bundles that no neighbour leads to

    def hops(self):
        """By node, the fewest hops and the neighbour that has them."""
        best = {peer: (1, peer) for peer in self.tables}
        for peer, table in self.tables.items():
            for node, hops in table.items():
                if node not in self.own and hops + 1 < min(FAR, best.get(node, (FAR,))[0]):
                    best[node] = (hops + 1, peer)
        return best

    def advertise(self):
        for peer in self.tables:
            # Ways of a neighbour to itself are of no use to it.
            table = [[node, hops] for node, (hops, over) in self.hops().items() if over != peer]
            self.connection.say(TELL, peer, encode(table))

    def route(self, number, destination):
        scheme, rest = destination.split(":", 1)
        node = f"ipn:{rest.rsplit('.', 1)[0]}.0" if scheme == "ipn" else "/".join(destination.split("/")[:3]) + "/"
        _, over = self.hops().get(node, (FAR, None))
        if over is None:
            self.waiting[number] = destination
            self.connection.say(HOLD, number, 0)
        else:
            self.waiting.pop(number, None)
            self.connection.say(FORWARD, number, ONE, [over])

    def hear(self, code, *fields):
        if code == WELCOME:
            self.own = fields[1]
        elif code == NEIGHBOUR:
            peer, is_up = fields[:2]
            self.tables.pop(peer, None)
            if is_up:
                self.tables[peer] = {}
        elif code == ADVERT:
            self.tables[fields[0]] = dict(decode(fields[1])[0])
        elif code == BUNDLE:
            self.route(fields[0], fields[1])
        elif code == GONE:
            self.waiting.pop(fields[0], None)
        elif code == BYE:
            print("the node says:", fields[0], file=sys.stderr)
        if code in (NEIGHBOUR, ADVERT):
            for number, destination in list(self.waiting.items()):
                self.route(number, destination)

    def run(self):
        due = 0.0
        while True:
            if time.monotonic() >= due:
                self.advertise()
                due = time.monotonic() + INTERVAL_S
            if select.select([self.connection.socket], [], [], max(0.0, due - time.monotonic()))[0]:
                for message in self.connection.hear():
                    self.hear(*message)


if __name__ == "__main__":
    name = sys.argv[2] if len(sys.argv) > 2 else "hops"
    while True:
        try:
            Router(sys.argv[1], name).run()
        except (OSError, EOFError) as error:
            print(f"{error}; connecting again", file=sys.stderr)
            time.sleep(1)
