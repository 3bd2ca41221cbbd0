"""Recovery of a serving run, measured from what its clients saw.

    fault landed ──detect── a replica is ejected                    fault landed ──total── errors and quality are back

- *fault landed*: the first fault of the episode; one that lands before the clients are served as before belongs to it.
- *detect*: the first `replica.ejected` of a replica that the fault hit. Where it hit what all replicas depend on: the
  first of `replica.ejected`, `breaker.opened`, `features.moved`, `ladder.moved`.
- *total*: the moment from which on, to the next fault or the end of the load, requests are answered as before. A
  request suffers that ends without an answer, or not at all by its deadline, is shed, late, wrong, or of less quality
  than the best. Second by second, no more of them suffer than did before the first fault, and one of twenty. A dent
  that comes back counts to its end. So the total holds the climb back to full quality, rung by rung: where clients had
  answers again sooner, the note says when.

Where nobody asked for anything for a while, nobody can tell whether it was over: the budget is not known to be kept.

There is nothing to restart, to load or to warm up that all clients wait for, and no work that could be lost: an RPO and
the other terms of an RTO mean nothing here, and a budget on one is never judged.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import msgspec

from chaos.experiment import Budget
from chaos.history import Event, History
from chaos.judge import budget as figures
from chaos.result import Check, Kind, Need, Recovery
from chaos.serving import SHED, Request, Service, service
from chaos.training import Struck, cut_off, listed
from chaos.verdict import Outcome, unknown

_WINDOW = 1.0  # seconds over which the share of requests that suffer is taken
_SLACK = 0.05  # of them may suffer beyond those that did before the first fault
_WATCH = 2.0  # seconds after a fault in which somebody must ask for something
_SILENT = "nobody asked for anything"
_MEANT = ("total", "detect")
_SIGNS = ("replica.ejected", "breaker.opened", "features.moved", "ladder.moved")


class _Line:
    """The requests of a span by the moments at which they ended, and how many suffered."""

    def __init__(self, requests: Sequence[Request], degraded: bool) -> None:
        self.requests = sorted(requests, key=_moment)
        self.times = [_moment(r) for r in self.requests]
        self.bad = [_suffers(r, degraded) for r in self.requests]
        self._sums = [0, *accumulate(self.bad)]

    def share(self, since: float, until: float) -> float:
        """Of those that ended then, how many suffered."""
        a, b = bisect_left(self.times, since), bisect_right(self.times, until)
        return (self._sums[b] - self._sums[a]) / (b - a) if b > a else 0.0

    def last_dent(self, limit: float) -> int | None:
        """The last request that suffered in a second in which more than `limit` did."""
        for index in range(len(self.requests) - 1, -1, -1):
            t = self.times[index]
            if self.bad[index] and self.share(t - _WINDOW / 2, t + _WINDOW / 2) > limit:
                return index
        return None

    def first_good(self, after: int) -> int | None:
        return next((i for i in range(after + 1, len(self.bad)) if not self.bad[i]), None)


class _Dent(msgspec.Struct, frozen=True, kw_only=True):
    """What clients noticed of the faults of an episode."""

    faults: list[Struck]
    until: float  # the next fault, or the end of the load
    first: Request | None = None  # that suffered
    back: Request | None = None  # the first one after it was over; None: it never was
    answered: Request | None = None  # the first one from which on there were answers, of whatever quality


def measure(history: History) -> tuple[Recovery, ...]:
    """An episode for each fault that landed while there was load, and one for each replica that broke by itself."""
    view = service(history)
    faults = sorted((f for f in view.faults if f.landed.t < view.over), key=lambda f: f.landed.t)
    asked = [r for r in (*view.ended(), *view.overdue()) if not r.wrong and _moment(r) <= view.over]
    before = [r for r in asked if not faults or _moment(r) < faults[0].injecting.t]
    degraded = sum(r.degraded for r in before) <= _SLACK * len(
        before
    )  # else less than the best is what it always gives
    limit = _Line(before, degraded).share(float("-inf"), float("inf")) + _SLACK
    found = [_recovery(view, dent) for dent in _dents(view, faults, asked, degraded, limit)]
    return tuple(sorted((*found, *_unprovoked(view)), key=lambda r: r.began))


def checks(budget: Budget, history: History, recoveries: Sequence[Recovery]) -> list[Check]:
    """One check for each figure that the budget bounds; those that mean nothing here are unknown, and say why."""
    meant = msgspec.structs.replace(
        budget,
        rpo=None,
        rto=msgspec.structs.replace(budget.rto, restart=None, load=None, warmup=None) if budget.rto else None,
    )
    provoked = [r for r in recoveries if r.need is not Need.UNPROVOKED]  # those have a check of their own
    found = [_told(history, check, provoked) for check in figures.checks(meant, history, provoked)]
    for family, fields in (("rpo", figures.RPO), ("rto", figures.RTO)):
        for field, unit in fields.items():
            limit = getattr(getattr(budget, family), field, None)
            if limit is None or (family, field) in (("rto", f) for f in _MEANT):
                continue
            why = (
                "no work can be lost that is done again" if family == "rpo" else "no group is formed that clients await"
            )
            verdict = unknown(f"a serving run has no {family}.{field}: {why}; bound rto.total, rto.detect, or a probe")
            measured: dict[str, Any] = {"limit": limit, "unit": unit}
            found.append(Check(name=f"{family}.{field}", kind=Kind.BUDGET, verdict=verdict, measured=measured))
    return found


def _told(history: History, check: Check, recoveries: Sequence[Recovery]) -> Check:
    """With what a reader must know; a budget that was kept while nobody asked for anything is not known to be."""
    verdict = check.verdict
    silent = [r for r in recoveries if r.note.startswith(_SILENT)]
    if verdict.outcome is Outcome.PASS and silent:
        reason = f"{listed(silent[0].faults)}: {silent[0].note}, so nobody can tell whether it was over"
        return msgspec.structs.replace(check, verdict=unknown(reason, verdict.evidence))
    if check.name == "rto.total" and verdict.outcome is Outcome.PASS:
        for step in dict.fromkeys(step for r in recoveries for step in r.faults):
            if cut := cut_off(history, step):
                reason = f"{step} was healed after {cut}: what clients notice of a heal is part of the recovery"
                return msgspec.structs.replace(check, verdict=unknown(reason, verdict.evidence))
    climbs = [r for r in recoveries if r.note and r.total is not None and r.need is Need.FAILURE and r.total > 0]
    if check.name != "rto.total" or not climbs or silent:
        return check
    slowest = max(climbs, key=lambda r: r.total or 0.0)
    return msgspec.structs.replace(
        check, verdict=msgspec.structs.replace(verdict, reason=f"{verdict.reason} ({slowest.note})")
    )


def _moment(request: Request) -> float:
    """When it ended; where it never did, when its deadline was over."""
    return request.ended if request.completed is not None else request.began + float(request.fact("deadline") or 0.0)


def _suffers(request: Request, degraded: bool) -> bool:
    event = request.completed
    if event is None or request.errs or request.status == SHED or request.fact("right") is False:
        return True
    late = (event.get("latency") or 0.0) > (request.fact("deadline") or float("inf"))
    return late or bool(event.get("missing") or event.get("repeated")) or (degraded and request.degraded)


def _dents(
    view: Service, faults: Sequence[Struck], asked: Sequence[Request], degraded: bool, limit: float
) -> list[_Dent]:
    """The episodes: faults whose consequences overlap are one."""
    found: list[_Dent] = []
    group: list[Struck] = []
    for index, fault in enumerate(faults):
        group = [*group, fault]
        end = faults[index + 1].landed.t if index + 1 < len(faults) else view.over
        line = _Line([r for r in asked if group[0].injecting.t <= _moment(r) < end], degraded)
        last = line.last_dent(limit)
        if last is None:
            found.append(_Dent(faults=group, until=end))
            group = []
            continue
        good = line.first_good(last)
        lasting = good is not None and end - line.times[last] >= _WINDOW / 2
        if not lasting and index + 1 < len(faults):
            continue  # the next fault struck before it was over
        first = next(i for i, bad in enumerate(line.bad) if bad)
        back = line.requests[good] if good is not None and lasting else None
        rough = _Line(line.requests, degraded=False)
        bad = rough.last_dent(limit)
        answered = rough.first_good(-1 if bad is None else bad)
        served = rough.requests[answered] if answered is not None and back is not None else None
        found.append(_Dent(faults=group, until=end, first=line.requests[first], back=back, answered=served))
        group = []
    return found


def _recovery(view: Service, dent: _Dent) -> Recovery:
    fault = dent.faults[0]
    hit = sorted({r for f in dent.faults for r in view.hit(f)})
    sign = _sign(view, dent, hit)
    dead = [d for d in view.dead() if d.replica in hit and d.since >= fault.injecting.t and d.until > d.since]
    early = sign is not None and sign.seq < fault.landed.seq  # it was noticed before the proof was in
    start = (fault.injecting if early else fault.landed).t
    total = 0.0 if dent.first is None else max(_moment(dent.back) - start, 0.0) if dent.back else None
    needed = dent.first is not None or bool(dead) or (sign is not None and sign.kind == "replica.ejected")
    first, back = (r.completed or r.sent if r is not None else None for r in (dent.first, dent.back))
    marks = {"began": fault.injecting if early else fault.landed, "detect": sign, "first": first, "total": back}
    return Recovery(
        need=Need.FAILURE if needed else Need.NONE,
        faults=tuple(f.step for f in dent.faults),
        members=tuple(dict.fromkeys(m for f in dent.faults for m in f.whom)),
        began=start,
        complete=total is not None,
        serving=True,
        detect=max(sign.t - start, 0.0) if sign else None,
        total=total,
        resume=total,
        note=_note(view, dent, start),
        evidence={name: event.seq for name, event in marks.items() if event is not None},
    )


def _note(view: Service, dent: _Dent, start: float) -> str:
    """What a reader must know to take the total right."""
    last = dent.back.ended if dent.back else dent.faults[-1].stands(dent.until)
    silent = view.silence(start, min(max(last, dent.faults[-1].landed.t + _WATCH), dent.until))
    usual = view.silence(view.opened, view.faults[0].injecting.t) if view.opened is not None else 0.0
    if silent > max(_WINDOW, 3 * usual):
        return f"{_SILENT} for {silent:.1f} s"
    if dent.first is None:
        return "no client noticed it"
    if dent.back is None or dent.answered is None or dent.back.ended - dent.answered.ended < _WINDOW / 2:
        return ""
    soon = max(dent.answered.ended - start, 0.0)
    return (
        f"clients had answers after {soon:.2f} s, and full quality {dent.back.ended - dent.answered.ended:.2f} s later"
    )


def _sign(view: Service, dent: _Dent, hit: Sequence[str]) -> Event | None:
    """The first sign that the service knows of it."""
    fault = dent.faults[0]
    events = [e for e in view.history.of(*_SIGNS) if e.seq > fault.injecting.seq and e.t <= dent.until]
    if hit and not any(view.shared(f) for f in dent.faults):
        events = [e for e in events if e.kind == "replica.ejected" and e.get("replica") in hit]
    return next(iter(events), None)


def _unprovoked(view: Service) -> list[Recovery]:
    """Members that ended by themselves although no fault had hit them or their node: a bug, or the machine."""
    found = []
    for event in view.history.of("member.exited"):
        ended = not event.get("expected") and event.t < view.over
        if ended and view.role(event.get("member")) in ("replica", "router", "store") and not _struck(view, event):
            found.append(
                Recovery(
                    need=Need.UNPROVOKED, members=(str(event.get("member")),), began=event.t, serving=True,
                    note=f"{event.get('member')} ended with {event.get('code')}", evidence={"began": event.seq},
                )
            )  # fmt: skip
    return found


def _struck(view: Service, event: Event) -> bool:
    """Whether a fault had hit that member, or somebody on its node with whom it may end."""
    name = event.get("member")
    places = {name, view.roster.node(name)}
    return any(
        f.injecting.t <= event.t and not places.isdisjoint(h | {view.roster.node(m) for m in h})
        for f in view.faults
        for h in [view.roster.hit(f)]
    )
