"""How many answers are wrong."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Duration, Probe, Scene
from chaos.probes.serving._requests import COMPLETED


class WrongAnswers(Probe, frozen=True, kw_only=True):
    """Answers that differ from those of the golden model, in a sliding window, a client's mistakes that were answered
    included. No data where none was compared."""

    unit: ClassVar[str] = "answers"
    every: Duration = 0.25
    window: Duration = 1.0

    async def sample(self, scene: Scene) -> float | None:
        compared = [right for e in scene.recent(COMPLETED, self.window) if (right := e.get("right")) is not None]
        return compared.count(False) if compared else None
