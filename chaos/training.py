"""What a training history means: the groups that were formed, the generations, the lineage of the steps.

Invariants and the measurement of recovery both read a history through this, so that they agree on what a frontier, a
lasting step or a good generation is. Everything is a pure function of the history and costs one pass over its events.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from chaos.history import Event, History

_WHOLE = 0.9  # of its time that a fault stood; what is missing of less is no timer's fault


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """One incarnation of the group of ranks, in the order in which they were formed."""

    index: int
    epoch: Any
    world: int | None
    generation: int  # restored from; 0: a fresh start
    step: int  # the state it began with is that after this step
    event: Event  # that says it was formed; its first step for a target that never says so
    nodes: tuple[str, ...] = ()
    forming: Event | None = None  # the declaration of this re-formation
    live: bool = False  # went on with the state that its members held, beyond that of `generation`

    @property
    def seq(self) -> int:
        return self.event.seq

    @property
    def t(self) -> float:
        return self.event.t


class Execution:
    """One step as one group executed it: the event of each rank that completed it.

    `again` holds what a rank that had completed it already said of it once more: no group does a step twice.
    """

    __slots__ = ("again", "first", "group", "last", "ranks", "step")

    def __init__(self, step: int, group: Group, event: Event) -> None:
        self.step = step
        self.group = group
        self.ranks: dict[Any, Event] = {}
        self.again: list[Event] = []
        self.first = self.last = event

    def take(self, event: Event) -> None:
        """A rank has completed it."""
        if self.ranks.setdefault(event.data.get("rank"), event) is not event:
            self.again.append(event)
        self.last = event

    @property
    def whole(self) -> bool:
        """Whether every rank of the group completed it."""
        world = self.group.world or self.first.get("world") or 1
        return len(self.ranks) >= world and not any(isinstance(r, int) and r >= world for r in self.ranks)

    def samples(self) -> list[Any]:
        """Sample ids that all ranks together consumed, or say that they left out for good."""
        both = ("samples", "quarantined")
        return [s for _, e in sorted(self.ranks.items()) for key in both for s in e.data.get(key) or ()]


class Lineage:
    """The groups of a run and who executed which step. `runs[i]` holds group i's executions in order of steps."""

    def __init__(self, history: History) -> None:
        self.groups = _groups(history)
        self.runs: list[dict[int, Execution]] = [{} for _ in self.groups]
        self._ordered: dict[int, list[Execution]] = {}
        by_epoch: dict[Any, list[Group]] = {}
        for group in self.groups:
            by_epoch.setdefault(group.epoch, []).append(group)
        for event in history.of("step.completed"):
            data = event.data
            epoch, step = data.get("epoch"), data.get("step")
            if step is None:
                continue
            known = by_epoch.get(epoch)
            if known is None:
                known = by_epoch[epoch] = [self._implicit(event)]
            group = known[0] if len(known) == 1 else _at(known, event.seq)
            run = self.runs[group.index]
            execution = run.get(step)
            if execution is None:
                execution = run[step] = Execution(step, group, event)
            execution.take(event)

    def _implicit(self, event: Event) -> Group:
        # A target that never said that a group was formed: its steps are one.
        step = (event.get("step") or 1) - 1
        group = Group(
            index=len(self.groups),
            epoch=event.get("epoch"),
            world=event.get("world"),
            generation=0,
            step=step,
            event=event,
        )
        self.groups.append(group)
        self.runs.append({})
        return group

    @cached_property
    def lasting(self) -> list[Execution]:
        """The executions that no later restore discarded, in order of steps: what the job is made of."""
        kept: list[Execution] = []
        for group, run in zip(self.groups, self.runs, strict=True):
            while kept and kept[-1].step > group.step:
                kept.pop()
            kept.extend(run[step] for step in sorted(run))
        return kept

    def group_at(self, seq: int) -> Group | None:
        """The newest group formed before that event."""
        formed = [g for g in self.groups if g.seq < seq]
        return formed[-1] if formed else None

    def ordered(self, group: int) -> list[Execution]:
        """That group's executions in the order in which they were begun, which is that of the steps."""
        found = self._ordered.get(group)
        if found is None:
            found = self._ordered[group] = list(self.runs[group].values())
        return found

    def frontier(self, event: Event) -> tuple[int, Execution | None]:
        """The last step that any rank of the group had completed at that event, and its execution.

        What was recorded before it or happened before it counts, so a loss is never shown smaller than it was.
        Without a step in this group: the step that the group was restored to.
        """
        group = self.group_at(event.seq)
        if group is None:
            return 0, None
        run = self.ordered(group.index)
        end = bisect_left(run, event.seq, key=lambda e: e.first.seq)
        while end < len(run) and run[end].first.t <= event.t:
            end += 1
        return (run[end - 1].step, run[end - 1]) if end else (group.step, None)

    def progress(self, step: int, seq: int) -> Execution | None:
        """The first step beyond `step` that a whole group completed after event `seq`."""
        best: Execution | None = None
        for group in self.groups:
            if best is not None and group.seq > best.last.seq:
                break
            run = self.ordered(group.index)
            start = max(
                bisect_left(run, seq + 1, key=lambda e: e.last.seq), bisect_left(run, step + 1, key=lambda e: e.step)
            )
            found = next((e for e in islice(run, start, None) if e.whole), None)
            if found is not None and (best is None or found.last.seq < best.last.seq):
                best = found
        return best


