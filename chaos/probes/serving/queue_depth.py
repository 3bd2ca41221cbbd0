"""How many requests wait inside the service."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Duration, Probe, Scene
from chaos.history import Event


class QueueDepth(Probe, frozen=True, kw_only=True):
    """Requests that wait at the router and at its replicas together, or at those of `role` alone: by what each said
    last in a sliding window. No data while all are silent."""

    unit: ClassVar[str] = "requests"
    every: Duration = 0.25
    window: Duration = 2.0
    role: str | None = None

    async def sample(self, scene: Scene) -> float | None:
        last: dict[str, Event] = {}
        for role, kind in (("router", "router.usage"), ("replica", "replica.usage")):
            if self.role in (None, role):
                last |= {event.source: event for event in scene.recent(kind, self.window)}
        return sum(event.get("queue") or 0 for event in last.values()) if last else None
