"""How far training has come."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Probe, Scene
from chaos.probes.training._steps import COMPLETED, EVER


class Progress(Probe, frozen=True, kw_only=True):
    """The step that was completed last; a rollback takes it back. No data before the first."""

    unit: ClassVar[str] = "steps"

    async def sample(self, scene: Scene) -> float | None:
        steps = scene.recent(COMPLETED, EVER)
        return steps[-1].get("step") if steps else None
