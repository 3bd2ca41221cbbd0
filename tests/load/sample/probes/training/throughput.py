"""A probe, for tests."""

from __future__ import annotations

from chaos.api import Duration, Probe, Scene


class Throughput(Probe, frozen=True, kw_only=True):
    """Samples of the group per second."""

    unit = "samples/s"
    window: Duration = 2.0

    async def sample(self, scene: Scene) -> float | None:
        return None
