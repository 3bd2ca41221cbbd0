"""A probe, for tests."""

from __future__ import annotations

from chaos.api import Duration, Probe, Scene


class Memory(Probe, frozen=True, kw_only=True):
    """Share of memory in use."""

    unit = "ratio"
    window: Duration = 2.0

    async def sample(self, scene: Scene) -> float | None:
        return None
