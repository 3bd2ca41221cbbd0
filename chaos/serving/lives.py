"""What happens to replicas: they live, drain, die, and are taken out of rotation."""

from __future__ import annotations

import math

import msgspec

from chaos.history import Event


class Life:
    """One process of a replica, from its start to its exit."""

    __slots__ = ("exited", "ready", "replica", "started")

    def __init__(self, replica: str, started: Event) -> None:
        self.replica = replica
        self.started = started
        self.ready: Event | None = None  # the first time that it said so
        self.exited: Event | None = None

    def alive(self, t: float) -> bool:
        return self.started.t <= t < (self.exited.t if self.exited else math.inf)


class Out(msgspec.Struct, kw_only=True):
    """A span in which the router kept a replica out of rotation."""

    replica: str
    ejected: Event
    returned: Event | None = None

    @property
    def reason(self) -> str:
        return str(self.ejected.get("reason") or "")


class Drain(msgspec.Struct, kw_only=True):
    """A planned stop of a member."""

    member: str
    begun: Event
    ended: Event | None = None
    exited: Event | None = None

    @property
    def until(self) -> float:
        """When it was over: the process has gone, or said that it is done; infinite where neither is on record."""
        over = [e.t for e in (self.ended, self.exited) if e is not None]
        return max(over, default=math.inf)


class Dead(msgspec.Struct, frozen=True, kw_only=True):
    """A span in which a replica answered nobody: it had ended, was frozen, or was cut off from the router."""

    replica: str
    cause: Event
    how: str
    since: float
    until: float
