"""Whether this process itself was late: whoever did not look in time has no right to call others slow."""

from __future__ import annotations

from collections import deque

from targets.serving.router.window import Clock

KEPT = 10.0  # seconds


class Lag:
    """How late the tasks of this process ran, measured by one that should run at fixed times."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._late: deque[tuple[float, float]] = deque()
        self._due: float | None = None

    def expect(self, seconds: float) -> None:
        """The caller sleeps for so long, and calls `woke` then."""
        self._due = self._clock() + seconds

    def woke(self) -> None:
        """The sleep that was expected is over."""
        if self._due is not None:
            self._late.append((self._clock(), self._clock() - self._due))
            self._due = None
        while self._late and self._late[0][0] < self._clock() - KEPT:
            self._late.popleft()

    def since(self, began: float) -> float:
        """The longest delay since `began`, with one that lasts still."""
        longest = max((late for when, late in self._late if when >= began), default=0.0)
        return max(longest, self._clock() - self._due) if self._due is not None else longest