def _at(groups: Sequence[Group], seq: int) -> Group:
    index = bisect_left(groups, seq, key=lambda g: g.seq)
    return groups[max(index - 1, 0)]


def _groups(history: History) -> list[Group]:
    found: list[Group] = []
    forming: Event | None = None
    for event in history.of("group.forming", "group.formed"):
        if event.kind == "group.forming":
            forming = event
            continue
        found.append(
            Group(
                index=len(found),
                epoch=event.get("epoch"),
                world=event.get("world"),
                generation=event.get("generation") or 0,
                step=event.get("step") or 0,
                nodes=tuple(event.get("nodes") or ()),
                event=event,
                forming=forming,
                live=bool(event.get("live")),
            )
        )
        forming = None
    return found


_lineages: WeakKeyDictionary[History, Lineage] = WeakKeyDictionary()


def lineage(history: History) -> Lineage:
    """The lineage of that history; worked out once."""
    known = _lineages.get(history)
    if known is None:
        known = _lineages[history] = Lineage(history)
    return known


def grows(history: History, before: Group, group: Group, declared: Sequence[Event]) -> bool:
    """Whether a group was formed to take in more ranks, which nothing has to fail for; `declared`: what did."""
    more = before.world is None or group.world is None or group.world > before.world
    if actions := history.of("recovery.action", epoch=group.epoch):
        return more and any(a.get("action") in ("grow", "replica-rejoin") for a in actions)
    return (group.world or 0) > (before.world or 0) and not declared


class Generations:
    """Commits, removals and damage of all generations, in the order in which they were recorded."""

    KINDS = ("checkpoint.committed", "checkpoint.aborted", "checkpoint.removed", "checkpoint.damaged")

    def __init__(self) -> None:
        self.committed: dict[int, Event] = {}  # good as far as anyone said: neither aborted, removed nor damaged
        self.gone: dict[int, Event] = {}  # once committed, and what ended it

    def take(self, event: Event) -> None:
        """Move on by one event of `KINDS`."""
        generation = event.get("generation")
        if event.kind == "checkpoint.committed":
            # An idempotent second commit does not make a damaged generation good.
            if generation not in self.gone or self.gone[generation].kind == "checkpoint.aborted":
                self.committed.setdefault(generation, event)
        elif generation in self.committed:
            del self.committed[generation]
            self.gone[generation] = event

    @property
    def newest(self) -> int:
        """The newest good generation; 0 when there is none."""
        return max(self.committed, default=0)


def generations_before(history: History, seqs: Sequence[int]) -> Iterator[tuple[int, Mapping[int, Event]]]:
    """For each of the ascending `seqs`: the good generations (with their commit) just before that event."""
    state, events = Generations(), iter(history.of(*Generations.KINDS))
    event = next(events, None)
    for seq in seqs:
        while event is not None and event.seq < seq:
            state.take(event)
            event = next(events, None)
        yield seq, dict(state.committed)


def few(seqs: Sequence[int], most: int = 12) -> tuple[int, ...]:
    """Evidence for a reader: the first ones and the last, ascending, at most `most`."""
    ordered = sorted(set(seqs))
    return tuple(ordered if len(ordered) <= most else [*ordered[: most - 1], ordered[-1]])


