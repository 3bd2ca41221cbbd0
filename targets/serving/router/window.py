"""What ended within the last seconds: its share of failures, and quantiles of its times."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

Clock = Callable[[], float]


class Window:
    """Results of the last `seconds` by `clock`."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds, self._clock = seconds, clock
        self._results: deque[tuple[float, bool, float]] = deque()
        self._failed = 0

    def add(self, ok: bool, seconds: float = 0.0) -> None:
        """One more result, now."""
        self._results.append((self._clock(), ok, seconds))
        self._failed += not ok
        self._forget()

    def clear(self) -> None:
        """Forget everything."""
        self._results.clear()
        self._failed = 0

    @property
    def count(self) -> int:
        self._forget()
        return len(self._results)

    @property
    def failed(self) -> float:
        """Share of the results that are failures; 0 without any."""
        self._forget()
        return self._failed / len(self._results) if self._results else 0.0

    def tail(self, q: float) -> float:
        """The quantile of the times of what went well; the single slowest is no tail, however few there are."""
        self._forget()
        times = sorted(seconds for _, ok, seconds in self._results if ok)
        return times[max(min(math.ceil(q * len(times)) - 1, len(times) - 2), 0)] if times else 0.0

    def _forget(self) -> None:
        before = self._clock() - self._seconds
        while self._results and self._results[0][0] < before:
            self._failed -= not self._results.popleft()[1]
