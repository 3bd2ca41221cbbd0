"""How long clients wait for an answer."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Duration, Probe, Ratio, Scene
from chaos.history import Event
from chaos.probes.serving._requests import EVER, ended, overdue, quantile

_REFUSED = (429, 503)
_AT_ONCE = 0.5  # of its deadline: who was refused later has waited


class Latency(Probe, frozen=True, kw_only=True):
    """A quantile of the time from a request's intended start to its answer, over a sliding window. A request that got
    none counts with the time that its client has waited; one that was refused at once, before half of its deadline was
    over, does not. No data without any.

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
        waits = [float(e.get("latency")) for e in known if not _refused_at_once(e)]
        late = overdue(scene, self.window, what=self.what, priority=self.priority)
        return quantile([*waits, *(scene.now() - e.t for e in late)], self.quantile)


def _refused_at_once(event: Event) -> bool:
    return event.get("status") in _REFUSED and event.get("latency") <= _AT_ONCE * (event.get("deadline") or EVER)
