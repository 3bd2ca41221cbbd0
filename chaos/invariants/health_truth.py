"""S1: health is the truth: while a replica says that it is well, real requests to it succeed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from chaos.api import Duration, Invariant, Ratio
from chaos.history import Event, History
from chaos.serving import RACE, SHED, Attempt, Service, service
from chaos.training import few
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_ENOUGH = 5  # attempts in a span, for a share of them to mean something
_LACKS = (0, 503, 504)  # what comes of a replica that waits for what it lacks


class _Well(NamedTuple):
    """A span in which a replica's health was said to be good."""

    said: Event
    since: float
    until: float


class HealthTruth(Invariant, frozen=True, kw_only=True):
    """A replica whose health is up answers real requests, rightly and in time; none says so before it has loaded.

    Judged from its health as the router saw it (`health.changed`: the level `ready` is up, and none is down) against
    what became of its attempts meanwhile. It is a lie where for longer than `within` every attempt failed or was
    answered wrongly, at least `least` of them, or where in two spans of `within` in a row more than the share `failing`
    did; where it was said to be ready before its `replica.ready`; and where it had died, was frozen or cut off from the
    router for longer than `within` and was still said to be well. A 503 or no answer while a fault of the store or the
    router stands is no lie: what all replicas lack is no reason for one to stay away. That a client was told of a
    mistake it had not made is a failure. A replica that a fault hit, and that nobody asked anything afterwards, leaves
    it unknown, and so does one that was asked and whose health nobody told.
    """

    id: ClassVar[str] = "S1"
    needs: ClassVar[tuple[str, ...]] = ("health.changed", "attempt.completed")
    within: Duration = 2.0
    least: int = 3
    failing: Ratio = 0.5

    def check(self, history: History) -> Verdict:
        view = service(history)
        well = {replica: list(_well(view, replica)) for replica in view.replicas}
        if early := self._early(view):
            return early
        served: list[int] = []
        for replica, spans in well.items():
            for span in spans:
                inside = [a for a in view.attempts.get(replica, ()) if span.since <= a.began and a.ended < span.until]
                if lie := (
                    self._lie(view, replica, span, inside)
                    or self._often(view, replica, span, inside)
                    or self._dead(view, replica, span)
                ):
                    return lie
                served += [a.seq for a in inside if _good(view, a)]
        if not served:
            return unknown("no request succeeded at a replica that was said to be well")
        if doubts := self._unasked(view, well):
            return unknown("; ".join(doubts), few(served))
        downs = [e for e in history.of("health.changed", up=False) if e.t < view.over]
        said = f"; {counted(len(downs), 'time')} a level was said to be down" if downs else "; no replica was ill"
        return passed(
            f"{counted(len(served), 'request')} succeeded at replicas that said they were well, and none of them "
            f"lied{said}",
            few([*served[:3], *(e.seq for e in downs), served[-1]]),
        )

    def _early(self, view: Service) -> Verdict | None:
        if not view.history.first("replica.ready"):
            return None
        for replica, lives in view.lives.items():
            for life in lives:
                end = min(life.exited.t if life.exited else math.inf, view.over)
                loaded = life.ready.t if life.ready else end
                for said in view.history.of("health.changed", replica=replica, level="ready", up=True):
                    if life.started.t < said.t < min(loaded, end) - RACE:
                        when = f"{loaded - said.t:.2f} s before it had loaded" if life.ready else "and never loaded"
                        seqs = sorted(e.seq for e in (life.started, said, life.ready) if e is not None)
                        return failed(f"{replica} was said to be ready {when} its weights", seqs)
        return None

    def _lie(self, view: Service, replica: str, span: _Well, inside: list[Attempt]) -> Verdict | None:
        bad: list[Attempt] = []
        for attempt in inside:
            if _good(view, attempt):
                bad = []
            elif _bad(view, attempt):
                bad.append(attempt)
            if len(bad) >= self.least and bad[-1].ended - bad[0].ended > self.within:
                how = "was answered wrongly" if bad[-1].status == 200 else f"failed (status {bad[-1].status})"
                return failed(
                    f"{replica} said that it is well, while each of {counted(len(bad), 'request')} to it failed for "
                    f"{bad[-1].ended - bad[0].ended:.1f} s; the last {how}",
                    few([span.said.seq, *(a.seq for a in bad)]),
                )
        return None

    def _often(self, view: Service, replica: str, span: _Well, inside: list[Attempt]) -> Verdict | None:
        """Real requests fail again and again, though not all of them, for two spans of `within` in a row."""
        spans: dict[int, list[tuple[Attempt, bool]]] = {}
        for attempt in inside:
            if (bad := _bad(view, attempt)) or _good(view, attempt):
                spans.setdefault(int((attempt.ended - span.since) / self.within), []).append((attempt, bad))
        before: list[Attempt] = []
        for number in range(max(spans, default=-1) + 1):
            told = spans.get(number, [])
            failing = [attempt for attempt, bad in told if bad]
            if len(told) < max(self.least, _ENOUGH) or len(failing) <= self.failing * len(told):
                before = []
                continue
            if before:
                lasted = failing[-1].ended - before[0].ended
                return failed(
                    f"{replica} said that it is well, while {counted(len(before) + len(failing), 'request')} to it "
                    f"failed within {lasted:.1f} s, more than {self.failing:.0%} of them",
                    few([span.said.seq, *(a.seq for a in (*before, *failing))]),
                )
            before = failing
        return None

    def _dead(self, view: Service, replica: str, span: _Well) -> Verdict | None:
        """It answered nobody, and was said to be well all the same."""
        for dead in view.dead():
            if dead.replica != replica or span.since > dead.since:
                continue
            lasted = min(dead.until, view.over, span.until) - dead.since
            blind = any(
                view.shared(f) and f.injecting.t <= dead.since + lasted and f.stands(view.over) >= dead.since
                for f in view.faults
            )
            if lasted > self.within and not blind:
                return failed(
                    f"{replica} was said to be well for {lasted:.1f} s after it could answer nobody any more "
                    f"({dead.how}); {self.within:g} s are allowed",
                    few([span.said.seq, dead.cause.seq]),
                )
        return None

    def _unasked(self, view: Service, well: dict[str, list[_Well]]) -> list[str]:
        """The replicas that a fault hit, that went on to say they are well, and that nobody asked."""
        doubts = [
            f"nobody told of the health of {replica}, which was asked {counted(len(view.attempts[replica]), 'time')}"
            for replica, spans in well.items()
            if not spans and view.attempts.get(replica)
        ]
        for fault in view.faults:
            for replica in sorted(view.hit(fault)):
                stood = [s for s in well[replica] if s.until > fault.landed.t + self.within]
                told = any(
                    e.t >= fault.injecting.t for e in view.history.of("health.changed", replica=replica, up=False)
                )
                asked = [a for a in view.attempts.get(replica, ()) if a.began > fault.landed.t]
                if stood and not told and not asked and fault.landed.t + self.within < view.over:
                    doubts.append(f"nobody asked {replica} anything after {fault.step}")
        return doubts


