"""T15: the answer fits what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from chaos.api import Invariant
from chaos.history import Event, History
from chaos.training import Group, Roster, few, lineage, listed
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

_NAMED = 2  # times that a device is named before it is excluded
_DATA = ("batch",)  # sites at which the data is wrong, and not the device


class FittingAnswer(Invariant, frozen=True, kw_only=True):
    """A device is excluded only with evidence, a slow rank is not restarted, memory that ran out is not tried again.

    Evidence is that the device was named at least twice, and that it was really hit: a wrong batch is no fault of the
    device that read it. A group that is formed anew for nothing but a straggler needs an eviction that gains more than
    it costs. After an exhausted memory something must change before the next group is formed.
    """

    id: ClassVar[str] = "T15"
    needs: ClassVar[tuple[str, ...]] = ("failure.detected",)

    def check(self, history: History) -> Verdict:
        roster = Roster(history)
        evidence: list[int] = []
        for excluded in history.of("device.excluded"):
            verdict = _unfounded(history, roster, excluded)
            if isinstance(verdict, Verdict):
                return verdict
            evidence += verdict
        groups = lineage(history).groups
        for before, group in pairwise(groups):
            declared = [e for e in history.of("failure.detected") if before.seq < e.seq < group.seq]
            if broken := _restarted(history, declared, before, group) or _repeated(history, declared, group):
                return broken
        judged = [e for e in history.of("failure.detected") if e.get("class") in _SAYS]
        if not evidence and not judged:
            return unknown("no device was excluded, no rank was slow, and no memory ran out")
        counts = {word: sum(e.get("class") == kind for e in judged) for kind, word in _SAYS.items()}
        said = [f"{count} {word}" for word, count in counts.items() if count]
        said += [f"{counted(len(history.of('device.excluded')), 'device')} excluded with evidence"] if evidence else []
        return passed(f"answered as they should be: {listed(said)}", few([*evidence, *(e.seq for e in judged)]))


_SAYS = {"corruption": "wrong values", "straggler": "slow ranks", "out-of-memory": "exhausted memories"}


def _unfounded(history: History, roster: Roster, excluded: Event) -> Verdict | list[int]:
    """The verdict on an exclusion without evidence, else the evidence."""
    node = excluded.get("node")
    named = [
        e
        for e in history.of("failure.detected", **{"class": "corruption"})
        if e.seq < excluded.seq and roster.node(e.get("member")) == node
    ]
    if len(named) < _NAMED:
        return failed(
            f"{node} was excluded though it had been named only {counted(len(named), 'time')}",
            [*(e.seq for e in named), excluded.seq],
        )
    hits = [e for e in history.of("hook.hit") if e.t <= excluded.t]
    own = [e for e in hits if roster.node(e.get("member")) == node and e.get("site") not in _DATA]
    if hits and not own:
        others = sorted({str(roster.node(e.get("member"))) for e in hits})
        return failed(
            f"{node} was excluded though nothing was wrong with it; values were changed on {listed(others)}",
            few([hits[0].seq, *(e.seq for e in named), excluded.seq]),
        )
    return [*(e.seq for e in own[:2]), *(e.seq for e in named), excluded.seq]


def _restarted(history: History, declared: Sequence[Event], before: Group, group: Group) -> Verdict | None:
    if not declared or any(e.get("class") != "straggler" for e in declared):
        return None
    evictions = [e for e in history.of("straggler.evicted") if e.seq < group.seq]
    if evictions:
        last = evictions[-1]
        gain, cost = last.get("gain"), last.get("cost")
        if None in (gain, cost) or gain > cost:
            return None
        return failed(
            f"{last.get('member')} was evicted though that gains {gain} s and costs {cost} s", (last.seq, group.seq)
        )
    slow = listed(sorted({str(e.get("member")) for e in declared}))
    return failed(
        f"epoch {group.epoch} was formed anew only because {slow} is slow: a straggler is no failure",
        few([*(e.seq for e in declared), group.seq]),
    )


def _repeated(history: History, declared: Sequence[Event], group: Group) -> Verdict | None:
    out = [e for e in declared if e.get("class") == "out-of-memory"]
    if not out or any(out[0].seq < e.seq < group.seq for e in history.of("memory.reconfigured")):
        return None
    return failed(
        f"epoch {group.epoch} was formed as it was though the memory of {out[0].get('member')} had run out",
        (out[0].seq, group.seq),
    )
