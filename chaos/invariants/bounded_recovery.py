"""T11: progress resumes in time, or the job ends with an error."""

from __future__ import annotations

from typing import Any, ClassVar

from chaos.api import Duration, Invariant
from chaos.history import Event, History
from chaos.standstill import standstill
from chaos.training import Group, Struck, few, job_over, lineage, listed, strikes
from chaos.verdict import Verdict, failed, passed, unknown


class BoundedRecovery(Invariant, frozen=True, kw_only=True):
    """After each fault the job gets beyond where it was within `within`, or ends with a non-zero exit code.

    Progress is a step beyond the frontier at the fault, completed by every rank of a group. A target that the fault
    itself ended has neither recovered nor said that it cannot. Failures of their own kind: survivors that hang, more
    than `restarts` re-formations in a row that no new fault explains and that bring no progress, or failures of one
    member that leave the job without progress (a restart loop), and a job that is neither at work nor at its end
    (half-dead).
    """

    id: ClassVar[str] = "T11"
    needs: ClassVar[tuple[str, ...]] = ("step.completed",)
    within: Duration = 60.0
    restarts: int = 3

    def check(self, history: History) -> Verdict:
        faults = strikes(history)
        if loop := self._loop(history, faults) or self._never_formed(history, faults):
            return loop
        if hung := history.first("target.hung"):
            reason, shown = standstill(history, hung, self.restarts)
            return failed(reason, few([*(f.landed.seq for f in faults), *(e.seq for e in shown), hung.seq]))
        if not faults:
            return unknown("no fault landed")
        evidence: list[int] = []
        doubts: list[str] = []
        slowest = 0.0
        for fault in faults:
            verdict = self._recovered(history, fault)
            if isinstance(verdict, str):
                doubts.append(verdict)
            elif isinstance(verdict, Event):
                evidence += [fault.landed.seq, verdict.seq]
                slowest = max(slowest, verdict.t - fault.landed.t)
            else:
                return verdict
        if doubts:
            return unknown("; ".join(doubts), few(evidence))
        return passed(
            f"after each fault the job was beyond its frontier, or over, within {slowest:.1f} s", few(evidence)
        )

    def _recovered(self, history: History, fault: Struck) -> Event | Verdict | str:
        """The event that shows the recovery, a failure, or why it cannot be told."""
        if job_over(history, fault):
            return f"the job was over when {fault.step} landed"
        frontier, _ = lineage(history).frontier(fault.landed)
        step = lineage(history).progress(frontier, fault.landed.seq)
        ends = [e for k in ("job.completed", "target.finished") if (e := history.first(k, after=fault.landed.seq))]
        end = min(ends, key=lambda e: e.seq, default=None)
        reached = min((e for e in (step.last if step else None, end) if e), key=lambda e: e.seq, default=None)
        what = f"{fault.step} at step {frontier}"
        if reached is None:
            spent = history[-1].t - fault.landed.t
            if spent > self.within:
                return failed(
                    f"half-dead job: {spent:.1f} s after {what} it had neither gone beyond that step nor ended",
                    (fault.landed.seq, history[-1].seq),
                )
            return f"the record ends {spent:.1f} s after {what}"
        if reached.kind == "target.finished" and reached.get("code") == 0:
            return failed(
                f"after {what} the job ended with exit code 0 without being done", (fault.landed.seq, reached.seq)
            )
        if reached.kind == "target.finished" and reached.get("code", 0) < 0 and _struck(history, reached.get("member")):
            return failed(
                f"after {what} nothing went on: a fault ended {reached.get('member')}, and with it the target",
                (fault.landed.seq, reached.seq),
            )
        if (spent := reached.t - fault.landed.t) > self.within:
            return failed(
                f"{spent:.1f} s passed after {what} until the job was beyond it or over; {self.within:g} s are allowed",
                (fault.landed.seq, reached.seq),
            )
        return reached

    def _loop(self, history: History, faults: tuple[Struck, ...]) -> Verdict | None:
        line = lineage(history)
        beyond = 0
        futile: list[Group] = []
        for group, run in zip(line.groups, line.runs, strict=True):
            if group.index and not self._planned(history, group):
                futile.append(group)
            reached = max((s for s, e in run.items() if e.whole), default=0)
            if reached > beyond:
                beyond, futile = reached, []
            struck = sum(1 for f in faults if futile and f.landed.seq > line.groups[futile[0].index - 1].seq)
            if len(futile) - struck > self.restarts:
                return failed(
                    f"restart loop: the group was formed {len(futile)} times in a row (epochs "
                    f"{listed([g.epoch for g in futile])}) without getting beyond step {beyond}",
                    few([g.seq for g in futile]),
                )
        return None

    def _never_formed(self, history: History, faults: tuple[Struck, ...]) -> Verdict | None:
        futile: list[Event] = []
        for event in history.of("group.forming", "group.formed"):
            if event.kind == "group.formed":
                futile = []
                continue
            futile.append(event)
            struck = sum(1 for f in faults if futile[0].seq < f.landed.seq < event.seq)
            if len(futile) - struck > max(self.restarts, 1):  # the first attempt repeats nothing
                return failed(
                    f"restart loop: a group was to be formed {len(futile)} times in a row (epochs "
                    f"{listed([e.get('epoch') for e in futile])}) and never was",
                    few([e.seq for e in futile]),
                )
        return None

    def _planned(self, history: History, group: Group) -> bool:
        return any(True for _ in history.of("recovery.action", action="grow", epoch=group.epoch))


def _struck(history: History, member: Any) -> bool:
    return any(member in fault.members for fault in strikes(history))
