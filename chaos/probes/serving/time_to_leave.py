"""How long requests still went to a replica that was dead."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Duration, Probe, Scene
from chaos.history import Event
from chaos.probes.serving._requests import EVER


class TimeToLeave(Probe, frozen=True, kw_only=True):
    """Seconds from the end of the process of the replica that died last to the start of the last attempt that was made
    there before it came back; 0 where none was. Grows while traffic still goes there. No data before a replica died;
    one that was stopped at the end of the run, or that left with exit 0, did not die."""

    unit: ClassVar[str] = "s"
    every: Duration = 0.25

    async def sample(self, scene: Scene) -> float | None:
        died = [e for e in scene.recent("member.exited", EVER) if _died(e)]
        if not died:
            return None
        end = max(died, key=lambda e: e.t)
        name = end.get("member")
        back = [
            e.t for e in scene.recent("replica.ready", EVER) if name in (e.source, e.get("replica")) and e.t > end.t
        ]
        starts = [
            e.t - float(e.get("seconds") or 0)
            for e in scene.recent("attempt.completed", scene.now() - end.t + 1)
            if e.get("replica") == name
        ]
        after = [start - end.t for start in starts if end.t < start < min(back, default=EVER)]
        return max(after, default=0.0)


def _died(event: Event) -> bool:
    return event.get("role") == "replica" and not event.get("expected") and event.get("code") != 0
