"""How many requests of clients come to nothing."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Duration, Probe, Scene
from chaos.probes.serving._requests import ended, overdue

_SHED = 429


class ErrorRate(Probe, frozen=True, kw_only=True):
    """Share of the requests that end in an error, or in nothing, over a sliding window: no answer at all, a 5xx, or a
    deadline that went by. What was shed on purpose (429) is an error only with `shed: true`; a client's own mistakes
    never are. No data without any request.
    """

    unit: ClassVar[str] = "share"
    every: Duration = 0.25
    window: Duration = 1.0
    what: str | None = None
    priority: str | None = None
    shed: bool = False

    async def sample(self, scene: Scene) -> float | None:
        known = ended(scene, self.window, what=self.what, priority=self.priority)
        late = overdue(scene, self.window, what=self.what, priority=self.priority)
        total = len(known) + len(late)
        fine = (200,) if self.shed else (200, _SHED)
        return (sum(e.get("status") not in fine for e in known) + len(late)) / total if total else None
