"""What a request costs the service."""

from __future__ import annotations

from statistics import fmean
from typing import ClassVar

from chaos.api import Duration, Probe, Scene
from chaos.probes.serving._requests import ended


class Attempts(Probe, frozen=True, kw_only=True):
    """Attempts at replicas for one request of a client, on average over a sliding window: 1 without retries. No data
    without a request whose answer tells."""

    unit: ClassVar[str] = "attempts"
    every: Duration = 0.25
    window: Duration = 1.0
    what: str | None = None

    async def sample(self, scene: Scene) -> float | None:
        told = [e.get("attempts") for e in ended(scene, self.window, what=self.what)]
        known = [float(n) for n in told if n is not None]
        return fmean(known) if known else None
