"""How much data the group trains on."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Duration, Probe, Scene
from chaos.probes.training._steps import COMPLETED, EVER


class Throughput(Probe, frozen=True, kw_only=True):
    """Samples per second of all ranks together, over a sliding window; 0 while the group stands still.

    No data before the first step, and until half a window of steps has been seen.
    """

    unit: ClassVar[str] = "samples/s"
    window: Duration = 2.0

    async def sample(self, scene: Scene) -> float | None:
        steps = scene.recent(COMPLETED, EVER)
        if not steps:
            return None
        now = scene.now()
        seen = min(self.window, now - steps[0].t)
        if seen < self.window / 2:
            return None
        total = 0
        for step in steps:
            if step.t > now - seen:
                samples = step.get("samples", 0)
                total += samples if isinstance(samples, int) else len(samples)
        return total / seen
