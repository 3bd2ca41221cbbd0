"""How long clients wait until an answer begins."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Duration, Probe, Ratio, Scene
from chaos.probes.serving._requests import ended, quantile


class FirstToken(Probe, frozen=True, kw_only=True):
    """A quantile of the time from the intended start of a turn to its first token, of the streams that ended in a
    sliding window. No data without one."""

    unit: ClassVar[str] = "s"
    every: Duration = 0.25
    window: Duration = 2.0
    quantile: Ratio = 0.99

    async def sample(self, scene: Scene) -> float | None:
        streams = ended(scene, self.window, what="generate")
        return quantile((float(e.get("first")) for e in streams if e.get("first") is not None), self.quantile)
