"""S4: an answer is right, or an error."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Duration, Invariant, Ratio
from chaos.history import History
from chaos.serving import SHED, Request, Service, service
from chaos.training import few
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_ENOUGH = 5  # answers of one kind, for a share of them to mean something


class NoWrongAnswer(Invariant, frozen=True, kw_only=True):
    """No answer with status 200 is wrong, whatever is broken.

    Judged from the answers that the client compared with a golden model (`right` of `request.completed`). What is
    found only by a known question now and then may be wrong for a moment: up to `most` answers, none later than
    `within` after a fault landed. There is no right answer to what its client asked wrongly, and it is wrong to call
    what was asked rightly its client's mistake (a 4xx, where `wrong` is told). At least the share
    `compared` of the answers since the first fault must have been compared, of rankings and of streams, and of each
    replica's; in a run without a fault, of all.
    """

    id: ClassVar[str] = "S4"
    needs: ClassVar[tuple[str, ...]] = ("request.completed",)
    most: int = 0
    within: Duration = 0.0
    compared: Ratio = 0.5

    def check(self, history: History) -> Verdict:
        view = service(history)
        answered = [r for r in view.ended() if r.status == 200]
        wrong = [r for r in answered if r.fact("right") is False or r.wrong]
        if blamed := [r for r in view.ended() if r.sent is not None and r.sent.get("wrong") is False and _blames(r)]:
            one = "right request was called a mistake of its client"
            many = "right requests were called mistakes of their clients"
            return failed(
                f"{counted(len(blamed), one, many)}: {blamed[0].id} ended with {blamed[0].status}",
                few([_seq(r) for r in blamed]),
            )
        late = [r for r in wrong if not self._excused(view, r)]
        if late or len(wrong) > self.most:
            return self._failed(view, late or wrong, len(wrong))
        if not view.control and not view.faults:
            return unknown("no fault landed")
        since = view.faults[0].landed.t if view.faults else 0.0
        judged = [r for r in answered if r.ended > since]
        compared = [r for r in judged if r.fact("right") is not None]
        when = "after the first fault" if view.faults else "in a run without a fault"
        if not compared:
            return unknown(f"no answer was compared {when}")
        if len(compared) < self.compared * len(judged):
            return unknown(
                f"only {len(compared)} of {counted(len(judged), 'answer')} {when} were compared",
                few([_seq(r) for r in compared]),
            )
        if gap := self._unseen(judged):
            return unknown(f"{gap} {when} were compared", few([_seq(r) for r in compared]))
        said = f"; {len(wrong)} were wrong until it was found out" if wrong else ", all right"
        seqs = [*(f.landed.seq for f in view.faults[:1]), *(_seq(r) for r in (*wrong, *compared))]
        return passed(f"{len(compared)} of {counted(len(judged), 'answer')} {when} were compared{said}", few(seqs))

    def _unseen(self, judged: list[Request]) -> str:
        """Whose answers nobody looked at; empty where all were looked at alike."""
        groups: dict[str, list[bool]] = {}
        for request in judged:
            compared = request.fact("right") is not None
            for name in ("streams" if request.stream else "rankings", request.fact("replica")):
                if name is not None:
                    groups.setdefault(str(name), []).append(compared)
        for name, seen in sorted(groups.items()):
            if len(seen) >= _ENOUGH and sum(seen) < self.compared * len(seen):
                return f"only {sum(seen)} of {counted(len(seen), 'answer')} of {name}"
        return ""

    def _excused(self, view: Service, request: Request) -> bool:
        return any(f.injecting.t <= request.ended <= f.landed.t + self.within for f in view.faults) and self.most > 0

    def _failed(self, view: Service, shown: list[Request], count: int) -> Verdict:
        first = shown[0]
        event = first.completed
        assert event is not None
        whose = f"{event.get('replica')}, generation {event.get('generation')}"
        rung = f", {event.get('tier')}" if event.get("tier") else ""
        before = [f for f in view.faults if f.injecting.t <= event.t]
        when = f" {max(event.t - before[-1].landed.t, 0.0):.2f} s after {before[-1].step}" if before else ""
        allowed = f"; {self.most} are allowed, within {self.within:g} s of a fault" if self.most else ""
        return failed(
            f"{counted(count, 'answer with status 200 was', 'answers with status 200 were')} wrong; request "
            f"{first.id} ({whose}{rung}){when}{allowed}",
            few([*(f.landed.seq for f in before[-1:]), *(_seq(r) for r in shown)]),
        )


def _blames(request: Request) -> bool:
    """Whether it says that its client erred, and not that time or room was short."""
    return 400 <= request.status < 500 and request.status not in (408, 425, SHED, 499)


def _seq(request: Request) -> int:
    assert request.completed is not None
    return request.completed.seq
