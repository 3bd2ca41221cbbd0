"""Shifted wall clocks of members, by the clock functions in their own memory."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Protocol, cast

import anyio
from anyio.abc import TaskGroup

from chaos.api import JSON, Member, Signals, Stage
from chaos.capabilities import Clocks
from chaos.drivers.process import vdso
from chaos.drivers.process.fittings.base import Face, Fitting
from chaos.drivers.process.recipe import Recipe
from chaos.drivers.process.supervisor import Supervisor
from chaos.errors import HealFailed, NotLanded, Unsupported

STILL_WITHIN = 5.0  # seconds for a process to stop, as the kernel sees it
TRIES = 50  # when a thread is in the way


class _Target(Signals, Protocol):
    def members(self) -> tuple[Member, ...]: ...


class ClockFace(Face):
    """Implements Clocks."""

    async def shift_clock(self, member: Member, seconds: float) -> JSON:
        return await self.fitting(Clock).shift(cast(_Target, self), member, seconds)

    async def true_clock(self, member: Member) -> JSON:
        return await self.fitting(Clock).mend(cast(_Target, self), member)

    def clock_ahead(self, member: Member) -> float:
        return self.fitting(Clock).ahead(member)


class Clock(Fitting):
    """Needs nothing of a member but that we may write to its memory, which is tried on a process of our own."""

    name = "clock"
    capability = Clocks
    face = ClockFace

    def __init__(self, recipe: Recipe, stage: Stage) -> None:
        super().__init__(recipe, stage)
        self._image: vdso.Image | None = None
        self._stamps = count(secrets.randbits(48) << 8 | 1)
        self._shifted: dict[int, int] = {}  # process id -> its stamp

    @property
    def image(self) -> vdso.Image:
        assert self._image is not None
        return self._image

    async def set_up(self, supervisor: Supervisor, tasks: TaskGroup) -> str:
        self._image = await anyio.to_thread.run_sync(vdso.try_it)
        return "the clock functions of the kernel (vDSO), replaced in a member's memory"

    def ahead(self, member: Member) -> float:
        return vdso.ahead(member.pid, self.image)

    async def shift(self, target: _Target, member: Member, seconds: float) -> JSON:
        """The first time the process is stopped for a moment; afterwards one number is written."""
        pid = member.pid
        if pid in self._shifted:
            vdso.write_shift(pid, self.image, seconds)
            return {"member": member.name, "pid": pid, "ahead": self.ahead(member)}
        if vdso.stamp(pid, self.image):
            raise NotLanded(f"the clock of {member.name} is shifted already: it was forked by one whose clock is")
        stamp = next(self._stamps)
        self._shifted[pid] = stamp
        try:
            await _still(member, lambda: vdso.replace(pid, self.image, seconds, stamp))
            return {"member": member.name, "pid": pid, "ahead": self.ahead(member)}
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.mend(target, member)
            raise

    async def mend(self, target: _Target, member: Member) -> JSON:
        """It, and whatever it has forked meanwhile. `asked`: how often they were told another time; not known of one
        that has gone."""
        stamp = self._shifted.get(member.pid)
        if stamp is None:
            return {"member": member.name, "ahead": 0.0}
        failures: list[tuple[Member, Exception]] = []
        mended: list[str] = []
        asked = 0
        for one in (member, *self._heirs(target, member, stamp)):
            try:
                with suppress(NotLanded):  # it has gone
                    if vdso.stamp(one.pid, self.image) != stamp:
                        continue
                    vdso.write_shift(one.pid, self.image, 0.0)  # nothing stands before it
                    asked += vdso.asked(one.pid, self.image)
                    await _still(one, lambda one=one: vdso.put_back(one.pid, self.image))  # type: ignore[misc]
                    mended.append(one.name)
            except (OSError, Unsupported) as error:
                failures.append((one, error))
        for one, why in failures:
            raise HealFailed(f"the clock of {one.name} may still be shifted: {why}", f"kill -KILL {one.pid}") from why
        del self._shifted[member.pid]
        try:
            ahead = self.ahead(member)
            return {"member": member.name, "pid": member.pid, "mended": mended, "ahead": ahead, "asked": asked}
        except NotLanded:
            return {"member": member.name, "pid": member.pid, "mended": mended, "gone": True}

    def _heirs(self, target: _Target, member: Member, stamp: int) -> Iterator[Member]:
        """Processes that it forked while it was shifted, members or not."""
        known = {m.pid: m for m in target.members()}
        for pid in (set(known) | _descendants({*known, member.pid})) - {member.pid}:
            with suppress(NotLanded, Unsupported, OSError):
                if vdso.stamp(pid, self.image) == stamp:
                    yield known.get(pid) or Member(name=f"process {pid}", role="", pid=pid)


async def _still(member: Member, change: Callable[[], None]) -> None:
    """Change a process while all of its threads stand still; one that stood still before is left so."""
    try:
        process = os.pidfd_open(member.pid)
    except ProcessLookupError as error:
        raise NotLanded(f"{member.name} (process {member.pid}) has gone") from error
    try:
        for _ in range(TRIES):
            stopped = _state(member.pid) == "T"
            if not stopped:
                _signal(process, signal.SIGSTOP)
            try:
                with anyio.CancelScope(shield=True):
                    await _until_still(member)
                change()
                return
            except vdso.Caught:
                pass
            finally:
                if not stopped:
                    _signal(process, signal.SIGCONT)
            await anyio.sleep(0.001)
    finally:
        os.close(process)
    raise NotLanded(f"a thread of {member.name} was in the way {TRIES} times")


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(process, number)


async def _until_still(member: Member) -> None:
    with anyio.move_on_after(STILL_WITHIN):
        while (state := _state(member.pid)) != "T":
            if state in "XZ":
                raise NotLanded(f"{member.name} (process {member.pid}) has gone")
            await anyio.sleep(0.0005)
        return
    raise NotLanded(f"{member.name} did not stop within {STILL_WITHIN:g} s")


def _state(pid: int) -> str:
    """`T` once all threads stand still."""
    letters = ""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            letters += Path(f"/proc/{pid}/task/{thread}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X" if not letters else "R"
    return "T" if set(letters) <= {"T", "t"} else letters.strip("Tt")[:1]


def _descendants(roots: set[int]) -> set[int]:
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError, IndexError):
            parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in roots | found} - found:
        found |= more
    return found - roots
