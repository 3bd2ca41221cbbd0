"""What degraded answers cost."""

from __future__ import annotations

from statistics import fmean
from typing import ClassVar

from chaos.api import Duration, Probe, Scene
from chaos.probes.serving._requests import answered


class QualityGap(Probe, frozen=True, kw_only=True):
    """How much worse than the primary model with live features the answers were that something else gave, on average
    over a sliding window: the share of the value of the best items that they do not put first. With `all: true` on
    average over all compared answers, those of the primary with 0. No data without such an answer.
    """

    unit: ClassVar[str] = "share"
    every: Duration = 0.25
    window: Duration = 1.0
    all: bool = False

    async def sample(self, scene: Scene) -> float | None:
        found = answered(scene, self.window, what="rank")
        gaps = [float(e.get("gap_to_primary")) for e in found if e.get("gap_to_primary") is not None]
        if self.all:
            gaps += [0.0 for e in found if e.get("gap_to_primary") is None and e.get("right")]
        return fmean(gaps) if gaps else None
