"""How long until clients got again what they got before."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Duration, Probe, Scene
from chaos.history import Event
from chaos.probes.serving._requests import COMPLETED, EVER, overdue

_LANDED = "fault.landed"


class TimeToFullQuality(Probe, frozen=True, kw_only=True):
    """Seconds from the landing of the first fault to the last request after it that was not answered in full: right, in
    time, by the primary model with live features. Grows until nothing less has been seen for `quiet`. A client's own
    mistakes do not count. No data before a fault, without requests since, or once those are no longer kept.
    """

    unit: ClassVar[str] = "s"
    every: Duration = 0.25
    quiet: Duration = 1.0

    async def sample(self, scene: Scene) -> float | None:
        landed = scene.recent(_LANDED, EVER)
        if not landed:
            return None
        begin, now = landed[0].t, scene.now()
        known = scene.recent(COMPLETED, EVER)
        since = [e for e in known if e.t >= begin]
        if not since:
            return None
        last = next((e.t for e in reversed(since) if not e.get("wrong") and not full(e)), None)
        if now - (last or begin) < self.quiet or overdue(scene, self.quiet):
            return now - begin
        if last is None:
            return 0.0 if known[0].t < begin else None  # what came first after the fault is not kept any more
        return last - begin


def full(answer: Event) -> bool:
    """Whether this `request.completed` is as good as it can be."""
    d = answer.data
    if d.get("status") != 200 or d.get("right") is False or d.get("missing") or d.get("repeated"):
        return False
    if d["latency"] > d["deadline"]:
        return False
    return d.get("tier", "primary") == "primary" and all(how == "live" for how in (d.get("features") or {}).values())
