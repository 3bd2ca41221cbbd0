"""In what state a feature tier is at this replica: down at once, up only after a while without a single fallback."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from targets.serving.models.features import LIVE

HOLD: Final = 0.5  # seconds without a fallback, until a tier counts as live again
PATHS: Final = {"default": "features.default", "cached": "features.cached", "omitted": "features.omitted"}

Told = Callable[[str, str, str, str], None]  # tier, before, after, reason


class Moves:
    """Tells of each change of a tier, not of each request."""

    def __init__(self, told: Told, clock: Callable[[], float] = time.monotonic) -> None:
        self._told, self._clock = told, clock
        self._state: dict[str, str] = {}
        self._fell: dict[str, float] = {}

    def saw(self, tier: str, state: str, reason: str) -> None:
        """How a tier was answered for just now."""
        before = self._state.get(tier, LIVE)
        now = self._clock()
        if state != LIVE:
            self._fell[tier] = now
        elif before == LIVE or now - self._fell[tier] < HOLD:
            return
        if state != before:
            self._state[tier] = state
            self._told(tier, before, state, reason if state != LIVE else "answered in time")
