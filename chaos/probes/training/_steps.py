"""What the training probes share: the steps that were completed lately."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.api import Scene
from chaos.history import Event

COMPLETED = "step.completed"
EVER = float("inf")


def of_one_rank(scene: Scene, seconds: float) -> Sequence[Event]:
    """Steps of the lowest rank that completed any in the last `seconds`: one clock for the whole group."""
    events = scene.recent(COMPLETED, seconds)
    lowest = min((e.get("rank", 0) for e in events), default=0)
    return [e for e in events if e.get("rank", 0) == lowest]
