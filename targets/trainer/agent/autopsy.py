"""Why a worker ended, as far as its node can tell."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

OUT_OF_MEMORY = 71  # exit code of a worker whose allocation failed
CGROUPS = Path("/sys/fs/cgroup")
MOST = 1000  # groups that are looked at


class Autopsy:
    """Tells a SIGKILL of the kernel, for lack of memory, from anybody else's."""

    def __init__(self, groups: Path = CGROUPS, own: Path = Path("/proc/self/cgroup")) -> None:
        self._folders = list(_near_groups(groups, own))
        self._known = self._kills()

    def cause(self, code: int) -> str | None:
        """The cause of an exit; None when nothing but its code speaks.

        A process that has gone does not say any more which group it was in: it is enough that the kernel has counted
        one kill more in the memory groups of this node: the agent's own one and those beside it.
        """
        known, self._known = self._known, self._kills()
        killed = code == -signal.SIGKILL and self._known > known
        return "out-of-memory" if killed or code == OUT_OF_MEMORY else None

    def _kills(self) -> int:
        """How many processes were killed for lack of memory, as far as this node can see."""
        return sum(_counted(file) for folder in self._folders for file in islice(_counters(folder), MOST))


def _near_groups(groups: Path, own: Path) -> Iterator[Path]:
    with suppress(OSError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            around = path.rpartition("/")[0].lstrip("/")
            if "memory" in controllers.split(","):
                yield groups / "memory" / around
            elif not controllers:  # the second version has one tree for all
                yield groups / around


def _counters(folder: Path) -> Iterator[Path]:
    """Where the kernel counts: for each group what happened in it alone."""
    for here, _, files in os.walk(folder):
        yield from (Path(here, name) for name in ("memory.oom_control", "memory.events.local") if name in files)


def _counted(file: Path) -> int:
    with suppress(OSError, ValueError):
        return int(dict(line.split() for line in file.read_text().splitlines()).get("oom_kill", 0))
    return 0
