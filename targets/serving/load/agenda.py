"""Which request is whose turn: what is not due yet, and what waits because every user is waiting for an answer.

Pure: the moment is handed in.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Iterator

from targets.serving.load.asks import Ask


class Agenda:
    """Requests come due at their intended start, whatever became of earlier ones, and leave in that order."""

    def __init__(self, asks: Iterator[Ask], end: float) -> None:
        """`asks` in order of their start. What would begin at `end` or later is not begun."""
        self._asks = asks
        self._end = end
        self._count = itertools.count()
        self._coming: list[tuple[float, int, Ask]] = []
        self._waiting: dict[float, deque[Ask]] = {}  # by deadline: so the first of each is the next to expire
        self._draw()

    def add(self, ask: Ask) -> None:
        """One more: the next turn of a session."""
        if ask.at < self._end:
            heapq.heappush(self._coming, (ask.at, next(self._count), ask))

    def come(self, now: float) -> list[Ask]:
        """What came due since it was asked last; it waits from now on."""
        due = []
        while self._coming and self._coming[0][0] <= now:
            _, number, ask = heapq.heappop(self._coming)
            if number < 0:
                self._draw()
            self._waiting.setdefault(ask.deadline, deque()).append(ask)
            due.append(ask)
        return due

    def expire(self, now: float) -> list[Ask]:
        """What waited until its deadline was over; it waits no more."""
        gone = []
        for line in self._waiting.values():
            while line and line[0].expires <= now:
                gone.append(line.popleft())
        return gone

    def take(self) -> Ask | None:
        """The one that has waited longest."""
        lines = [line for line in self._waiting.values() if line]
        return min(lines, key=lambda line: line[0].at).popleft() if lines else None

    def next(self) -> float | None:
        """When to look again: the next one that comes due or expires."""
        moments = [line[0].expires for line in self._waiting.values() if line]
        if self._coming:
            moments.append(self._coming[0][0])
        return min(moments, default=None)

    def _draw(self) -> None:
        # One of the arrivals at a time lies among the coming; negative numbers tell them from what was added.
        ask = next(self._asks, None)
        if ask is not None:
            heapq.heappush(self._coming, (ask.at, -1, ask))
