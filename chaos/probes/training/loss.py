"""What the model still gets wrong."""

from __future__ import annotations

from statistics import fmean
from typing import ClassVar

from chaos.api import Duration, Probe, Scene
from chaos.probes.training._steps import of_one_rank


class Loss(Probe, frozen=True, kw_only=True):
    """Mean training loss over a sliding window. No data without a step in it; NaN stays NaN, which meets no bound."""

    unit: ClassVar[str] = "loss"
    window: Duration = 5.0

    async def sample(self, scene: Scene) -> float | None:
        losses = [float(step.get("loss")) for step in of_one_rank(scene, self.window) if step.get("loss") is not None]
        return fmean(losses) if losses else None
