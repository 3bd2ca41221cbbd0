"""S7: what failed work held is given back."""

from __future__ import annotations

import math
from typing import ClassVar

from chaos.api import Duration, Invariant, Size
from chaos.history import Event, History
from chaos.serving import RACE, Request, Service, service
from chaos.training import few, listed
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown


class Reclaim(Invariant, frozen=True, kw_only=True):
    """Memory, KV blocks and places in queues that failed work held are free again within `within`.

    Judged from `replica.usage` of replicas that live on. Work has failed where a request broke off, ran out of time or
    went on elsewhere. It has left something behind where for longer than `within` a replica has more blocks than its
    living sessions hold, or says that it works on more requests than the router waits for; and where its memory ends
    more than
    `memory` above what it had when the work failed. Needs failed work, and a usage later than `within` after it.
    """

    id: ClassVar[str] = "S7"
    needs: ClassVar[tuple[str, ...]] = ("replica.usage", "request.completed")
    within: Duration = 3.0
    memory: Size = 256 * 1024 * 1024

    def check(self, history: History) -> Verdict:
        view = service(history)
        over = max((r.ended for r in view.requests.values() if r.completed is not None), default=view.over)
        evidence: list[int] = []
        told: dict[str, list[Event]] = {}
        for event in history.of("replica.usage"):
            told.setdefault(str(event.get("replica")), []).append(event)
        for replica, usage in told.items():
            if broken := self._leak(replica, usage) or self._stuck(view, replica, usage, over):
                return broken
        work = _failed(view)
        if not work:
            return unknown("no work failed, so nothing had to be given back")
        for replica, usage in told.items():
            mine = [(t, seq) for name, t, seq in work if name == replica]
            after = [e for e in usage if mine and e.t > mine[0][0] + self.within and e.t < view.over + self.within]
            if not after or not _lived(view, replica, mine[0][0], after[-1].t):
                continue
            if grown := self._grown(replica, usage, mine[0][0]):
                return grown
            evidence += [mine[0][1], after[-1].seq]
        if not evidence:
            names = sorted({name for name, _, _ in work if name})
            return unknown(
                f"work of {listed(names)} failed, and no replica that lived on told of its usage {self.within:g} s "
                "later",
                few([seq for _, _, seq in work]),
            )
        return passed(
            f"{counted(len(work), 'piece of failed work', 'pieces of failed work')} left nothing behind at "
            f"{counted(len(evidence) // 2, 'replica')}",
            few(evidence),
        )

    def _leak(self, replica: str, usage: list[Event]) -> Verdict | None:
        """Blocks that belong to no living session, for longer than `within` without a break."""
        since: Event | None = None
        for event in usage:
            blocks, held = event.get("blocks"), event.get("held")
            if blocks is None or held is None or blocks <= held:
                since = None
                continue
            since = since or event
            if event.t - since.t > self.within:
                return failed(
                    f"{replica} keeps {blocks} KV blocks, though its living sessions hold {held}, for "
                    f"{event.t - since.t:.1f} s",
                    (since.seq, event.seq),
                )
        return None

    def _stuck(self, view: Service, replica: str, usage: list[Event], over: float) -> Verdict | None:
        """Work that goes on for nobody."""
        waits = _waits(view, replica, self.within)
        since: Event | None = None
        for event in usage:
            load = (event.get("in_flight") or 0) + (event.get("queue") or 0)
            asked = sum(a - RACE <= event.t <= b + RACE for a, b in waits)
            if load <= asked:
                since = None
                continue
            since = since or event
            if event.t - since.t > self.within / 2:  # and what failed had `within` before
                whom = "no client waits for any" if event.t > over else f"the router waits for {asked} there"
                return failed(
                    f"{replica} says that {counted(load, 'request is', 'requests are')} at work, and has for "
                    f"{event.t - since.t:.1f} s been at more than anybody waits for: {whom}",
                    (since.seq, event.seq),
                )
        return None

    def _grown(self, replica: str, usage: list[Event], t: float) -> Verdict | None:
        before = [e for e in usage if e.t <= t and e.get("rss") is not None]
        after = [e for e in usage if e.t > t + self.within and e.get("rss") is not None]
        if not before or not after:
            return None
        growth = min(e.get("rss") for e in after[-3:]) - before[-1].get("rss")
        if growth <= self.memory:
            return None
        return failed(
            f"{replica} ended with {growth / 2**20:.0f} MiB more than when work of it failed; "
            f"{self.memory / 2**20:.0f} MiB are allowed",
            (before[-1].seq, after[-1].seq),
        )


def _failed(view: Service) -> list[tuple[str, float, int]]:
    """Failed work: at which replica, when, and what shows it; in order."""
    found: list[tuple[str, float, int]] = []
    for request in view.requests.values():
        for attempt in request.attempts:
            if attempt.failed:
                found.append((attempt.replica, attempt.ended, attempt.seq))
        last = request.attempts[-1] if request.attempts else None
        if last is not None and not last.failed and _broke(request):
            found.append((last.replica, request.ended, request.completed.seq if request.completed else last.seq))
    # A session that went on elsewhere has left its blocks at the replica that had it before.
    owner: dict[object, str] = {}
    for event in view.history.of("session.resumed", "request.completed"):
        session, replica = event.get("session"), event.get("replica")
        if session is None or replica is None:
            continue
        if event.kind == "session.resumed" and owner.get(session, replica) != replica:
            found.append((owner[session], event.t, event.seq))
        owner[session] = str(replica)
    return sorted(found, key=lambda w: w[1])


def _broke(request: Request) -> bool:
    return request.errs and not request.unsent


def _waits(view: Service, replica: str, within: float) -> list[tuple[float, float]]:
    """The spans in which it may be at work on an attempt, or on a request of which no attempt is on record; one that
    has come to nothing may hold its place for a while."""
    own = [(a.began, a.ended if a.status == 200 else a.ended + within) for a in view.attempts.get(replica, ())]
    untold = (r for r in view.requests.values() if not r.attempts or r.completed is None)
    return own + [(r.began, r.ended) for r in untold if r.shed is None and not r.unsent]


def _lived(view: Service, replica: str, since: float, until: float) -> bool:
    """Whether it was one process all the while; one nobody tells the start of is taken to be."""
    lives = view.lives.get(replica)
    return not lives or any(x.started.t <= since and (x.exited.t if x.exited else math.inf) >= until for x in lives)
