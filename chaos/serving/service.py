"""The serving run that a history tells of, read in one pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from chaos.history import Event, History
from chaos.serving.lives import Dead, Drain, Life, Out
from chaos.serving.requests import Attempt, Request
from chaos.training import Roster, Struck, strikes

# Faults after which a process is there and answers nobody.
_FREEZES = ("process.freeze", "process.cgroup-freeze")
_UNREACHABLE = ("network.isolate",)
_CLIENTS = ("load",)  # roles that nobody depends on
_OVER = ("load.ended", "target.finished", "final.started", "run.ended")


class Service:
    """The serving run that a history tells of."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.roster = Roster(history)
        self.faults = strikes(history)
        self.requests: dict[Any, Request] = {}
        self.attempts: dict[str, list[Attempt]] = {}  # by replica, in the order in which they were recorded
        self.lives: dict[str, list[Life]] = {}
        self.outs: list[Out] = []
        self.drains: list[Drain] = []
        self.again: list[Event] = []  # requests that were sent or ended although they had been: ids tell nobody apart
        self.over = self._over()
        takes: dict[str, Callable[[Event], None]] = {
            "request.sent": self._sent, "request.completed": self._completed, "request.shed": self._shed,
            "attempt.completed": self._attempt, "member.started": self._started, "member.exited": self._exited,
            "replica.ready": self._ready, "replica.ejected": self._ejected, "replica.returned": self._returned,
            "drain.begun": self._drain_begun, "drain.ended": self._drain_ended,
        }  # fmt: skip
        for event in history.of(*takes):
            takes[event.kind](event)

    # --- what is on record

    @property
    def replicas(self) -> list[str]:
        """Every replica that anybody tells of."""
        return sorted({*self.lives, *self.attempts, *(o.replica for o in self.outs)})

    @property
    def control(self) -> bool:
        """Whether the run was to have no fault at all."""
        return not self.faults and self.history.first("fault.armed") is None

    def ended(self) -> Iterator[Request]:
        """The requests that ended before the run was over, in the order in which they were first told of."""
        return (r for r in self.requests.values() if r.completed is not None)

    def overdue(self) -> Iterator[Request]:
        """Those that had not ended when the run was over, though their deadlines were."""
        return (
            r
            for r in self.requests.values()
            if r.completed is None and r.sent is not None and r.began + (r.fact("deadline") or math.inf) < self.over
        )

    def silence(self, since: float, until: float) -> float:
        """The longest time in that span in which no request of a client was on its way; all of it without any."""
        longest, free = 0.0, since
        for began, ended in sorted((r.began, r.ended) for r in self.requests.values() if not r.unsent):
            if ended < since or began > until:
                continue
            longest, free = max(longest, began - free), max(free, ended)
        return max(longest, until - free)

    def untried(self, fault: Struck) -> bool:
        """Whether no client asked for anything while that fault stood, or, where nothing stands, after it."""
        until = self.over if fault.instant else fault.stands(self.over)
        return not any(
            r.ended > fault.landed.t and r.began <= until and (not fault.instant or r.began > fault.landed.t)
            for r in self.requests.values()
            if not r.unsent
        )

    def role(self, member: Any) -> str:
        known = self.roster.members.get(member, {}).get("role")
        return str(known or ("replica" if member in self.lives or member in self.attempts else member))

    @property
    def opened(self) -> float | None:
        """When the first client asked for something; None where nobody did."""
        return min((r.began for r in self.requests.values()), default=None)

    # --- what faults did

    def hit(self, fault: Struck) -> frozenset[str]:
        """The replicas that a fault hits itself, alone or with their node."""
        if not fault.landed.get("sides"):
            names = self.roster.hit(fault)
            return frozenset(r for r in self.replicas if r in names)
        return self._parted(fault, lambda role: role not in ("replica", *_CLIENTS))

    def shared(self, fault: Struck) -> bool:
        """Whether it hits what every replica depends on: the router, the store, or the way to them."""
        if fault.landed.get("sides"):
            return False
        members = [m for m in self.roster.hit(fault) if m in self.roster.members or m in ("router", "store")]
        return any(self.role(m) not in ("replica", *_CLIENTS) for m in members)

    def explains(self, fault: Struck, replica: str, t: float, within: float) -> bool:
        """Whether a fault is why that replica fails at `t`: it stood then, or was over no longer than `within`."""
        if fault.injecting.t > t or not (replica in self.hit(fault) or self.shared(fault)):
            return False
        return t <= fault.stands(self.over) + within

    def dead(self) -> list[Dead]:
        """Every span in which a replica answered nobody, up to the end of the load; in order."""
        found = []
        for replica, lives in self.lives.items():
            for life, after in zip(lives, [*lives[1:], None], strict=True):
                if life.exited is not None:
                    until = after.started.t if after is not None else math.inf
                    how = f"ended with {life.exited.get('code')}"
                    found.append(Dead(replica=replica, cause=life.exited, how=how, since=life.exited.t, until=until))
        for fault in self.faults:
            found += [
                Dead(replica=r, cause=fault.landed, how=fault.step, since=fault.landed.t, until=fault.stands(math.inf))
                for r in sorted(self._silenced(fault))
            ]
        return sorted((d for d in found if d.since < self.over), key=lambda d: d.since)

    def _silenced(self, fault: Struck) -> frozenset[str]:
        kind = fault.landed.get("kind")
        if kind in (*_FREEZES, *_UNREACHABLE):
            return self.hit(fault)
        if fault.landed.get("sides") and kind == "network.partition":
            return self._parted(fault, lambda role: role == "router")
        return frozenset()

    def _parted(self, fault: Struck, wanted: Callable[[str], bool]) -> frozenset[str]:
        """The replicas that a fault parts from a member of a wanted role."""
        sides = [set(side) for side in fault.landed.get("sides")]
        members = self.roster.members.items()
        homes = {d.get("node") for name, d in members if wanted(self.role(name))}
        return frozenset(
            replica
            for replica in self.replicas
            for side in sides
            if self.roster.node(replica) in side and any(other & homes for other in sides if other is not side)
        )

    # --- one event after another

    def _over(self) -> float:
        """When the clients went home: what members do later is their end."""
        firsts = [e.t for kind in _OVER if (e := self.history.first(kind))]
        return min(firsts, default=self.history[-1].t if len(self.history) else 0.0)

    def _request(self, event: Event) -> Request:
        id = event.data.get("id")
        known = self.requests.get(id)
        if known is None:
            known = self.requests[id] = Request(id)
        return known

    def _sent(self, event: Event) -> None:
        request = self._request(event)
        self.again += [event] if request.sent is not None else []
        request.sent = request.sent or event

    def _completed(self, event: Event) -> None:
        request = self._request(event)
        self.again += [event] if request.completed is not None else []
        request.completed = request.completed or event

    def _shed(self, event: Event) -> None:
        self._request(event).shed = event

    def _attempt(self, event: Event) -> None:
        attempt = Attempt(
            event=event,
            request=event.get("id"),
            replica=str(event.get("replica")),
            status=event.get("status") or 0,
            began=event.t - (event.get("seconds") or 0.0),
            draining=bool(event.get("draining")),
            queued=event.get("queued"),
        )
        self._request(event).attempts.append(attempt)
        self.attempts.setdefault(attempt.replica, []).append(attempt)

    def _started(self, event: Event) -> None:
        if event.get("role") != "replica":
            return
        name = event.get("member") or event.source
        lives = self.lives.setdefault(name, [])
        if not lives or lives[-1].exited is not None or lives[-1].started.get("pid") != event.get("pid"):
            lives.append(Life(name, event))

    def _exited(self, event: Event) -> None:
        name = event.get("member")
        if event.get("role") == "replica" or name in self.lives:
            lives = self.lives.setdefault(name, [])
            mine = [x for x in lives if x.started.get("pid") == event.get("pid") and x.exited is None]
            for life in mine[-1:]:
                life.exited = event
        for drain in self.drains:
            if drain.member == name and drain.exited is None:
                drain.exited = event

    def _ready(self, event: Event) -> None:
        lives = self.lives.get(event.get("replica")) or []
        if lives and lives[-1].ready is None:
            lives[-1].ready = event

    def _ejected(self, event: Event) -> None:
        self.outs.append(Out(replica=str(event.get("replica")), ejected=event))

    def _returned(self, event: Event) -> None:
        for out in reversed(self.outs):
            if out.replica == event.get("replica"):
                out.returned = out.returned or event
                break

    def _drain_begun(self, event: Event) -> None:
        self.drains.append(Drain(member=event.get("member") or event.source, begun=event))

    def _drain_ended(self, event: Event) -> None:
        for drain in reversed(self.drains):
            if drain.member == (event.get("member") or event.source) and drain.ended is None:
                drain.ended = event
                break


_services: WeakKeyDictionary[History, Service] = WeakKeyDictionary()


def service(history: History) -> Service:
    """The serving run of that history; worked out once."""
    known = _services.get(history)
    if known is None:
        known = _services[history] = Service(history)
    return known


def serves(history: History) -> bool:
    """Whether it tells of requests and of no training."""
    asked = any(history.first(kind) for kind in ("request.completed", "request.sent", "load.started"))
    trains = any(history.first(kind) for kind in ("step.completed", "group.formed", "job.started"))
    return asked and not trains
