"""How many answers come in time."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Duration, Probe, Scene
from chaos.probes.serving._requests import EVER, SENT, answered


class Goodput(Probe, frozen=True, kw_only=True):
    """Answers within their deadline per second, over a sliding window; an answer that is known to be wrong is none.

    0 while there are none; no data before half a window of requests has been seen.
    """

    unit: ClassVar[str] = "answers/s"
    every: Duration = 0.25
    window: Duration = 1.0
    what: str | None = "rank"
    priority: str | None = None

    async def sample(self, scene: Scene) -> float | None:
        sent = scene.recent(SENT, EVER)
        if not sent:
            return None
        seen = min(self.window, scene.now() - sent[0].t)
        if seen < self.window / 2:
            return None
        found = answered(scene, seen, what=self.what, priority=self.priority)
        good = [e for e in found if e.get("latency") <= e.get("deadline") and e.get("right") is not False]
        return len(good) / seen
