"""Who is silent, and who makes no progress. Pure: the clock is handed in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from statistics import pstdev
from typing import NamedTuple

from targets.trainer import defects
from targets.trainer.settings import Settings

WINDOW = 32  # gaps that σ is measured over
SHORT_STALL = 0.4  # of the defect short-timeout: less than a checkpoint takes


class Silence(NamedTuple):
    """A member that has not been heard of."""

    member: str
    seconds: float
    confirmed: bool  # False: suspected


class _Pulse:
    def __init__(self, now: float) -> None:
        self.last, self.suspected = now, False
        self.gaps: deque[float] = deque(maxlen=WINDOW)

    def beat(self, now: float) -> None:
        self.gaps.append(now - self.last)
        self.last, self.suspected = now, False


class Heartbeats:
    """Two stages: suspected after `H + kσ` of silence, confirmed after `member_ttl`, by when its lease has run out.

    σ is that of the member's own last gaps: one on a busy machine is given more time. Floor and ceiling bound it.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._settings, self._clock = settings, clock
        self._pulses: dict[str, _Pulse] = {}

    def watch(self, member: str) -> None:
        """Expect heartbeats of `member` from now on."""
        self._pulses[member] = _Pulse(self._clock())

    def forget(self, member: str) -> None:
        """Expect nothing of `member` any more."""
        self._pulses.pop(member, None)

    def beat(self, member: str) -> None:
        """`member` was heard."""
        if member in self._pulses:
            self._pulses[member].beat(self._clock())

    def patience(self, member: str) -> float:
        """Seconds of silence after which `member` is suspected."""
        s, gaps = self._settings, self._pulses[member].gaps
        adaptive = s.heartbeat + s.suspect_k * (pstdev(gaps) if len(gaps) > 1 else 0.0)
        return min(max(adaptive, s.suspect_floor), s.suspect_ceiling)

    def quiet(self, member: str) -> bool:
        """Whether `member` has not been heard for longer than is usual for it."""
        pulse = self._pulses.get(member)
        return pulse is not None and self._clock() - pulse.last >= self.patience(member)

    def silent(self) -> list[Silence]:
        """Those newly suspected, and those confirmed: the latter are named until they are forgotten."""
        if defects.active(self._settings, defects.NO_DETECTION):
            return []
        found, now = [], self._clock()
        for member, pulse in list(self._pulses.items()):
            seconds = now - pulse.last
            if seconds >= self._settings.member_ttl:
                found.append(Silence(member, seconds, True))
            elif not pulse.suspected and seconds >= self.patience(member):
                pulse.suspected = True
                found.append(Silence(member, seconds, False))
        return found


class _Mark(NamedTuple):
    step: int
    phase: str
    since: float
    first: bool  # no step completed yet


class Progress:
    """Whether each rank gets on. What is allowed depends on the phase: a long healthy checkpoint is no failure."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._settings, self._clock = settings, clock
        self._marks: dict[int, _Mark] = {}

    def restart(self) -> None:
        """A new incarnation begins."""
        self._marks.clear()

    def note(self, rank: int, step: int, phase: str) -> None:
        """What a rank said of itself. Anything new is progress."""
        known = self._marks.get(rank)
        if known is None or (known.step, known.phase) != (step, phase):
            first = known is None or (known.first and step == known.step) or phase in ("starting", "loading")
            self._marks[rank] = _Mark(step, phase, self._clock(), first)

    def forgive(self) -> None:
        """Count the time without progress from now on."""
        now = self._clock()
        self._marks = {rank: mark._replace(since=now) for rank, mark in self._marks.items()}

    def stalled(self) -> tuple[int, float] | None:
        """Once every rank is over its time: the one furthest behind, and for how many seconds it has stood."""
        if not self._marks or defects.active(self._settings, defects.NO_DETECTION):
            return None
        now = self._clock()
        if defects.active(self._settings, defects.SHORT_TIMEOUT):
            hasty = [rank for rank, mark in self._marks.items() if not mark.first and now - mark.since > SHORT_STALL]
            return (hasty[0], SHORT_STALL) if hasty else None
        if any(now - mark.since <= self._allowed(mark) for mark in self._marks.values()):
            return None
        mark, rank = min((mark, rank) for rank, mark in self._marks.items())
        return rank, now - mark.since

    def _allowed(self, mark: _Mark) -> float:
        if mark.phase == "saving":
            return self._settings.stall_checkpoint
        return self._settings.stall_start if mark.first else self._settings.stall
