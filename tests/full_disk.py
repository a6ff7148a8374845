"""A disk that has room for less than the quota: the node says so, takes no more, and follows it down and up."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.workplace import Workplace

# The disk, and what another program takes of it.
DISK_OCTETS, OTHER_OCTETS = 60_000_000, 30_000_000

# Time within which a change of the disk's room is followed, seconds; a machine that is busy with something else included.
FOLLOWED_S = 3.0

PAYLOAD_OCTETS = 1_000_000


class FullDisk(Workplace):
    """A receiver whose store is on a small file system of its own."""

    def setUp(self) -> None:
        super().setUp()
        self.point = self.receiver.directory / "store"
        self.point.mkdir(parents=True)
        size = f"size={DISK_OCTETS}"
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self.point)],
            capture_output=True, text=True, timeout=60, check=False)
        if mounted.returncode != 0:
            self.skipTest(f"no tmpfs can be mounted: {mounted.stderr.strip()}")
        self.addCleanup(self.unmount)
        self.receiver.settings.quota = "10GiB"

    def unmount(self) -> None:
        """The file system is gone once nobody uses it."""
        self.crew.close()
        subprocess.run(["umount", str(self.point)], check=False, timeout=60)

    def store(self) -> dict:
        """The receiver's store, as an operator sees it."""
        return self.receiver.show("status")["store"]

    def payload(self, octets: int) -> Path:
        """A file of so many octets."""
        path = self.directory / f"payload-{octets}"
        path.write_bytes(b"7" * octets)
        return path

    def fill(self) -> int:
        """Sends until that is refused; how many were taken."""
        for taken in range(100):
            sent = self.receiver.run("send", "ipn:9.1", str(self.payload(PAYLOAD_OCTETS)))
            if sent.returncode != 0:
                self.refusal = sent.stderr
                return taken
        return self.fail("the disk was never full")

    def follow(self, what: Callable[[int], bool]) -> int:
        """The bound once something holds."""
        end = time.monotonic() + FOLLOWED_S
        while not what(bound := self.store()["effective_quota_octets"]):
            self.assertLess(time.monotonic(), end, f"{bound} octets")
            time.sleep(0.05)
        return bound

    def test_the_room_of_the_disk_is_the_bound_and_is_followed_in_both_directions(self) -> None:
        self.receiver.start()
        store = self.store()
        bound = store["effective_quota_octets"]
        self.assertEqual(store["quota_octets"], 10 << 30)
        self.assertTrue(DISK_OCTETS // 2 < bound < DISK_OCTETS, bound)
        said = self.receiver.last_words(50)
        self.assertIn(f"the disk has room for {bound} octets of the quota of {10 << 30}", said)
        # Another program takes half of the disk, and gives it back.
        other = self.point / "other"
        other.write_bytes(b"8" * OTHER_OCTETS)
        less = self.follow(lambda now: now < bound - OTHER_OCTETS // 2)
        refused = self.receiver.run("send", "ipn:9.1", str(self.payload(less)))
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(f"the disk has for {less} octets of the quota of {10 << 30}", refused.stderr)
        taken = self.fill()
        self.assertIn("of the quota of", self.refusal)
        self.assertGreater(taken, less * 7 // 10 // PAYLOAD_OCTETS)
        other.unlink()
        more = self.follow(lambda now: now > less + OTHER_OCTETS // 2)
        taken += self.fill()
        self.assertGreater(taken, more * 7 // 10 // PAYLOAD_OCTETS)
        # Nothing was refused by the store itself, and nothing that is stored is lost when the bound falls below it.
        other.write_bytes(b"8" * (DISK_OCTETS - sum(it.stat().st_blocks * 512 for it in self.point.rglob("*"))))
        self.follow(lambda now: now < more)
        self.assertEqual(self.receiver.stop(), 0)
        self.assertNotIn("the store refused octets", self.receiver.last_words(200))
        self.receiver.start()
        self.assertEqual(self.store()["bundles"], taken)
