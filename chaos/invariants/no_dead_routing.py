"""S2: traffic leaves a dead replica."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Duration, Invariant
from chaos.history import History
from chaos.serving import RACE, Attempt, Dead, Service, service
from chaos.training import few
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_TRIAL = 1.0  # within so many seconds after a breaker is half open, one attempt is its trial


class NoDeadRouting(Invariant, frozen=True, kw_only=True):
    """After a replica has died, at most `most` requests go to it, and none any more once `within` has passed.

    Dead is one that has ended, is frozen, or is cut off from the router. Judged from the attempts that the router made
    (`attempt.completed`; its start is what counts). One trial each time that its breaker is half open is no routing,
    up to `most` of them. To be judged, the replica must have been asked before it died, others must be asked for
    something after `within`, and every attempt that an answer counts must be on record.
    """

    id: ClassVar[str] = "S2"
    needs: ClassVar[tuple[str, ...]] = ("attempt.completed", "request.completed")
    within: Duration = 2.0
    most: int = 20

    def check(self, history: History) -> Verdict:
        view = service(history)
        dead = [d for d in view.dead() if min(d.until, view.over) > d.since]
        if not dead:
            return unknown("no replica died while there was load")
        evidence: list[int] = []
        said: list[str] = []
        doubts: list[str] = []
        for one in dead:
            routed, trials = self._routed(view, one)
            if verdict := self._too_many(one, routed, trials):
                return verdict
            what = (
                f"{one.replica} ({one.how}): {counted(len(routed), 'request')} and {counted(len(trials), 'trial')} "
                "went to it"
            )
            if doubt := self._doubt(view, one):
                doubts.append(f"{what}, but {doubt}")
            else:
                said.append(what)
            evidence += [one.cause.seq, *(a.seq for a in routed[-1:])]
        if doubts:
            return unknown("; ".join(doubts), few(evidence))
        return passed("; ".join(said), few(evidence))

    def _routed(self, view: Service, dead: Dead) -> tuple[list[Attempt], list[Attempt]]:
        """What went to it while it was dead: requests as any other, and trials of its breaker."""
        until = min(dead.until, view.over) - RACE
        sent = sorted(
            (a for a in view.attempts.get(dead.replica, ()) if dead.since + RACE < a.began < until and not a.draining),
            key=lambda a: a.began,
        )
        trials: list[Attempt] = []
        for opened in view.history.of("breaker.half_opened", name=dead.replica):
            if found := next((a for a in sent if opened.t - RACE <= a.began <= opened.t + _TRIAL), None):
                sent.remove(found)
                trials.append(found)
        return sent, trials

    def _too_many(self, dead: Dead, routed: list[Attempt], trials: list[Attempt]) -> Verdict | None:
        what = f"{dead.replica} ({dead.how})"
        if late := [a for a in routed if a.began > dead.since + self.within]:
            return failed(
                f"{counted(len(late), 'request')} went to {what} more than {self.within:g} s after it had died, the "
                f"last after {late[-1].began - dead.since:.1f} s",
                few([dead.cause.seq, *(a.seq for a in late)]),
            )
        if len(routed) > self.most:
            return failed(
                f"{counted(len(routed), 'request')} went to {what} after it had died; {self.most} are allowed",
                few([dead.cause.seq, *(a.seq for a in routed)]),
            )
        if len(trials) > self.most:
            return failed(
                f"{counted(len(trials), 'trial')} of its breaker went to {what}; {self.most} are allowed",
                few([dead.cause.seq, *(a.seq for a in trials)]),
            )
        return None

    def _doubt(self, view: Service, dead: Dead) -> str:
        """Why nothing follows from it that no more went to it; empty where it does."""
        until, late = min(dead.until, view.over), dead.since + self.within
        if not any(a.ended < dead.since for a in view.attempts.get(dead.replica, ())):
            return "it had not been asked anything before"
        if until <= late:
            return f"that was over after {until - dead.since:.1f} s"
        asked = [r for r in view.requests.values() if dead.since < r.began < until and not r.unsent]
        if not any(r.began > late for r in asked):
            return f"nobody asked for anything later than {self.within:g} s"
        lost = [r for r in asked if r.completed is not None and (r.fact("attempts") or 0) > len(r.attempts)]
        # Whose answer counts none: the router may have sent it to the dead one, and wait there still.
        silent = [
            r
            for r in asked
            if not r.attempts and r.shed is None and r.fact("attempts") is None and not r.wrong
            and r.began + (r.fact("deadline") or 0) < view.over and r.status in (0, 504)
        ]  # fmt: skip
        if lost or silent:
            return f"attempts of {counted(len(lost) + len(silent), 'request')} are not on record"
        return ""
