"""How many requests of clients are answered."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Duration, Probe, Scene
from chaos.probes.serving._requests import ended, overdue


class Availability(Probe, frozen=True, kw_only=True):
    """Share of the requests that are answered (status 200, by whatever tier), over a sliding window. A request counts
    when it ends, or when its deadline goes by without an answer; a client's own mistakes do not. No data without any.

    Refused ones (429, 503) are not answered: `serving.error-rate` leaves those out that were shed on purpose.
    """

    unit: ClassVar[str] = "share"
    every: Duration = 0.25
    window: Duration = 1.0
    what: str | None = None
    priority: str | None = None

    async def sample(self, scene: Scene) -> float | None:
        known = ended(scene, self.window, what=self.what, priority=self.priority)
        late = overdue(scene, self.window, what=self.what, priority=self.priority)
        total = len(known) + len(late)
        return sum(e.get("status") == 200 for e in known) / total if total else None
