"""T7: the whole state comes back, and the resumed run equals the uninterrupted one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from chaos.api import Invariant, Ratio
from chaos.history import Event, History
from chaos.training import Execution, Group, Lineage, few, lineage
from chaos.units import counted
from chaos.verdict import Verdict, failed, passed, unknown

# What a reader calls the parts of the state, by their name in the events.
_PARTS = {
    "model": "model",
    "optimizer": "optimizer",
    "rng": "RNG",
    "schedule": "schedule",
    "data": "data position",
}
_PER_RANK = ("rng",)  # each rank's own, so only comparable at an unchanged world size

Origin = tuple[int, Any, int]  # from that step on, of that world size and micro-batch, since that group


class StateComplete(Invariant, frozen=True, kw_only=True):
    """Model, optimizer, RNG, schedule and data position all come back, and steps done again give the same result.

    Two checks. The state that each rank holds after a load equals the state at the saved cut, part by part. A step
    that is executed again equals its first execution: bit for bit, loss and samples, where the whole way to it was gone
    at the same world sizes; otherwise the loss within `tolerance` (relative), since another world size sums in another
    order and draws other random numbers. The reason says which of the two was checked. A load that the target rejected
    as damaged before a step was done with it is none.
    """

    id: ClassVar[str] = "T7"
    needs: ClassVar[tuple[str, ...]] = ("checkpoint.loaded", "step.completed")
    tolerance: Ratio = 0.05

    def check(self, history: History) -> Verdict:
        broken, evidence, blind = _loads(history)
        again = _Again(lineage(history), self.tolerance)
        diverged = again.compare(history)
        if broken is not None:
            if diverged is not None:
                more = f"; {diverged.reason}"
                return failed(broken.reason + more, sorted({*broken.evidence, *diverged.evidence}))
            return broken
        if diverged is not None:
            return diverged
        if not evidence and not again.evidence and not blind:
            return unknown("nothing was restored from a checkpoint, and no step was executed again")
        said = []
        if evidence:
            said.append(f"{counted(len(evidence) // 2, 'load holds', 'loads hold')} the saved state")
        if again.exact:
            said.append(
                f"{counted(again.exact, 'step done again equals', 'steps done again equal')} the first time bit for bit"
            )
        if again.near:
            said.append(
                f"{counted(again.near, 'step')} done again on another way (world size, resize, fresh start) had a "
                f"loss within {self.tolerance:.0%} (largest difference {again.largest:.2%}), not compared bit for bit"
            )
        shown = few([*few(evidence, 8), *few(again.evidence, 8)], 16)
        if blind:
            return unknown(
                "; ".join([f"{counted(blind, 'load')} could not be compared with what was saved", *said]), shown
            )
        return passed("; ".join(said), shown)


def _loads(history: History) -> tuple[Verdict | None, list[int], int]:
    """The first load that lost something, the evidence of those that did not, and how many nobody can judge."""
    saved: dict[Any, dict[Any, Event]] = {}
    worlds: dict[Any, Any] = {}
    evidence: list[int] = []
    blind = 0
    for event in history.of("checkpoint.begun", "checkpoint.saved", "checkpoint.loaded"):
        generation = event.get("generation")
        if event.kind == "checkpoint.begun":
            # Whoever begins may be recorded late: only what was saved before it happened is of an earlier try.
            saved[generation] = {r: e for r, e in saved.get(generation, {}).items() if e.t > event.t}
            worlds[generation] = event.get("world")
        elif event.kind == "checkpoint.saved":
            saved.setdefault(generation, {})[event.get("rank")] = event
        elif generation:
            cut = saved.get(generation) or {}
            world = worlds.get(generation) or len(cut)
            same_world = event.get("world") == world
            origin = cut.get(event.get("rank")) if same_world else next((cut[r] for r in sorted(cut)), None)
            if origin is None:
                blind += 1
                continue
            if _rejected(history, event):
                continue
            lost = _lost(origin, event, same_world)
            if lost:
                return (
                    failed(
                        f"lost: {', '.join(lost)}: rank {event.get('rank')} (epoch {event.get('epoch')}, world "
                        f"{event.get('world')}) does not hold what was saved in generation {generation} "
                        f"(step {origin.get('step')}, world {world})",
                        (origin.seq, event.seq),
                    ),
                    [],
                    blind,
                )
            if origin.get("state") and event.get("state"):
                evidence += [origin.seq, event.seq]
            else:
                blind += 1
    return None, evidence, blind


def _rejected(history: History, load: Event) -> bool:
    """Whether the target itself said that what it had loaded is damaged, before it did a step with it."""
    damaged = history.first("checkpoint.damaged", after=load.seq, generation=load.get("generation"))
    step = history.first("step.completed", after=load.seq, epoch=load.get("epoch"))
    return damaged is not None and (step is None or damaged.seq < step.seq)


def _lost(saved: Event, loaded: Event, same_world: bool) -> list[str]:
    was, now = saved.get("state") or {}, loaded.get("state") or {}
    lost = []
    for part in {**_PARTS, **was} if now else {}:
        if part not in was or (not same_world and (part in _PER_RANK or part not in now)):
            continue
        if now.get(part) != was[part]:
            lost.append(_PARTS.get(part, part))
    entries, had = loaded.get("optimizer_entries"), saved.get("optimizer_entries")
    if None not in (entries, had) and entries != had:
        lost = [*(p for p in lost if p != "optimizer"), f"optimizer ({entries} of {counted(had, 'entry', 'entries')})"]
    if None not in (saved.get("step"), loaded.get("step")) and saved.get("step") != loaded.get("step"):
        lost.append(f"step ({loaded.get('step')} instead of {saved.get('step')})")
    return lost


class _Again:
    """Steps that more than one group executed, compared."""

    def __init__(self, line: Lineage, tolerance: float) -> None:
        self.line, self.tolerance = line, tolerance
        self.exact = self.near = 0
        self.largest = 0.0
        self.evidence: list[int] = []

    def compare(self, history: History) -> Verdict | None:
        origins = _origins(history, self.line)
        before: dict[int, list[Execution]] = {}
        for group, run in zip(self.line.groups, self.line.runs, strict=True):
            for step in sorted(run):
                execution = run[step]
                for earlier in before.get(step, ()):
                    same = _until(origins[group.index], step) == _until(origins[earlier.group.index], step)
                    broken = self._bitwise(earlier, execution) if same else self._near(earlier, execution)
                    if broken is not None:
                        return broken
            for step, execution in run.items():
                before.setdefault(step, []).append(execution)
        return None

    def _bitwise(self, first: Execution, again: Execution) -> Verdict | None:
        ranks = first.ranks.keys() & again.ranks.keys()
        told = 0
        for rank in sorted(ranks):
            one, two = first.ranks[rank], again.ranks[rank]
            lost = []
            told += None not in (one.get("loss"), two.get("loss"))
            if one.get("samples") != two.get("samples"):
                lost.append("data position (other samples)")
            if one.get("loss") != two.get("loss"):
                lost.append(f"loss {two.get('loss')} instead of {one.get('loss')}")
            if lost:
                return failed(
                    f"step {again.step} done again by rank {rank} in epoch {again.group.epoch} differs from epoch "
                    f"{first.group.epoch} at the same world size {again.group.world}: {', '.join(lost)}",
                    (one.seq, two.seq),
                )
        if told:
            self.exact += 1
            self.evidence += [first.first.seq, again.first.seq]
        return None

    def _near(self, first: Execution, again: Execution) -> Verdict | None:
        one, two = _number(first.first.get("loss")), _number(again.first.get("loss"))
        if one is None or two is None:
            return None
        off = abs(one - two) / max(abs(one), 1e-12)
        if not off <= self.tolerance:  # NaN is never near
            return failed(
                f"world size: step {again.step} done again at world {again.group.world} (epoch {again.group.epoch}) "
                f"has loss {two:g}, at world {first.group.world} (epoch {first.group.epoch}) it had {one:g}: "
                f"{off:.1%} apart, {self.tolerance:.0%} allowed",
                (first.first.seq, again.first.seq),
            )
        self.near += 1
        self.largest = max(self.largest, off)
        self.evidence += [first.first.seq, again.first.seq]
        return None


def _origins(history: History, line: Lineage) -> list[list[Origin]]:
    """For each group the world sizes of the way to each of its steps, and which group brought each about.

    Random numbers after a resize may depend on the group that resized, so two resizes at one step are two ways.
    """
    savers: dict[Any, list[Event]] = {}
    for event in history.of("checkpoint.begun", "checkpoint.saved"):
        savers.setdefault(event.get("generation"), []).append(event)
    ways: list[list[Origin]] = []
    for group in line.groups:
        parent = _parent(savers, line.groups, group)
        way = _until(ways[parent.index], group.step) if parent is not None else []
        shape = (group.world, group.event.get("micro_batch"))
        if not way or way[-1][1] != shape:
            way = [*way, (group.step, shape, group.index)]
        ways.append(way)
    return ways


def _parent(savers: Mapping[Any, Sequence[Event]], groups: Sequence[Group], group: Group) -> Group | None:
    """The group that saved the generation that `group` began with, or whose live state it went on with."""
    if group.live and group.index:
        return groups[group.index - 1]
    if not group.generation:
        return None
    saved = [event for event in savers.get(group.generation, ()) if event.seq < group.seq]
    if saved:
        last = saved[-1]
        parents = [g for g in groups[: group.index] if g.epoch == last.get("epoch") and g.seq < last.seq]
    else:
        parents = [g for g in groups[: group.index] if g.step <= group.step]
    return parents[-1] if parents else None


def _until(way: Sequence[Origin], step: int) -> list[Origin]:
    """The way as far as it matters for the state after `step`."""
    return [origin for origin in way if origin[0] < step]


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
