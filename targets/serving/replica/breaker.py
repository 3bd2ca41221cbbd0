"""A circuit breaker for the calls of the store that an answer can do without."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

CLOSED, OPEN, HALF_OPEN = "closed", "open", "half-open"
WINDOW: Final = 2.0  # seconds of calls that it judges by
RATE: Final = 0.5  # share of failures among them at which it opens …
LEAST: Final = 5  # … with at least as many calls


class Breaker:
    """closed → open → half-open with one trial → closed or open again."""

    def __init__(
        self, name: str, open_for: float, tell: Callable[..., None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name, self.state = name, CLOSED
        self._open_for, self._tell, self._clock = open_for, tell, clock
        self._calls: deque[tuple[float, bool]] = deque()
        self._opened = 0.0
        self._trying = False

    def allows(self) -> bool:
        """Whether to call; who is allowed says afterwards how it went."""
        if self.state == OPEN and self._clock() - self._opened >= self._open_for:
            self.state = HALF_OPEN
            self._tell("breaker.half_opened", name=self.name, reason="one trial")
        if self.state == HALF_OPEN:
            allowed, self._trying = not self._trying, True
            return allowed
        return self.state == CLOSED

    def succeeded(self) -> None:
        """A call was answered in time."""
        if self.state == HALF_OPEN:
            self.state, self._trying = CLOSED, False
            self._calls.clear()
            self._tell("breaker.closed", name=self.name, reason="the trial was answered")
        elif self.state == CLOSED:
            self._count(ok=True)

    def failed(self, reason: str) -> None:
        """A call was not, or too late."""
        if self.state == HALF_OPEN:
            self._open(reason)
        elif self.state == CLOSED:
            self._count(ok=False)
            failures = sum(not ok for _, ok in self._calls)
            if len(self._calls) >= LEAST and failures >= RATE * len(self._calls):
                self._open(reason)

    def _count(self, *, ok: bool) -> None:
        now = self._clock()
        self._calls.append((now, ok))
        while self._calls[0][0] < now - WINDOW:
            self._calls.popleft()

    def _open(self, reason: str) -> None:
        self.state, self._opened, self._trying = OPEN, self._clock(), False
        self._calls.clear()
        self._tell("breaker.opened", name=self.name, reason=reason)
