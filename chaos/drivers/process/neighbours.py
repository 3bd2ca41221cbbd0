"""How much of the machine others use meanwhile: what was late beside them may have been starved, not broken."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import anyio

from chaos.api import Stage

PERIOD = 2.0  # seconds; ticks are hundredths of one, so a shorter one would tell little
# Fields of the first line of /proc/stat that stand for work; time that a hypervisor gave away is others' work.
_WORK = ("user", "nice", "system", "irq", "softirq", "steal")
_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


class Spent(NamedTuple):
    """Processor time since the machine and this program started, in ticks."""

    all: int  # of all processors, idle or not
    busy: int
    own: int  # of the harness and all that it started


async def watch(stage: Stage) -> None:
    """Record `host.sampled` again and again, until cancelled; nothing on a machine that does not tell."""
    if not _can_tell():
        return
    with suppress(OSError, ValueError, KeyError):
        before = read()
        while True:
            await anyio.sleep(PERIOD)
            now = read()
            if passed := now.all - before.all:
                own = min(max(now.own - before.own, 0), passed)
                others = min(max(now.busy - before.busy - own, 0), passed)
                stage.record("harness", "host.sampled", {"own": _share(own, passed), "others": _share(others, passed)})
            before = now


def _can_tell() -> bool:
    """Whether this kernel names the children of a thread; without, our own share could not be told from others'."""
    return Path("/proc/thread-self/children").exists()


def read(proc: Path = Path("/proc"), root: int | None = None) -> Spent:
    """What was spent up to now; `root` is the process whose tree is our own, by default this one."""
    with open(proc / "stat") as file:
        values = dict(zip(_FIELDS, map(int, file.readline().split()[1:]), strict=False))
    return Spent(sum(values.values()), sum(values[name] for name in _WORK), _of_tree(proc, root or os.getpid()))


def _of_tree(proc: Path, root: int) -> int:
    """Ticks of a process and its living descendants, with those of children that they have waited for."""
    total, left = 0, [root]
    while left:
        pid = left.pop()
        with suppress(OSError, ValueError, IndexError):  # one that ended meanwhile is its parent's next time
            fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
            for task in (proc / str(pid) / "task").iterdir():
                left += map(int, (task / "children").read_text().split())
    return total


def _share(ticks: int, passed: int) -> float:
    return round(ticks / passed, 3)