def _well(view: Service, replica: str) -> Iterator[_Well]:
    levels: dict[str, bool] = {}
    said: Event | None = None
    for event in view.history.of("serving.ready", "health.changed"):
        if event.kind == "serving.ready":
            if replica in (event.get("replicas") or ()):
                levels.setdefault("ready", True)
        elif event.get("replica") == replica:
            levels[str(event.get("level"))] = bool(event.get("up"))
        good = levels.get("ready", False) and all(levels.values())
        if good and said is None:
            said = event
        elif not good and said is not None:
            yield _Well(said, said.t, event.t)
            said = None
    if said is not None and said.t < view.over:
        yield _Well(said, said.t, view.over)


def _wrong(view: Service, attempt: Attempt) -> bool:
    """Whether this attempt gave the answer that was found to be wrong."""
    request = view.requests[attempt.request]
    return attempt is request.attempts[-1] and request.fact("right") is False


def _good(view: Service, attempt: Attempt) -> bool:
    return attempt.status == 200 and not _wrong(view, attempt)


def _bad(view: Service, attempt: Attempt) -> bool:
    if attempt.status in _LACKS and any(
        view.shared(f) and f.injecting.t <= attempt.ended and attempt.began <= f.stands(view.over) + RACE
        for f in view.faults
    ):
        return False
    return _failed(view, attempt) or (attempt.status == 200 and _wrong(view, attempt))


def _failed(view: Service, attempt: Attempt) -> bool:
    """Whether the replica is to blame, as it also is where it calls a right question a mistake."""
    blames = 400 <= attempt.status < 500 and attempt.status != SHED and not view.requests[attempt.request].wrong
    return attempt.failed or (blames and not attempt.draining)