def listed(items: Sequence[Any], most: int = 8) -> str:
    """`1, 2, 3 and 5 more` for reasons that a person reads."""
    shown = ", ".join(str(i) for i in items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"


class Struck(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that landed, from its injection to its heal."""

    step: str
    landed: Event
    injecting: Event
    healed: Event | None
    members: tuple[str, ...]
    nodes: tuple[str, ...]

    @property
    def whom(self) -> tuple[str, ...]:
        """Whom to name: the members; of a fault between sides the nodes of the smaller, since the other goes on."""
        sides = [tuple(side) for side in self.landed.get("sides") or ()]
        return min(sides, key=len) if sides else self.members or self.nodes

    @property
    def instant(self) -> bool:
        """Whether nothing stands after the injection."""
        return bool(self.landed.get("instant"))

    def stands(self, end: float) -> float:
        """Until when it stood, on the clock of `Event.t`; `end` where no heal is on record."""
        if self.instant:
            return self.landed.t
        return self.healed.t if self.healed else end


def strikes(history: History) -> tuple[Struck, ...]:
    """All faults that landed, in order."""
    opened: dict[str, Event] = {}
    found: list[tuple[Event, Event]] = []
    healed: dict[int, Event] = {}
    standing: dict[str, int] = {}
    for event in history.of("fault.injecting", "fault.landed", "fault.healed"):
        if event.kind == "fault.injecting":
            opened[event.source] = event
        elif event.kind == "fault.landed":
            found.append((opened.pop(event.source, event), event))
            standing[event.source] = event.seq
        elif event.source in standing:
            healed[standing.pop(event.source)] = event
    return tuple(
        Struck(
            step=landed.source.removeprefix("fault:"),
            landed=landed,
            injecting=injecting,
            healed=healed.get(landed.seq),
            members=tuple(landed.get("members") or ()),
            nodes=tuple(landed.get("nodes") or ()),
        )
        for injecting, landed in found
    )


def cut_off(history: History, step: str) -> str:
    """Of a fault that the end of the run healed before its time, whenever it struck: how long it stood; else empty."""
    hold = next((e.get("hold") for e in history.of("fault.armed") if e.source == f"fault:{step}"), None)
    stood = [
        f.healed.t - (f.healed.get("seconds") or 0.0) - f.landed.t
        for f in strikes(history)
        if f.step == step and f.healed is not None and not f.instant
    ]
    if hold is None or not stood or max(stood) >= _WHOLE * hold:
        return ""
    return f"{max(stood):.1f} s of the {hold:g} s that it was to stand, since the run ended"


def job_over(history: History, fault: Struck) -> Event | None:
    """The completion of the job, where it came before the fault landed: then the fault shows nothing."""
    return history.last("job.completed", before=fault.landed.seq)


class Roster:
    """Who is who: role, node and rank of every member that the record names."""

    def __init__(self, history: History) -> None:
        self.members: dict[str, Mapping[str, Any]] = {}
        started = history.first("run.started")
        for slot in (started.get("slots") if started else None) or ():
            self.members[slot["name"]] = slot
        for event in history.of("member.started"):
            self.members[event.get("member") or event.source] = event.data

    def node(self, member: Any) -> Any:
        """The node a member lives on; a node's own name is its node."""
        return self.members.get(member, {}).get("node") or member

    def hit(self, fault: Struck) -> frozenset[str]:
        """Names of the members and nodes that a fault hits, each member of a hit node included."""
        nodes = set(fault.nodes)
        return frozenset({*fault.members, *nodes, *(m for m, d in self.members.items() if d.get("node") in nodes)})

    def struck(self, fault: Struck) -> frozenset[str]:
        """As `hit`; of a fault between sides the smaller one only, since the other goes on."""
        if not fault.landed.get("sides"):
            return self.hit(fault)
        return self.hit(msgspec.structs.replace(fault, members=(), nodes=fault.whom))

    def ranks(self, names: frozenset[str]) -> bool:
        """Whether a rank, or the agent that holds one, is among them."""
        found = (self.members.get(name, {}) for name in names)
        return any(d.get("rank") is not None or d.get("role") in ("worker", "agent") for d in found)
