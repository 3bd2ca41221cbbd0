"""A probe, for tests."""

from __future__ import annotations

from chaos.api import Duration, Probe, Scene


class StepTime(Probe, frozen=True, kw_only=True):
    """Time of a step."""

    unit = "s"
    window: Duration = 2.0

    async def sample(self, scene: Scene) -> float | None:
        return None
