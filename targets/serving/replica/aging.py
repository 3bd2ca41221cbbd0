"""A cache whose entries get old instead of vanishing: the old ones are what there is when nothing newer can be had."""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

JITTER = 0.2  # of the time to live, either way: what was cached together does not expire together


class Aging(Generic[K, V]):
    """Keeps the `most` newest entries."""

    def __init__(
        self, lives: float, most: int, clock: Callable[[], float] = time.monotonic, dice: random.Random | None = None
    ) -> None:
        self._lives, self._most, self._clock, self._dice = lives, most, clock, dice or random.Random()
        self._kept: OrderedDict[K, tuple[V, float, float]] = OrderedDict()  # value, since when, until when

    def put(self, key: K, value: V) -> None:
        now = self._clock()
        until = now + self._lives * self._dice.uniform(1 - JITTER, 1 + JITTER)
        self._kept[key] = (value, now, until)
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def fresh(self, key: K) -> V | None:
        """What has not expired yet."""
        kept = self._kept.get(key)
        return kept[0] if kept is not None and self._clock() < kept[2] else None

    def any(self, key: K) -> tuple[V, float] | None:
        """Whatever there is, and its age."""
        kept = self._kept.get(key)
        return (kept[0], self._clock() - kept[1]) if kept is not None else None

    def __len__(self) -> int:
        return len(self._kept)
