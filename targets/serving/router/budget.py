"""How often a request may be tried again: its own attempts, and one budget for all requests together."""

from __future__ import annotations


class Budget:
    """A token bucket: each request pays in `ratio`, each retry takes 1. It holds at most `burst`, and begins full."""

    def __init__(self, *, ratio: float, burst: int) -> None:
        self._ratio, self._burst = ratio, float(burst)
        self._tokens = self._burst

    @property
    def tokens(self) -> float:
        return self._tokens

    @property
    def allows(self) -> bool:
        return self._tokens >= 1

    def request(self) -> None:
        """A request came, that pays its share."""
        self._tokens = min(self._tokens + self._ratio, self._burst)

    def take(self) -> bool:
        """One retry, if the budget allows it."""
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Attempts:
    """The attempts of one request."""

    def __init__(self, budget: Budget, *, limit: int, unbounded: bool = False) -> None:
        self._budget, self._limit, self._unbounded = budget, limit, unbounded
        self.made = 0
        self._charged = 0
        budget.request()

    @property
    def another(self) -> bool:
        """Whether one more may follow the one that runs, or is to run, as things stand."""
        return self._unbounded or (self._charged + 1 < self._limit and self._budget.allows)

    def begin(self) -> int:
        """The number of the attempt that begins."""
        self.made += 1
        return self.made

    def again(self, *, free: bool) -> bool:
        """After an attempt that failed: whether to try again; `free` costs neither an attempt nor the budget.

        An attempt is free that was refused before it began: the replica drains.
        """
        if free or self._unbounded:
            return True
        if self._charged + 1 >= self._limit or not self._budget.take():
            return False
        self._charged += 1
        return True
