"""The model ladder: which tier answers, by tail latency, errors and queue; quickly down, slowly up."""

from __future__ import annotations

from typing import NamedTuple

from targets.serving.router.window import Clock, Window
from targets.serving.settings import TIERS

LEAST = 10  # answers in the window, before its latency and errors say anything
PATIENCE = 4.0  # times the hold, at most, where going up was too early


class Limits(NamedTuple):
    """Beyond any of them the ladder goes down."""

    p99: float
    errors: float
    queue: float

    def times(self, factor: float) -> Limits:
        return Limits(self.p99 * factor, self.errors * factor, self.queue * factor)


class Move(NamedTuple):
    """One rung down or up, with what it was decided by."""

    before: str
    after: str
    reason: str
    p99: float
    errors: float
    queue: int

    @property
    def down(self) -> bool:
        return TIERS.index(self.after) > TIERS.index(self.before)


class Ladder:
    """The rung on which the service stands.

    Each rung is judged by what was served on it: after a move the window starts over, so that one burst of bad answers
    is not taken for several. Who went up and had to come down again holds twice as long the next time.
    """

    def __init__(
        self, limits: Limits, *, lower: float, window: float, hold: float, clock: Clock, settle: float | None = None
    ) -> None:
        self._limits, self._lower = limits, limits.times(lower)
        self._hold = self._base = hold
        self._clock, self._window = clock, Window(window, clock)
        self._settle = window / 2 if settle is None else settle  # after a move down, until the next one
        self._rung = 0
        self._moved = self._fell = float("-inf")
        self._rose = float("-inf")
        self._calm: float | None = None  # since when everything is below the lower thresholds

    @property
    def tier(self) -> str:
        return TIERS[self._rung]

    @property
    def rung(self) -> int:
        """0 is the best."""
        return self._rung

    def ended(self, ok: bool, seconds: float) -> None:
        """A ranking request has ended, after that time at the replicas."""
        if self._clock() - seconds >= self._moved:  # else another rung answered it
            self._window.add(ok, seconds)

    def look(self, queue: int) -> Move | None:
        """Whether to move, now that so many requests wait."""
        known = self._window.count >= LEAST
        p99, errors = (self._window.tail(0.99), self._window.failed) if known else (0.0, 0.0)
        if reason := _beyond(self._limits, p99, errors, queue):
            self._calm = None
            fresh = self._clock() - self._fell >= self._settle
            return self._move(1, reason, p99, errors, queue) if fresh and self._rung + 1 < len(TIERS) else None
        if self._rung == 0 or _beyond(self._lower, p99, errors, queue):
            self._calm = None
            return None
        if self._calm is None:
            self._calm = self._clock()
        if self._clock() - self._calm < self._hold:
            return None
        return self._move(-1, "calm", p99, errors, queue)

    def _move(self, by: int, reason: str, p99: float, errors: float, queue: int) -> Move:
        before, now = self.tier, self._clock()
        if by < 0:
            self._rose = now
        else:
            early = now - self._rose < self._hold
            self._hold = min(self._hold * 2, self._base * PATIENCE) if early else self._base
            self._fell = now
        self._rung += by
        self._moved, self._calm = now, None
        self._window.clear()
        return Move(before, self.tier, reason, p99, errors, queue)


def _beyond(limits: Limits, p99: float, errors: float, queue: int) -> str:
    """Which limit is exceeded."""
    if p99 > limits.p99:
        return "p99"
    if errors > limits.errors:
        return "errors"
    return "queue" if queue > limits.queue else ""
