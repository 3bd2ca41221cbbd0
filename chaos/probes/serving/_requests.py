"""What the serving probes share: the requests of clients that ended lately, or should have.

A client's own mistakes are left out everywhere: what it is answered says nothing of the service.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from chaos.api import Scene
from chaos.history import Event

SENT = "request.sent"
COMPLETED = "request.completed"
EVER = float("inf")
_PATIENCE = 60.0  # seconds: no client has a longer deadline


def ended(scene: Scene, window: float, *, what: str | None = None, priority: str | None = None) -> list[Event]:
    """Requests that ended in the last `window` seconds, one way or the other."""
    return _chosen(scene.recent(COMPLETED, window), what, priority)


def answered(scene: Scene, window: float, *, what: str | None = None, priority: str | None = None) -> list[Event]:
    """Those of them that got an answer."""
    return [e for e in ended(scene, window, what=what, priority=priority) if e.get("status") == 200]


def overdue(scene: Scene, window: float, *, what: str | None = None, priority: str | None = None) -> list[Event]:
    """Requests (`request.sent`) whose deadline went by in the last `window` seconds and that have not ended: a service
    that stands still ends none."""
    now = scene.now()
    open_ = {
        e.get("id"): e
        for e in _chosen(scene.recent(SENT, window + _PATIENCE), what, priority)
        if now - window < e.t + e.get("deadline", EVER) <= now
    }
    if open_:
        oldest = min(e.t for e in open_.values())
        for event in scene.recent(COMPLETED, now - oldest + 1):
            open_.pop(event.get("id"), None)
    return list(open_.values())


def begun(scene: Scene) -> bool:
    """Whether any client has asked for anything."""
    return bool(scene.recent(SENT, EVER))


def quantile(values: Iterable[float], share: float) -> float | None:
    """The smallest value that at least this share of them does not exceed; None without any."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else None


def _chosen(events: Sequence[Event], what: str | None, priority: str | None) -> list[Event]:
    return [
        e
        for e in events
        if not e.get("wrong") and what in (None, e.get("what")) and priority in (None, e.get("priority"))
    ]
