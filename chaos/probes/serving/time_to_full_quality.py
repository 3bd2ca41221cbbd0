"""How long until clients got again what they got before."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar

from chaos.api import Duration, Probe, Ratio, Scene
from chaos.history import Event
from chaos.probes.serving._requests import COMPLETED, EVER, overdue

_LANDED = "fault.landed"


class TimeToFullQuality(Probe, frozen=True, kw_only=True):
    """Seconds from the landing of the first fault until requests were again answered in full: right, in time, by the
    primary model with live features. Of those that end within `quiet`, a share of `tolerate` may lack something, as
    may happen on any day. Grows until that has been so for `quiet`. A client's own mistakes do not count. No data
    before a fault, without requests since, or once those are no longer kept.
    """

    unit: ClassVar[str] = "s"
    every: Duration = 0.25
    quiet: Duration = 1.0
    tolerate: Ratio = 0.05

    async def sample(self, scene: Scene) -> float | None:
        landed = scene.recent(_LANDED, EVER)
        if not landed:
            return None
        begin, now = landed[0].t, scene.now()
        known = scene.recent(COMPLETED, EVER)
        since = [e for e in known if e.t >= begin]
        if not since:
            return None
        last = self._last_dent([e for e in since if not e.get("wrong")])
        if now - (last or begin) < self.quiet or overdue(scene, self.quiet):
            return now - begin
        if last is None:
            return 0.0 if known[0].t < begin else None  # what came first after the fault is not kept any more
        return last - begin

    def _last_dent(self, requests: Sequence[Event]) -> float | None:
        """When the last request ended that lacked something, and with it too many around it."""
        ended = sorted((e.t, not full(e)) for e in requests)
        times, lacking = [t for t, _ in ended], [0, *accumulate(bad for _, bad in ended)]
        for t, bad in reversed(ended):
            if bad:
                first, end = bisect_left(times, t - self.quiet / 2), bisect_right(times, t + self.quiet / 2)
                if lacking[end] - lacking[first] > self.tolerate * (end - first):
                    return t
        return None


def full(answer: Event) -> bool:
    """Whether this `request.completed` is as good as it can be."""
    d = answer.data
    if d.get("status") != 200 or d.get("right") is False or d.get("missing") or d.get("repeated"):
        return False
    if d["latency"] > d["deadline"]:
        return False
    return d.get("tier", "primary") == "primary" and all(how == "live" for how in (d.get("features") or {}).values())
