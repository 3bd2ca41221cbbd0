"""How long requests still went to a replica that was dead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from chaos.api import Duration, Probe, Scene
from chaos.history import Event
from chaos.probes.serving._requests import EVER


class TimeToLeave(Probe, frozen=True, kw_only=True):
    """Seconds from the end of the process of the replica that died last to the start of the last attempt that was made
    there before it came back; 0 where none was. Grows while traffic still goes there. No data before a replica died;
    one that was stopped at the end of the run, or that left with exit 0, did not die.

    With `replica: NAME` from the landing of the last fault instead, for a replica that is frozen, cut off or wrong and
    does not die; it is back once that fault is healed. The trial of a breaker is an attempt, too.
    """

    unit: ClassVar[str] = "s"
    every: Duration = 0.25
    replica: str | None = None

    async def sample(self, scene: Scene) -> float | None:
        if self.replica is None:
            ends = [e for e in scene.recent("member.exited", EVER) if _died(e)]
        else:
            ends = list(scene.recent("fault.landed", EVER))
        if not ends:
            return None
        end = max(ends, key=lambda e: e.t)
        name = self.replica or end.get("member")
        starts = [
            e.t - float(e.get("seconds") or 0)
            for e in scene.recent("attempt.completed", scene.now() - end.t + 1)
            if e.get("replica") == name
        ]
        back = min(self._returns(scene, name, end), default=EVER)
        return max((start - end.t for start in starts if end.t < start < back), default=0.0)

    def _returns(self, scene: Scene, name: str, end: Event) -> Iterator[float]:
        for event in scene.recent("replica.ready", EVER):
            if name in (event.source, event.get("replica")) and event.t > end.t:
                yield event.t
        for event in scene.recent("fault.healed", EVER):
            if self.replica is not None and event.source == end.source and event.t > end.t:
                yield event.t


def _died(event: Event) -> bool:
    return event.get("role") == "replica" and not event.get("expected") and event.get("code") != 0
