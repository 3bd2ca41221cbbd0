"""How long clients wait for an answer."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Duration, Probe, Ratio, Scene
from chaos.probes.serving._requests import ended, overdue, quantile

_REFUSED = (400, 429, 503)


class Latency(Probe, frozen=True, kw_only=True):
    """A quantile of the time from a request's intended start to its answer, over a sliding window. A request that got
    none counts with the time that its client has waited; one that was refused at once does not. No data without any.

    `quantile: 50%` is the median. The intended start is when the client wanted to send, not when it could.
    """

    unit: ClassVar[str] = "s"
    every: Duration = 0.25
    window: Duration = 1.0
    quantile: Ratio = 0.99
    what: str | None = "rank"
    priority: str | None = None

    async def sample(self, scene: Scene) -> float | None:
        known = ended(scene, self.window, what=self.what, priority=self.priority)
        waits = [float(e.get("latency")) for e in known if e.get("status") not in _REFUSED]
        late = overdue(scene, self.window, what=self.what, priority=self.priority)
        return quantile([*waits, *(scene.now() - e.t for e in late)], self.quantile)
