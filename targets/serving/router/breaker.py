"""A circuit breaker: closed, open, half-open with one trial."""

from __future__ import annotations

from typing import Final

from targets.serving.router.window import Clock

CLOSED: Final = "closed"
OPEN: Final = "open"
HALF_OPEN: Final = "half-open"


class Breaker:
    """One replica's. Says when it should open; opening is left to who knows of the other replicas."""

    def __init__(self, *, failures: int, open_for: float, clock: Clock) -> None:
        self._threshold, self._open_for, self._clock = failures, open_for, clock
        self._state = CLOSED
        self._in_a_row = 0
        self._until = 0.0
        self._trial = False
        self.reason = ""

    @property
    def state(self) -> str:
        return self._state

    @property
    def should_open(self) -> bool:
        """Closed, with too many failures in a row."""
        return self._state == CLOSED and self._in_a_row >= self._threshold

    @property
    def wants_trial(self) -> bool:
        """Half-open, and no trial is on its way."""
        return self._state == HALF_OPEN and not self._trial

    def open(self, reason: str) -> None:
        """Let nothing through for a while."""
        self._state, self.reason, self._trial = OPEN, reason, False
        self._until = self._clock() + self._open_for

    def forget(self) -> None:
        """Count from nothing."""
        self._in_a_row = 0

    def look(self) -> bool:
        """Whether the time has come that makes an open one half-open."""
        if self._state != OPEN or self._clock() < self._until:
            return False
        self._state, self._trial = HALF_OPEN, False
        return True

    def begin_trial(self) -> None:
        """The one request of a half-open breaker is on its way."""
        self._trial = True

    def succeeded(self, *, trial: bool) -> bool:
        """An attempt went well; whether that closes the breaker."""
        self._in_a_row = 0
        if not trial or self._state != HALF_OPEN:
            return False
        self._state, self._trial = CLOSED, False
        return True

    def failed(self, *, trial: bool, counts: bool = True) -> bool:
        """An attempt failed; whether that ends a trial, so that the breaker must open again.

        One that does not count may be nobody's fault here.
        """
        self._in_a_row += counts
        return trial and self._state == HALF_OPEN

    def neither(self, *, trial: bool) -> None:
        """An attempt that says nothing of the replica, as one that its client gave up."""
        if trial:
            self._trial = False
