#!/usr/bin/env python3
"""A convergence layer that is a program of its own: bundles travel as files in directories, on a memory stick, say.

python3 sneakernet.py SOCKET PEER OUTBOX INBOX

Bundles for the node PEER become files in OUTBOX; those that somebody puts into INBOX are given to the node, and removed once it has
them safely. A file in OUTBOX is as good as delivered: the stick is on its way. A file appears whole, by its renaming, or not at all.
"""

import os
import pathlib
import select
import sys
import time

from dhow_external import Connection

WELCOME, BYE = 1, 7
BEGIN, DATA, ACKNOWLEDGED, REFUSED, ABORT = range(32, 37)
SAY_BEGIN, SAY_DATA, SAY_SENT = 48, 49, 50
PIECE_OCTETS = 64 << 10
INTERVAL_S = 0.2  # from look to look into the inbox
UNDER_WAY_MAX = 16  # files that the node has not acknowledged
HERE_ALREADY = 1  # the reason of such a refusal
AGAIN_S = 30.0  # until a file that the node refused is tried again


class Sneakernet:
    def __init__(self, path, peer, outbox, inbox):
        self.outbox, self.inbox = pathlib.Path(outbox), pathlib.Path(inbox)
        self.partial = self.outbox / f".{os.getpid()}.partial"
        self.file, self.transfer, self.left = None, 0, 0
        self.next = 1
        self.names = {}  # files that the node has not acknowledged, by transfer
        self.rests = {}  # when files that it refused are tried again
        self.connection = Connection(path, "neighbour", "sneakernet", peer, 0)

    def hear(self, code, *fields):
        if code == BEGIN:
            self.transfer, self.left = fields
            self.file = self.partial.open("wb")
        elif code == DATA:
            self.file.write(fields[0])
            self.left -= len(fields[0])
            if self.left == 0:
                self.file.flush()
                os.fsync(self.file.fileno())
                self.file.close()
                self.partial.rename(self.outbox / f"{time.time_ns()}-{self.transfer}.bundle")
                self.sync()
                self.connection.say(SAY_SENT, self.transfer)
        elif code == ABORT:
            self.file.close()
        elif code == ACKNOWLEDGED:
            self.names.pop(fields[0]).unlink()
        elif code == REFUSED and fields[1] == HERE_ALREADY:
            self.names.pop(fields[0]).unlink()
        elif code == REFUSED:
            self.rests[self.names.pop(fields[0])] = time.monotonic() + AGAIN_S
        elif code == BYE:
            print("the node says:", fields[0], file=sys.stderr)

    def sync(self):
        directory = os.open(self.outbox, os.O_DIRECTORY)
        os.fsync(directory)
        os.close(directory)

    def bring(self):
        """Give the node what lies in the inbox."""
        for name in sorted(self.inbox.glob("[!.]*")):
            octets = name.stat().st_size
            rests = self.rests.get(name, 0) > time.monotonic()
            if rests or octets == 0 or name in self.names.values() or len(self.names) >= UNDER_WAY_MAX:
                continue
            self.names[self.next] = name
            self.connection.say(SAY_BEGIN, self.next, octets)
            with name.open("rb") as file:
                while piece := file.read(PIECE_OCTETS):
                    self.connection.say(SAY_DATA, piece)
            self.next += 1

    def run(self):
        while True:
            if select.select([self.connection.socket], [], [], INTERVAL_S)[0]:
                for message in self.connection.hear():
                    self.hear(*message)
            self.bring()


if __name__ == "__main__":
    while True:
        try:
            Sneakernet(*sys.argv[1:5]).run()
        except (OSError, EOFError) as error:
            print(f"{error}; connecting again", file=sys.stderr)
            time.sleep(1)
