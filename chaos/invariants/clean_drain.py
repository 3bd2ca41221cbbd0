"""S5: a planned stop loses nothing."""

from __future__ import annotations

import math
from typing import ClassVar

from chaos.api import Duration, Invariant
from chaos.history import Event, History
from chaos.serving import RACE, Attempt, Drain, Request, Service, service
from chaos.training import few, listed
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_PATIENCE = 0.4  # of the deadline: a shorter attempt that broke off was cut
_TOLD = ("process.preempt",)  # faults that tell a member to stop


class CleanDrain(Invariant, frozen=True, kw_only=True):
    """A member that is told to stop ends what is in flight, takes nothing new, and exits; no client notices.

    Judged from `drain.begun` and `drain.ended` with the attempts (of a replica) or requests (of the router) in between.
    What was in flight must succeed where it was, unless its time ran out; what is asked of it later must be refused
    (503, draining), and nobody may ask it any more once `within` has passed; a request that was refused so must succeed
    elsewhere. One that was sent within `within` before may have been on its way, and be refused as well. The drain must
    be over within `limit`, with nothing cut and exit code 0. A drain with nothing in flight shows nothing.
    """

    id: ClassVar[str] = "S5"
    needs: ClassVar[tuple[str, ...]] = ("drain.begun", "drain.ended", "request.completed")
    within: Duration = 1.0
    limit: Duration = 15.0

    def check(self, history: History) -> Verdict:
        view = service(history)
        if cut := self._never_drained(view):
            return cut
        drains = [d for d in view.drains if d.begun.t < view.over and view.role(d.member) in ("replica", "router")]
        if not drains:
            return unknown("nobody was told to stop while there was load")
        evidence: list[int] = []
        said: list[str] = []
        for drain in drains:
            if verdict := self._ended_well(view, drain) or self._served_well(view, drain):
                return verdict
            flight = self._in_flight(view, drain)
            evidence += [drain.begun.seq, *flight[-1:], *([drain.ended.seq] if drain.ended else [])]
            if flight:
                said.append(f"{drain.member} ended {counted(len(flight), 'request')} in flight")
        if not said:
            return unknown(f"nothing was in flight when {listed([d.member for d in drains])} drained", few(evidence))
        if open_ := [d.member for d in drains if d.ended is None and d.exited is None]:
            return unknown(f"the record ends while {listed(open_)} drains", few(evidence))
        if untold := [d for d in drains if d.ended is None or d.ended.get("lost") is None]:
            who = listed([d.member for d in untold])
            return unknown(f"nobody tells what {who} cut at the end", few([d.begun.seq for d in untold]))
        return passed(f"{counted(len(drains), 'drain')} lost nothing: {'; '.join(said)}", few(evidence))

    def _never_drained(self, view: Service) -> Verdict | None:
        """Somebody was told to stop, and just stopped."""
        for fault in view.faults:
            if fault.landed.get("kind") not in _TOLD or fault.landed.t >= view.over:
                continue
            for member in fault.members:
                if view.role(member) not in ("replica", "router"):
                    continue
                if any(d.member == member and d.begun.t >= fault.injecting.t - RACE for d in view.drains):
                    continue
                gone = view.history.first("member.exited", after=fault.injecting.seq, member=member)
                how = f" and ended with {gone.get('code')}" if gone else ""
                seqs = sorted(e.seq for e in (fault.landed, gone) if e is not None)
                return failed(f"{member} was told to stop ({fault.step}){how}, and never drained", seqs)
        return None

    def _ended_well(self, view: Service, drain: Drain) -> Verdict | None:
        ends = [e for e in (drain.begun, drain.ended, drain.exited) if e is not None]
        if drain.ended is not None and (lost := drain.ended.get("lost")):
            return failed(f"{drain.member} cut {counted(lost, 'request')} at the end of its drain", _seqs(*ends))
        code = drain.exited.get("code") if drain.exited else 0
        if drain.exited is not None and code != 0 and drain.exited.t < view.over:
            return failed(f"{drain.member} ended with {code} while it drained", _seqs(*ends))
        took = min(drain.until, view.over) - drain.begun.t
        if took > self.limit:
            how = "took" if drain.until < math.inf else "was not over after"
            return failed(f"the drain of {drain.member} {how} {took:.1f} s; {self.limit:g} s are allowed", _seqs(*ends))
        return None

    def _served_well(self, view: Service, drain: Drain) -> Verdict | None:
        return self._router(view, drain) if view.role(drain.member) == "router" else self._replica(view, drain)

    def _replica(self, view: Service, drain: Drain) -> Verdict | None:
        begun, until = drain.begun.t, min(drain.until, view.over)
        mine = [a for a in view.attempts.get(drain.member, ()) if a.ended > begun and a.began < until]
        here = begun - self.within  # what was sent before was surely there
        cut = [a for a in mine if a.failed and a.began < begun and not _gave_up(view, a)]
        if lost := [*cut, *(a for a in mine if a.draining and a.began < here)]:
            return self._lost(drain, lost)
        late = [a for a in mine if a.began > begun + RACE]
        if taken := [a for a in late if a.status == 200]:
            return failed(
                f"{drain.member} took {counted(len(taken), 'new request')} after it had begun to drain, the last "
                f"{taken[-1].began - begun:.2f} s after",
                few([drain.begun.seq, *(a.seq for a in taken)]),
            )
        if asked := [a for a in late if a.began > begun + self.within]:
            return failed(
                f"{counted(len(asked), 'request was', 'requests were')} sent to {drain.member} more than "
                f"{self.within:g} s after it had begun to drain",
                few([drain.begun.seq, *(a.seq for a in asked)]),
            )
        touched = {a.request for a in mine}
        if hurt := [r for r in (view.requests[i] for i in touched) if r.errs]:
            worst = min(hurt, key=lambda r: r.began)
            return failed(
                f"{counted(len(hurt), 'client')} noticed that {drain.member} was told to stop: request {worst.id} "
                f"ended with {worst.status}",
                few([drain.begun.seq, *worst.seqs()]),
            )
        return None

    def _lost(self, drain: Drain, lost: list[Attempt]) -> Verdict:
        return failed(
            f"{counted(len(lost), 'request in flight was', 'requests in flight were')} lost when {drain.member} was "
            f"told to stop: {lost[0].request} ended with {lost[0].status or 'no answer'}",
            few([drain.begun.seq, *(a.seq for a in lost)]),
        )

    def _router(self, view: Service, drain: Drain) -> Verdict | None:
        begun = drain.begun.t
        if lost := [r for r in self._open(view, drain) if r.errs]:
            return failed(
                f"{counted(len(lost), 'request in flight was', 'requests in flight were')} lost when {drain.member} "
                f"was told to stop: {lost[0].id} ended with {lost[0].status or 'no answer'}",
                few([drain.begun.seq, *lost[0].seqs()]),
            )
        until = min(drain.until, view.over)
        taken = [r for r in view.ended() if r.status == 200 and begun + RACE < _arrived(r) < until]
        if taken:
            return failed(
                f"{drain.member} took {counted(len(taken), 'new request')} after it had begun to drain",
                few([drain.begun.seq, *taken[0].seqs()]),
            )
        return None

    def _open(self, view: Service, drain: Drain) -> list[Request]:
        """The requests that the router had taken when its drain began."""
        begun = drain.begun.t
        return [r for r in view.requests.values() if r.attempts and _arrived(r) < begun < r.ended]

    def _in_flight(self, view: Service, drain: Drain) -> list[int]:
        begun = drain.begun.t
        if view.role(drain.member) == "router":
            return [r.attempts[-1].seq for r in self._open(view, drain)]
        return [a.seq for a in view.attempts.get(drain.member, ()) if a.began < begun < a.ended]


def _gave_up(view: Service, attempt: Attempt) -> bool:
    """Whether it lasted so long that the router will have given it up by itself, as it does when it is not draining."""
    deadline = float(view.requests[attempt.request].fact("deadline") or math.inf)
    return attempt.status == 0 and attempt.ended - attempt.began > _PATIENCE * deadline


def _arrived(request: Request) -> float:
    """When the router surely had it; infinite where nobody tells."""
    return math.inf if not request.attempts or request.arrived is None else request.arrived


def _seqs(*events: Event) -> tuple[int, ...]:
    return few([e.seq for e in events])
