"""A scene written by hand, for the probes to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chaos.api import Member
from chaos.history import Event


class Scene:
    def __init__(self, now: float = 0.0, *events: Event, members: Sequence[Member] = ()) -> None:
        self._now, self._events, self._members = now, events, members

    @property
    def target(self) -> Any:
        return self

    def members(self) -> tuple[Member, ...]:
        return tuple(self._members)

    def now(self) -> float:
        return self._now

    def recent(self, kind: str, seconds: float) -> Sequence[Event]:
        return [e for e in self._events if e.kind == kind and e.t >= self._now - seconds]
