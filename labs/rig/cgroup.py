"""Small devices on a big machine: control groups (v1 or v2) that limit a program's memory and processor."""

import contextlib
import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")

# The period over which processor time is shared out, microseconds.
CPU_PERIOD_US = 100_000

# Puts itself into groups and becomes the program.
ENTER = 'while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs" || exit 125; shift; done; shift; exec "$@"'


def impossible(*controllers: str) -> str | None:
    """None where these controllers can be used; else why not."""
    if os.geteuid() != 0:
        return "control groups are for root"
    for controller in controllers or ("memory",):
        if not (_is_v2() or (ROOT / controller / "cgroup.procs").exists()):
            return f"no {controller} controller under {ROOT}"
        if _is_v2() and controller not in (ROOT / "cgroup.controllers").read_text().split():
            return f"no {controller} controller in {ROOT}/cgroup.controllers"
    probe = Group(f"dhow-probe-{os.getpid()}", memory_octets=64 << 20)
    try:
        probe.make()
    except OSError as error:
        return f"control groups cannot be made: {error.strerror}"
    finally:
        probe.remove()
    return None


def _is_v2() -> bool:
    return (ROOT / "cgroup.controllers").exists()


class Group:
    """One control group with limits; leaving the context removes it."""

    def __init__(self, name: str, memory_octets: int | None = None, cpu_share: float | None = None) -> None:
        self.name = name
        self.memory_octets = memory_octets
        self.cpu_share = cpu_share

    def __enter__(self) -> "Group":
        self.make()
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def directories(self) -> list[Path]:
        """The group's directories: one in v2, one for each controller in v1."""
        if _is_v2():
            return [ROOT / self.name]
        controllers = ["memory"] * (self.memory_octets is not None) + ["cpu"] * (self.cpu_share is not None)
        return [ROOT / controller / self.name for controller in controllers]

    def make(self) -> None:
        """Makes the group and sets its limits. Raises OSError."""
        if _is_v2():
            (ROOT / "cgroup.subtree_control").write_text("+memory +cpu")
        for directory in self.directories:
            directory.mkdir(exist_ok=True)
        if self.memory_octets is not None:
            limit = "memory.max" if _is_v2() else "memory.limit_in_bytes"
            (self._of("memory") / limit).write_text(str(self.memory_octets))
        if self.cpu_share is not None:
            quota = int(self.cpu_share * CPU_PERIOD_US)
            if _is_v2():
                (self._of("cpu") / "cpu.max").write_text(f"{quota} {CPU_PERIOD_US}")
            else:
                (self._of("cpu") / "cpu.cfs_period_us").write_text(str(CPU_PERIOD_US))
                (self._of("cpu") / "cpu.cfs_quota_us").write_text(str(quota))

    def remove(self) -> None:
        """Removes the group once its programs have ended."""
        for directory in self.directories:
            for _ in range(50):
                with contextlib.suppress(OSError):
                    directory.rmdir()
                if not directory.exists():
                    break
                time.sleep(0.02)

    def enter(self) -> list[str]:
        """Words before a command that make it run in this group."""
        return ["sh", "-c", ENTER, "sh", *map(str, self.directories), "--"]

    def peak_octets(self) -> int:
        """Most memory that the group has used, page cache included; 0 where the kernel does not say."""
        path = self._of("memory") / ("memory.peak" if _is_v2() else "memory.max_usage_in_bytes")
        return int(path.read_text()) if path.exists() else 0

    def kills(self) -> int:
        """Programs that were killed because the group had no memory left."""
        path = self._of("memory") / ("memory.events" if _is_v2() else "memory.oom_control")
        words = dict(line.split() for line in path.read_text().splitlines())
        return int(words.get("oom_kill", 0))

    def _of(self, controller: str) -> Path:
        return ROOT / self.name if _is_v2() else ROOT / controller / self.name
