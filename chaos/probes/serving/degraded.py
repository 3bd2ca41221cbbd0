"""How many answers are not the best there could be."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Duration, Probe, Scene
from chaos.history import Event
from chaos.probes.serving._requests import answered

PRIMARY = "primary"
LIVE = "live"


class Degraded(Probe, frozen=True, kw_only=True):
    """Share of the ranking answers of a lower tier of the model ladder, over a sliding window; with `tier` of that one
    alone. With `features: true` also those of the primary model for which a feature was a default, old or left out.
    No data without an answer.
    """

    unit: ClassVar[str] = "share"
    every: Duration = 0.25
    window: Duration = 1.0
    tier: str | None = None
    features: bool = False

    async def sample(self, scene: Scene) -> float | None:
        found = answered(scene, self.window, what="rank")
        return sum(map(self._is, found)) / len(found) if found else None

    def _is(self, answer: Event) -> bool:
        if self.tier is not None:
            return bool(answer.get("tier") == self.tier)
        used = answer.get("features") or {}
        return answer.get("tier") != PRIMARY or (self.features and any(how != LIVE for how in used.values()))
