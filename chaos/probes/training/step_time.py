"""How long a step takes."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import ClassVar

from chaos.api import Duration, Probe, Scene
from chaos.probes.training._steps import of_one_rank


class StepTime(Probe, frozen=True, kw_only=True):
    """Median seconds from one step to the next, over a sliding window. No data with fewer than two steps in it."""

    unit: ClassVar[str] = "s"
    window: Duration = 5.0

    async def sample(self, scene: Scene) -> float | None:
        moments = [step.t for step in of_one_rank(scene, self.window)]
        gaps = [later - earlier for earlier, later in pairwise(moments)]
        return median(gaps) if gaps else None
