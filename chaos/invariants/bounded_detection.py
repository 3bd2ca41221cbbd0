"""T10: a dead or hung rank is noticed in time, and a healthy one is not taken for dead."""

from __future__ import annotations

from typing import ClassVar

from chaos.api import Duration, Invariant
from chaos.history import Event, History
from chaos.training import Group, Roster, Struck, few, grows, job_over, lineage, strikes
from chaos.verdict import Verdict, failed, passed, unknown

# An exit that the target sees first may be recorded just after the declaration, seconds; a worker that is ended because
# of a declaration takes longer.
_RACE = 0.01
_CALM = 3  # whole steps after a fault that show that it has no consequences any more


class BoundedDetection(Invariant, frozen=True, kw_only=True):
    """Every fault that costs a rank is declared a failure within `within`; no failure is declared without one.

    A group that is formed again without such a declaration, and not to take in more ranks, is a failure that was kept
    quiet; a rank that dies while a group is being formed, and is left out of it, was noticed. A fault that was healed
    before `within` had passed may go unnoticed when work went on after it. A declaration is explained by a fault that
    hit that member, as long as the fault stood, until the group was formed again, and `within` beyond; for the peers of
    those hit, by a fault that still stood or was not recovered from; and for anyone by the fact that the member had
    really died. A fault that was over within `transient` explains none: it is waited out, and a restart because of it
    is a false alarm.
    """

    id: ClassVar[str] = "T10"
    needs: ClassVar[tuple[str, ...]] = ("failure.detected", "step.completed")
    within: Duration = 10.0
    transient: Duration = 0.0

    def check(self, history: History) -> Verdict:
        if not history.first("step.completed"):
            return unknown("no step was completed: nobody was healthy to begin with")
        faults, roster = strikes(history), Roster(history)
        damage = history.first("checkpoint.damaged") is not None
        for event in history.of("failure.detected"):
            if (event.get("class") == "corruption" and damage) or _died(history, event):
                continue  # the damage or death itself is on record: whoever caused it, this is no false alarm
            if not any(self._explains(history, roster, fault, event) for fault in reversed(faults)):
                return self._false_alarm(faults, event)
        if not faults:
            if history.first("fault.armed"):
                return unknown("no fault landed")
            last = history.last("step.completed")
            assert last is not None
            return passed(f"no false alarm up to step {last.get('step')}", (last.seq,))
        costly = [f for f in faults if f.members or f.nodes]
        return self._noticed(history, roster, costly) if costly else unknown("no fault hit a member or a node")

    def _false_alarm(self, faults: tuple[Struck, ...], event: Event) -> Verdict:
        kind = f"{event.get('class')}: " if event.get("class") else ""
        what = f"{event.get('member')} was declared failed ({kind}{event.get('reason')})"
        passing = [f for f in faults if f.injecting.seq < event.seq and self._transient(f)]
        if not passing:
            return failed(f"false alarm: {what} though no fault explains it", (event.seq,))
        fault = passing[-1]
        stood = fault.stands(fault.landed.t) - fault.landed.t
        return failed(
            f"a transient fault cost a restart: {what} for {fault.step}, which was over after {stood:.1f} s",
            few([fault.landed.seq, event.seq]),
        )

    def _transient(self, fault: Struck) -> bool:
        """Whether it was over so soon that it had to be waited out."""
        return not fault.instant and fault.healed is not None and fault.healed.t - fault.landed.t <= self.transient

    def _noticed(self, history: History, roster: Roster, faults: list[Struck]) -> Verdict:
        done = history.first("job.completed")
        end = done.t if done is not None else history[-1].t  # nobody has to be missed any more
        evidence: list[int] = []
        said: list[str] = []
        doubts: list[str] = []
        for fault in faults:
            if job_over(history, fault):
                doubts.append(f"the job was over when {fault.step} landed")
                continue
            who = ", ".join(fault.members or fault.nodes)
            found = self._detection(history, roster, fault)
            quiet = self._quiet(history, roster, fault)
            if quiet is not None and (found is None or found.seq >= quiet.seq):
                return failed(
                    f"the group was formed again {quiet.t - fault.landed.t:.1f} s after {fault.step} of {who} (epoch "
                    f"{quiet.epoch}), and nobody declared any failure",
                    (fault.landed.seq, quiet.seq),
                )
            if found is not None and found.t - fault.landed.t <= self.within:
                evidence += [fault.landed.seq, found.seq]
                said.append(f"{fault.step} noticed after {max(found.t - fault.landed.t, 0.0):.2f} s")
            elif harmless := self._harmless(history, roster, fault, end):
                evidence += [fault.landed.seq, harmless.seq]
                said.append(f"{fault.step} did no harm: work went on")
            elif found is None and end - fault.landed.t < self.within:
                doubts.append(f"the {'job' if done else 'record'} ends {end - fault.landed.t:.1f} s after {fault.step}")
            else:
                when = f"only after {found.t - fault.landed.t:.1f} s" if found else "never"
                seqs = (fault.landed.seq, found.seq) if found else (fault.landed.seq,)
                return failed(f"{fault.step} of {who} was noticed {when}; {self.within:g} s are allowed", seqs)
        if doubts:
            return unknown("; ".join(doubts), few(evidence))
        return passed("; ".join(said), few(evidence))

    def _quiet(self, history: History, roster: Roster, fault: Struck) -> Group | None:
        """The next group, where nothing tells why the one that the fault hit was given up for it."""
        line = lineage(history)
        group = next((g for g in line.groups if g.seq > fault.landed.seq), None)
        if group is None or not group.index:
            return None
        before = line.groups[group.index - 1]
        begun = history.last("group.forming", before=fault.landed.seq)
        told = history.first("failure.detected", after=before.seq)
        if (told is not None and told.seq < group.seq) or (begun is not None and begun.seq > before.seq):
            return None
        if not (fault.instant and roster.ranks(roster.hit(fault))) and grows(history, before, group, ()):
            return None
        since = fault.landed if fault.instant else fault.healed
        went_on = line.progress(line.frontier(since)[0] + _CALM, since.seq) if since else None
        return group if went_on is None or went_on.last.seq > group.seq else None

    def _detection(self, history: History, roster: Roster, fault: Struck) -> Event | None:
        """The declaration that belongs to a fault; a takeover or a warning between injection and proof counts.

        Where nobody declared anything, the next group that works without those who were hit shows that they were
        missed: a rank that dies while a group is being formed is simply left out of it.
        """
        hit = roster.hit(fault)
        places = _places(hit, roster)
        kinds = ("failure.detected",) if roster.ranks(hit) else ("failure.detected", "recovery.action", "lease.expired")
        declared = [e for e in history.of(*kinds) if e.seq > fault.injecting.seq]
        own = (e for e in declared if e.kind == "failure.detected" and roster.node(e.get("member")) in places)
        line = lineage(history)
        working = (
            g.event for g in line.groups if g.seq > fault.landed.seq and any(e.whole for e in line.ordered(g.index))
        )
        return next(own, None) or next(iter(declared), None) or next(working, None)

    def _harmless(self, history: History, roster: Roster, fault: Struck, end: float) -> Event | None:
        """The step that shows that work went on although nobody noticed anything."""
        frontier, _ = lineage(history).frontier(fault.landed)
        gone = fault.instant and roster.ranks(roster.hit(fault))
        if gone or fault.stands(end) - fault.landed.t > self.within:
            return None
        since = fault.healed or fault.landed
        step = lineage(history).progress(frontier, since.seq)
        return step.last if step else None

    def _explains(self, history: History, roster: Roster, fault: Struck, event: Event) -> bool:
        if fault.injecting.seq > event.seq or self._transient(fault):
            return False
        end = history[-1].t
        formed = next((g.t for g in lineage(history).groups if g.seq > fault.landed.seq), end)
        stood = fault.stands(end)
        if roster.node(event.get("member")) in _places(roster.hit(fault), roster):
            return event.t <= max(stood, formed) + self.within
        if event.t <= stood:
            return True
        # A peer of those hit: only while the fault's own consequences last. Work that went on while it stood says
        # nothing: a store that is back after seconds has lost its clients' leases only then.
        since = fault.healed or fault.landed
        frontier, _ = lineage(history).frontier(since)
        went_on = lineage(history).progress(frontier + _CALM, since.seq)
        return event.t <= formed and (went_on is None or went_on.last.seq > event.seq)


def _places(hit: frozenset[str], roster: Roster) -> set[str]:
    return {roster.node(name) for name in hit} | hit


def _died(history: History, event: Event) -> bool:
    """Whether the member had ended by itself since its group was formed, before it was declared failed."""
    group = lineage(history).group_at(event.seq)
    since = group.seq if group else -1
    return any(
        since < gone.seq and gone.t <= event.t + _RACE and gone.get("code") != 0 and not gone.get("expected")
        for gone in history.of("member.exited", member=event.get("member"))
    )
