"""S8: only replicas that fail are ejected, and those that are well again return."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import ClassVar

from chaos.api import Duration, Invariant, Ratio
from chaos.history import Event, History
from chaos.serving import RACE, Drain, Out, Service, service
from chaos.training import few, listed
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_BACK = 2.0  # a failure explains an ejection for so many seconds
_FAILED = ("outlier", "breaker")  # reasons that lie in failed attempts
_SHARED = 10  # attempts for each replica, of which one that is in rotation gets some
_BUSY = (503, 504)  # of one that has too much to do, or a caller without patience


class AccurateEjection(Invariant, frozen=True, kw_only=True):
    """No replica loses its place for what a client did wrong, or for being slow; one that is well again gets it back.

    Judged from `replica.ejected`, `replica.returned` and `breaker.opened` of replicas. An ejection is right where the
    replica had died, drains, fails by itself (an answer of 500 within 2 s before), or where a fault that hit it, the
    router or the store stood, or was over no longer than `within`. A fault that is named under `harmless` (such as a
    delay that clients can bear) explains none. What was ejected must return within `within` after its process is ready
    again, its fault is healed, or, without a cause, at all; and one that has returned is asked again, as others are,
    within `within`. Never more than the share `most` of the replicas is out for failed attempts at the same time: where
    all fail, the cause is elsewhere. One that was asked as others are, and then nothing for twice `within` although
    nothing was wrong with it and nobody said that it was out, leaves it unknown. Needs an ejection, or at least
    `mistakes` of clients (that they made on purpose, status 400) with other requests beside them.
    """

    id: ClassVar[str] = "S8"
    needs: ClassVar[tuple[str, ...]] = ("replica.ejected", "replica.returned", "request.completed")
    within: Duration = 5.0
    mistakes: int = 10
    harmless: tuple[str, ...] = ()
    most: Ratio = 0.5

    def check(self, history: History) -> Verdict:
        view = service(history)
        outs = [o for o in view.outs if o.ejected.t < view.over]
        opened = [e for e in history.of("breaker.opened") if e.get("name") in view.replicas and e.t < view.over]
        for event in sorted([*(o.ejected for o in outs), *opened], key=lambda e: e.seq):
            if not self._right(view, event):
                return self._false_alarm(view, event)
        if verdict := self._too_many(view, outs):
            return verdict
        doubts: list[str] = []
        back: list[int] = []
        for out in outs:
            answer = self._returns(view, out)
            if isinstance(answer, Verdict):
                return answer
            if isinstance(answer, str):
                doubts.append(answer)
            elif answer is not None:
                back += [out.ejected.seq, answer.seq]
        return self._judged(view, outs, back, doubts)

    def _judged(self, view: Service, outs: list[Out], back: list[int], doubts: list[str]) -> Verdict:
        if idle := next((v for r in view.replicas if (v := self._left_out(view, r))), None):
            return idle
        mistakes = [r for r in view.ended() if r.status == 400 and r.wrong]
        seqs = [r.completed.seq for r in mistakes if r.completed]
        if doubts:
            return unknown("; ".join(doubts), few([*back, *(o.ejected.seq for o in outs)]))
        if shunned := next((v for o in outs if (v := self._shunned(view, o))), None):
            return shunned
        said = []
        if outs:
            gone = len(outs) - len(back) // 2
            said.append(
                f"{counted(len(outs), 'ejection')}, each for a cause; {len(back) // 2} returned, {gone} could not"
            )
        served = sum(1 for r in view.ended() if r.status == 200)
        if len(mistakes) >= self.mistakes and served:
            said.append(f"{counted(len(mistakes), 'mistake')} of clients, and nobody ejected for them")
        if not said:
            return unknown(
                f"no ejection, and only {counted(len(mistakes), 'mistake')} of clients beside "
                f"{counted(served, 'answer')}: nothing to judge",
                few(seqs),
            )
        return passed("; ".join(said), few([*(o.ejected.seq for o in outs), *back, *seqs]))

    # --- false alarms

    def _right(self, view: Service, event: Event) -> bool:
        replica = str(event.get("replica") or event.get("name"))
        if any(d.since - RACE <= event.t <= d.until + self.within and d.replica == replica for d in view.dead()):
            return True
        if any(d.member == replica and d.begun.t - RACE <= event.t for d in _drains(view)):
            return True
        if not _loaded(view, replica, event.t):
            return True
        faults = [f for f in view.faults if f.step not in self.harmless]
        if any(view.explains(f, replica, event.t, self.within) for f in faults):
            return True
        attempts = view.attempts.get(replica, ())
        return any(
            a.failed and a.status not in (0, *_BUSY) and event.t - _BACK <= a.ended <= event.t + RACE for a in attempts
        )

    def _false_alarm(self, view: Service, event: Event) -> Verdict:
        replica = event.get("replica") or event.get("name")
        verb = "the breaker of" if event.kind == "breaker.opened" else "the place of"
        mistakes = [
            a
            for a in view.attempts.get(str(replica), ())
            if a.status == 400 and event.t - _BACK <= a.ended <= event.t + RACE
        ]
        why = f", after {counted(len(mistakes), 'mistake')} of clients" if mistakes else ""
        how = "opened" if event.kind == "breaker.opened" else "was lost"
        return failed(
            f"false alarm: {verb} {replica} {how} ({event.get('reason')}) though nothing was wrong with it{why}",
            few([*(a.seq for a in mistakes), event.seq]),
        )

    def _too_many(self, view: Service, outs: list[Out]) -> Verdict | None:
        """Where most fail alike, none of them is an outlier: the cause lies elsewhere."""
        outliers = [o for o in outs if o.reason in _FAILED]
        for out in outliers:
            standing = [
                o
                for o in outliers
                if o.ejected.seq <= out.ejected.seq and (o.returned is None or o.returned.seq > out.ejected.seq)
            ]
            names = sorted({o.replica for o in standing})
            if len(names) > self.most * len(view.replicas):
                return failed(
                    f"{listed(names)} of {len(view.replicas)} replicas were out for failed attempts at the same time",
                    few([o.ejected.seq for o in standing]),
                )
        return None

    # --- and back again

    def _returns(self, view: Service, out: Out) -> Event | Verdict | str | None:
        """Its return; a failure where it never came or came late; why that cannot be told; None where it cannot."""
        well = self._well_since(view, out)
        if well is None:
            return None
        if out.returned is not None and out.returned.t <= well + self.within:
            return out.returned
        later = (o for o in view.outs if o.replica == out.replica and o.ejected.seq > out.ejected.seq)
        again = next((o for o in later if o.ejected.t < view.over), None)  # at the end everybody leaves
        if out.returned is None and again is not None:
            return None  # it is judged by the last one
        seen = out.returned.t if out.returned else view.over
        if out.returned is None and seen <= well + self.within:
            return f"the record ends {seen - well:.1f} s after {out.replica} was well again"
        when = f"only after {seen - well:.1f} s" if out.returned else f"not in the {seen - well:.1f} s on record"
        seqs = [out.ejected.seq, *([out.returned.seq] if out.returned else [])]
        return failed(
            f"{out.replica}, ejected for {out.reason}, returned {when} after it was well again; {self.within:g} s are "
            "allowed",
            seqs,
        )

    def _shunned(self, view: Service, out: Out) -> Verdict | None:
        """It is said to be back, and nobody sends it anything."""
        if out.returned is None:
            return None
        since = out.returned.t
        again = (o.ejected.t for o in view.outs if o.replica == out.replica and o.ejected.seq > out.returned.seq)
        stops = [d.begun.t for d in view.drains if d.member == out.replica and d.begun.t > since]
        dead = [d.since for d in view.dead() if d.replica == out.replica and d.until > since]
        until = min([since + self.within, view.over, *again, *stops, *dead])
        asked = [a for attempts in view.attempts.values() for a in attempts if since < a.began <= until]
        if until < since + self.within or len(asked) < _SHARED * len(view.replicas):
            return None
        if any(a.replica == out.replica for a in asked):
            return None
        return failed(
            f"{out.replica} was said to have returned, and was asked nothing in the {self.within:g} s after it, while "
            f"others were asked {counted(len(asked), 'time')}",
            few([out.ejected.seq, out.returned.seq, *(a.seq for a in asked)]),
        )

    def _left_out(self, view: Service, replica: str) -> Verdict | None:
        """Nobody says that it is out, and nobody asks it any more."""
        begun = sorted(a.began for a in view.attempts.get(replica, ()))
        for count, (last, following) in enumerate(pairwise([*begun, view.over]), start=1):
            if count < _SHARED or following - last <= 2 * self.within or self._away(view, replica, last, following):
                continue
            asked = sum(last < a.began < following for attempts in view.attempts.values() for a in attempts)
            if asked >= _SHARED * len(view.replicas):
                return unknown(
                    f"{replica} was asked nothing for {following - last:.1f} s, while others were asked "
                    f"{counted(asked, 'time')}, though nobody said that it was out",
                    few([a.seq for a in view.attempts[replica][-2:]]),
                )
        return None

    def _away(self, view: Service, replica: str, since: float, until: float) -> bool:
        """Whether it was out for any reason at some time in that span, or may have been."""
        spans = [(o.ejected.t, o.returned.t if o.returned else math.inf) for o in view.outs if o.replica == replica]
        spans += [(d.since, d.until) for d in view.dead() if d.replica == replica]
        spans += [(d.begun.t, d.until) for d in view.drains if d.member == replica]
        spans += [(f.injecting.t, f.stands(view.over)) for f in view.faults if replica in view.hit(f) or view.shared(f)]
        return any(began < until and since < ended for began, ended in spans)

    def _well_since(self, view: Service, out: Out) -> float | None:
        """From when on nothing keeps it out; None where something does to the end."""
        t = out.ejected.t
        causes = [f for f in view.faults if out.replica in view.hit(f) or view.shared(f)]
        until = [
            f.stands(math.inf) for f in causes if not f.instant and f.injecting.t <= (out.returned or out.ejected).t
        ]
        if _spoilt(view, out.replica):
            return None
        lives = view.lives.get(out.replica) or []
        if lives:
            last = lives[-1]
            if last.exited is not None and last.exited.t < view.over:
                return None
            if len(lives) > 1 or last.ready is not None:
                if last.ready is None:
                    return None
                until.append(last.ready.t)
        left = [d for d in _drains(view) if d.member == out.replica]
        if any(not lives or d.begun.t >= lives[-1].started.t for d in left):
            return None
        well = max([t, *until])
        return None if well >= view.over else well


def _drains(view: Service) -> list[Drain]:
    """Those while there was load: at the end of a run everybody drains."""
    return [d for d in view.drains if d.begun.t < view.over]


def _spoilt(view: Service, replica: str) -> bool:
    """Whether a fault changed a value in it, and the known question says that this has stayed."""
    changed = any(str(f.landed.get("kind")).startswith("compute.") and replica in view.hit(f) for f in view.faults)
    said = view.history.last("health.changed", replica=replica, level="correct")
    return changed and said is not None and not said.get("up")


def _loaded(view: Service, replica: str, t: float) -> bool:
    """Whether its process had said that it is ready; one nobody tells of is taken to have."""
    life = next((x for x in view.lives.get(replica, ()) if x.alive(t)), None)
    return life is None or life.ready is None or life.ready.t <= t
