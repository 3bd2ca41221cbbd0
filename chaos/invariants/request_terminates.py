"""S3: every request ends."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Duration, Invariant
from chaos.history import History
from chaos.serving import Request, Service, service
from chaos.training import few, listed
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_TIMED = 0.95  # of the requests must tell their deadline


class RequestTerminates(Invariant, frozen=True, kw_only=True):
    """Each request that was sent ends by its deadline and `grace`, with an answer or an error.

    Judged from what the client saw (`request.sent`, `request.completed`). A client that gave up by itself (error
    `timeout`) was left alone: that is no end. Somebody must have asked for something while each fault stood, or after
    one that does not stand, and most requests must tell their deadline; requests that were never sent since no client
    was free, and those still on their way when the load ends, are not judged.
    """

    id: ClassVar[str] = "S3"
    needs: ClassVar[tuple[str, ...]] = ("request.sent", "request.completed")
    grace: Duration = 0.8

    def check(self, history: History) -> Verdict:
        view = service(history)
        sent = [r for r in view.requests.values() if (r.sent or r.completed) is not None and not r.unsent]
        timed = [r for r in sent if r.fact("deadline") is not None]
        if not timed:
            return unknown("no request with a deadline was sent")
        bad: list[tuple[Request, str]] = []
        done: list[Request] = []
        for request in timed:
            if said := self._left_alone(view, request):
                bad.append((request, said))
            elif request.completed is not None:
                done.append(request)
        if bad:
            request, said = bad[0]
            more = f", as did {len(bad) - 1} more of {len(timed)}" if len(bad) > 1 else ""
            return failed(
                f"request {request.id} {said}{more} (such as {listed([r.id for r, _ in bad], 3)})",
                few([s for r, _ in bad[:6] for s in r.seqs()]),
            )
        if len(timed) < _TIMED * len(sent):
            bare = next(r for r in sent if r.fact("deadline") is None)
            return unknown(
                f"{len(sent) - len(timed)} of {counted(len(sent), 'request')} had no deadline", few(bare.seqs())
            )
        if sum(r.sent is not None for r in sent) < _TIMED * len(sent):
            return unknown("nobody tells what was sent: a request that never ended would leave no trace")
        return self._asked(view, done)

    def _left_alone(self, view: Service, request: Request) -> str:
        deadline = request.fact("deadline")
        if request.completed is None:
            waited = view.over - request.began
            if waited > deadline + self.grace:
                return f"never ended ({waited:.1f} s on record, its deadline was {deadline:g} s)"
            return ""
        took = max(request.completed.get("latency") or 0.0, request.ended - request.began)
        if request.fact("error") == "timeout":
            return f"got no answer by its deadline: its client gave up after {took:.2f} s ({deadline:g} s)"
        if took > deadline + self.grace:
            return f"ended after {took:.2f} s, its deadline was {deadline:g} s"
        return ""

    def _asked(self, view: Service, done: list[Request]) -> Verdict:
        if not done:
            return unknown("the record ends before any request had to")
        said = f"{counted(len(done), 'request')} ended by their deadlines"
        if view.control:
            return passed(f"{said}; nothing was broken", few([r.completed.seq for r in done if r.completed]))
        if not view.faults:
            return unknown("no fault landed")
        landed = view.faults[0].landed
        under = [r for r in done if r.began > landed.t]
        if not under:
            return unknown("nobody asked for anything after the fault", (landed.seq,))
        if alone := [f for f in view.faults if view.untried(f)]:
            when = "after" if alone[0].instant else "while it stood, after"
            return unknown(f"nobody asked for anything {when} {alone[0].step}", (alone[0].landed.seq,))
        errors = sum(r.status != 200 for r in under)
        seqs = few([landed.seq, *(r.completed.seq for r in under if r.completed)])
        return passed(f"{said}; {len(under)} of them were sent after the fault, {errors} of these with an error", seqs)
