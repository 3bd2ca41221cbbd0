"""S11: quality goes down and comes back step by step."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

from chaos.api import Duration, Invariant, Ratio
from chaos.history import Event, History
from chaos.serving import TIERS, Request, Service, service
from chaos.training import few
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown


class SteadyDegradation(Invariant, frozen=True, kw_only=True):
    """A service that cannot answer well answers less well, one rung at a time, without flapping, and not for ever.

    Judged from `ladder.moved`, `features.moved` and the tier of each answer. A move of the ladder is to a neighbour of
    the rung on which it stands; a move up comes no sooner than `hold` after the move before it; there are at most
    `moves` for each fault that landed (in all, where none did). `within` after the last heal, or, where no fault stood,
    after the last move down, answers are of full quality again, but for the share `stray`. Answers of a lower rung that
    no move explains leave it unknown, and so does a run in which nothing was degraded.
    """

    id: ClassVar[str] = "S11"
    needs: ClassVar[tuple[str, ...]] = ("ladder.moved", "request.completed")
    hold: Duration = 1.0
    moves: int = 8
    within: Duration = 10.0
    stray: Ratio = 0.02

    def check(self, history: History) -> Verdict:
        view = service(history)
        moves = [e for e in history.of("ladder.moved") if e.t <= view.over]
        features = [e for e in history.of("features.moved") if e.t <= view.over]
        if broken := _jumped(moves) or self._flapped(view, moves):
            return broken
        degraded = [r for r in view.ended() if r.degraded]
        seqs = few([e.seq for e in (*moves, *features)])
        if not moves and not features:
            if degraded:
                return unknown(
                    f"{counted(len(degraded), 'answer was', 'answers were')} degraded, though nobody told of a move",
                    _seqs(degraded),
                )
            return unknown("nothing was degraded")
        if not degraded:
            return unknown("the ladder moved, and no answer was degraded", seqs)
        return self._back(view, moves, features, degraded)

    def _flapped(self, view: Service, moves: list[Event]) -> Verdict | None:
        for before, event in pairwise(moves):
            if _down(event) or event.t - before.t >= self.hold:
                continue
            return failed(
                f"flapping: the ladder went up to {event.get('after')} only {event.t - before.t:.2f} s after it had "
                f"moved to {before.get('after')}; {self.hold:g} s of calm are asked",
                (before.seq, event.seq),
            )
        allowed = self.moves * max(len(view.faults), 1)
        if len(moves) > allowed:
            return failed(
                f"flapping: the ladder moved {counted(len(moves), 'time')} for {counted(len(view.faults), 'fault')}; "
                f"{allowed} are allowed",
                few([e.seq for e in moves]),
            )
        return None

    def _back(self, view: Service, moves: list[Event], features: list[Event], degraded: list[Request]) -> Verdict:
        stood = [f.stands(view.over) for f in view.faults]
        downs = [e.t for e in moves if _down(e)]
        end = max(stood) if stood else max(downs, default=degraded[0].ended)
        limit = end + self.within
        answers = sorted((r for r in view.ended() if r.status == 200 and not r.stream), key=lambda r: r.began)
        after = [r for r in answers if r.began > limit]
        late = [r for r in after if r.degraded]
        late = late if len(late) > self.stray * len(after) else []
        low = bool(moves) and moves[-1].get("after") != TIERS[0]
        if late or (low and view.over > limit):
            what = f"request {late[-1].id} was answered less well ({_how(late[-1])})" if late else "the ladder was down"
            spent = (late[-1].ended if late else view.over) - end
            return failed(
                f"{what} {spent:.1f} s after the cause was over; full quality is to be back within {self.within:g} s",
                few([*(e.seq for e in moves), *_seqs(late)]),
            )
        since = max((r.ended for r in degraded if r.began <= limit), default=end)  # later ones are strays
        whole = [r for r in answers if not r.degraded and r.began > since]
        seqs = few([*(e.seq for e in (*moves, *features)), *_seqs(degraded[:1]), *_seqs(whole[:1])])
        if low or not whole:
            return unknown(f"the record ends {view.over - end:.1f} s after the cause was over, with quality down", seqs)
        took = max(since - end, 0.0)
        return passed(
            f"{counted(len(moves), 'move')} of the ladder and {len(features)} of features, a step at a time; "
            f"{counted(len(degraded), 'answer was', 'answers were')} degraded, full quality was back {took:.1f} s "
            "after the cause was over",
            seqs,
        )


def _jumped(moves: list[Event]) -> Verdict | None:
    at, last = TIERS[0], None
    for event in moves:
        before, after = str(event.get("before")), str(event.get("after"))
        shown = few([*([last.seq] if last else []), event.seq])
        if before != at:
            return failed(f"the ladder moved from {before} although it stood at {at}", shown)
        if before not in TIERS or after not in TIERS or abs(TIERS.index(before) - TIERS.index(after)) != 1:
            return failed(f"the ladder jumped from {before} to {after}", shown)
        at, last = after, event
    return None


def _down(event: Event) -> bool:
    before, after = event.get("before"), event.get("after")
    return before in TIERS and after in TIERS and TIERS.index(after) > TIERS.index(before)


def _how(request: Request) -> str:
    features = request.fact("features") or {}
    lesser = [f"{name} {value}" for name, value in features.items() if value not in ("live", "cached")]
    return ", ".join([str(request.fact("tier")), *lesser])


def _seqs(requests: list[Request]) -> list[int]:
    return [r.completed.seq for r in requests if r.completed is not None]
