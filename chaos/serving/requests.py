"""Requests of clients, and the attempts that a router makes for each."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from chaos.history import Event

TIERS = ("primary", "secondary", "tertiary", "static")  # the model ladder, best first
ASKED = ("what", "priority", "deadline", "session", "turn", "wrong")  # what its client meant, before it had an answer
SHED = 429  # refused on purpose
FALLBACKS = ("default", "omitted")  # what features are where they are not as good as they could be; a cache is routine


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a request at a replica, as the router tells it when it is over."""

    event: Event
    request: Any
    replica: str
    status: int  # 0: no answer
    began: float
    draining: bool  # refused because the replica drains
    queued: float | None  # seconds that the request had waited for its turn; of its first attempt

    @property
    def seq(self) -> int:
        return self.event.seq

    @property
    def ended(self) -> float:
        return self.event.t

    @property
    def failed(self) -> bool:
        """Whether the replica is to blame: not for what the client did wrong, nor for a refusal while it drains."""
        return (self.status == 0 or self.status >= 500) and not self.draining


class Request:
    """One request of a client, over all of its attempts."""

    __slots__ = ("attempts", "completed", "id", "sent", "shed")

    def __init__(self, id: Any) -> None:
        self.id = id
        self.sent: Event | None = None
        self.completed: Event | None = None
        self.attempts: list[Attempt] = []
        self.shed: Event | None = None

    def fact(self, name: str, default: Any = None) -> Any:
        """What was said when it ended, else when it was sent; of what its client had asked for, the other way round."""
        told = (self.sent, self.completed) if name in ASKED else (self.completed, self.sent)
        for event in told:
            if event is not None and (value := event.data.get(name)) is not None:
                return value
        return default

    @property
    def began(self) -> float:
        """Its intended start."""
        if self.sent is not None:
            return self.sent.t
        if self.completed is not None:
            return self.completed.t - (self.completed.get("latency") or 0.0)
        return self.attempts[0].began if self.attempts else self.shed.t if self.shed else 0.0

    @property
    def arrived(self) -> float | None:
        """When the router had it, as its attempts or its refusal tell; its client may have kept it back before."""
        if self.attempts:
            return self.attempts[0].began - (self.attempts[0].queued or 0.0)
        return self.shed.t - float(self.shed.get("waited") or 0.0) if self.shed is not None else None

    @property
    def ended(self) -> float:
        """Infinite where it never did."""
        return self.completed.t if self.completed is not None else math.inf

    @property
    def status(self) -> int:
        """0: no answer, or not yet."""
        return (self.completed.get("status") or 0) if self.completed is not None else 0

    @property
    def wrong(self) -> bool:
        """Whether the client made a mistake on purpose."""
        return bool(self.fact("wrong", False))

    @property
    def stream(self) -> bool:
        return bool(self.fact("what") == "generate")

    @property
    def unsent(self) -> bool:
        """Whether its client was never free to send it, so that the service did not see it."""
        return bool(self.fact("error") == "unsent")

    @property
    def errs(self) -> bool:
        """Whether it ended without an answer, though the client had asked rightly; shedding is told apart by 429.

        Also where the service says that it was the client's mistake: it was not.
        """
        return self.completed is not None and not self.wrong and self.status not in (200, SHED)

    @property
    def degraded(self) -> bool:
        """Whether its answer is less than the best: of a lower rung, or with features that were made up."""
        if self.status != 200 or self.completed is None:
            return False
        tier, features = self.completed.get("tier"), self.completed.get("features") or {}
        return tier not in (None, TIERS[0]) or any(value in FALLBACKS for value in features.values())

    def seqs(self) -> list[int]:
        """Everything on record that shows it."""
        events = [self.sent, self.shed, self.completed, *(a.event for a in self.attempts)]
        return sorted(e.seq for e in events if e is not None)
