"""(experiment, seed) → schedule: every die is thrown here, so that a run can be shown, repeated and made smaller."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from chaos.api import Member, Selector, Slot
from chaos.errors import Problem, SpecError
from chaos.experiment import Action, Experiment, Schedule, Step, fault_of
from chaos.selection import hurt, is_empty, matching, select
from chaos.trigger import (
    After,
    AnyTrigger,
    At,
    Condition,
    Every,
    OnEvent,
    OnFile,
    OnLog,
    OnPhase,
    OnPoint,
    OnProbe,
    Poisson,
)  # fmt: skip
from chaos.units import counted

MOST_ACTIONS = 10_000


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One injection as `--plan` shows it."""

    step: str
    kind: str
    when: str
    hold: str
    members: tuple[str, ...]
    nodes: tuple[str, ...]
    sides: tuple[tuple[str, ...], ...] = ()  # nodes of each, for a fault between sides


def plan(experiment: Experiment, seed: int | None = None) -> Schedule:
    """The experiment with names and moments in place of dice. The same seed gives the same schedule, and each step
    throws its own dice: adding a step changes nothing for the others.

    Raises SpecError, with every reason, for a selector that matches no slot, a draw of more than there is, a step that
    would stand twice at once, and selections that are known to break `limits.members-hurt`.
    """
    seed = experiment.seed if seed is None else seed
    problems: list[str] = []
    actions: list[Action] = []
    for step in experiment.method:
        try:
            actions += _expand(step, experiment, random.Random(f"{seed} {step.name}"))
        except SpecError as error:
            problems += [f"step {step.name}: {p.reason}" for p in error.problems]
    if not problems:
        problems += _crowded(actions, experiment)
    if problems:
        raise SpecError([Problem(experiment.path, 0, 0, reason) for reason in problems])
    return Schedule(experiment=experiment.name, seed=seed, settings=experiment.target.settings, actions=tuple(actions))


def preview(schedule: Schedule, experiment: Experiment) -> tuple[Row, ...]:
    """Whom, when and how long, one row an injection, in the order of the schedule."""
    rows = []
    for action in schedule.actions:
        fault = fault_of(action, experiment)
        hit = select(fault.selectors(), experiment.target.slots, _everyone(experiment.target.slots))
        hold = "instant" if fault.instant else "until the end" if action.hold is None else f"{action.hold:g}s"
        rows.append(
            Row(
                step=action.step,
                kind=action.kind,
                when=in_words(action.when),
                hold=hold,
                members=tuple(dict.fromkeys(m.name for s in hit for m in s.members)),
                nodes=tuple(dict.fromkeys(n for s in hit for n in s.nodes)),
                sides=tuple(s.nodes for s in hit) if len(hit) > 1 else (),
            )
        )
    return tuple(rows)


def in_words(trigger: AnyTrigger) -> str:
    """A trigger as a person says it."""
    match trigger:
        case At(seconds=seconds):
            text = f"at {seconds:g}s"
        case Every(period=period, times=times):
            text = f"every {period:g}s" + (f", {counted(times, 'time')}" if times else "")
        case Poisson(rate=rate, times=times):
            text = f"{rate * 3600:g} times an hour at random" + (f", {counted(times, 'time')}" if times else "")
        case OnEvent(kind=kind):
            text = f"on event {kind}" + _counted(trigger)
        case OnPoint(point=point):
            text = f"at failpoint {point}" + _counted(trigger)
        case OnFile(path=path, op=op):
            text = f"before {op} of {path}" + _counted(trigger)
        case OnPhase(phase=phase, nth=nth):
            text = f"when {phase} begins" + (f", time {nth}" if nth > 1 else "")
        case OnLog(regex=regex, member=member, nth=nth):
            text = f"on log line /{regex}/ of {member or 'anyone'}" + (f", number {nth}" if nth > 1 else "")
        case OnProbe(probe=probe, condition=condition):
            text = f"when {probe} is {_condition(condition)}"
        case After(step=step, healed=healed):
            text = f"after {step} {'healed' if healed else 'landed'}"
    return text + (f", {trigger.delay:g}s later" if trigger.delay else "")


def _counted(trigger: OnEvent | OnPoint | OnFile) -> str:
    where = "".join(f", {field} {_condition(condition)}" for field, condition in trigger.where.items())
    return where + (f", number {trigger.nth}" if trigger.nth > 1 else "")


def _condition(condition: Condition) -> str:
    parts = [] if condition.equals is msgspec.UNSET else [f"= {condition.equals}"]
    parts += [] if condition.at_least is None else [f">= {condition.at_least:g}"]
    parts += [] if condition.at_most is None else [f"<= {condition.at_most:g}"]
    parts += [] if condition.one_of is None else [f"one of {', '.join(map(str, condition.one_of))}"]
    return " and ".join(parts)


# --- dice ------------------------------------------------------------------------------------------------------------


def _expand(step: Step, experiment: Experiment, dice: random.Random) -> list[Action]:
    """One action for each time that the step is injected; whom it hits is drawn anew each time."""
    actions = []
    for when in _moments(step, experiment.limits.wall, dice):
        fault = _map_selectors(step.fault, lambda s: _draw(s, experiment.target.slots, dice))
        hit = select(fault.selectors(), experiment.target.slots, _everyone(experiment.target.slots))
        for selector, selection in zip(fault.selectors(), hit, strict=True):
            if is_empty(selector, selection):
                raise SpecError(f"{_selector(selector)} selects no member of {experiment.target.name}")
        settings = msgspec.json.decode(msgspec.json.encode(fault))  # as it will be read back
        actions.append(Action(step=step.name, kind=step.kind, settings=settings, when=when, hold=step.hold))
        if len(actions) > MOST_ACTIONS:
            raise SpecError(f"more than {MOST_ACTIONS} injections; set `times`, a longer period or a smaller rate")
    return actions


def _moments(step: Step, wall: float, dice: random.Random) -> Iterator[AnyTrigger]:
    when = step.when
    if not isinstance(when, Every | Poisson):
        yield when
        return
    if step.hold is None and not step.fault.instant:
        raise SpecError("is repeated, so it needs a `hold`: it would stand more than once at one time")
    stands = 0.0 if step.fault.instant else step.hold or 0.0
    if isinstance(when, Every):
        if when.period <= 0 or stands >= when.period:
            raise SpecError(f"stands for {stands:g}s and is repeated every {when.period:g}s; the hold must be shorter")
        arrivals = _multiples(when.period)
    elif when.rate <= 0:
        raise SpecError("a rate must be more than 0")
    else:
        arrivals = _arrivals(when.rate, stands, dice)
    for number, moment in enumerate(arrivals):
        if moment > wall or (when.times is not None and number >= when.times):
            return
        yield At(seconds=moment, delay=when.delay)


def _multiples(period: float) -> Iterator[float]:
    number = 0
    while True:
        yield (number := number + 1) * period


def _arrivals(rate: float, stands: float, dice: random.Random) -> Iterator[float]:
    """Arrivals of a Poisson process, without those that fall into the time in which an earlier one still stands."""
    moment, free = 0.0, 0.0
    while True:
        moment += dice.expovariate(rate)
        if moment >= free:
            free = moment + stands
            yield round(moment, 6)


def _draw(selector: Selector, slots: Sequence[Slot], dice: random.Random) -> Selector:
    if selector.random is None and selector.percent is None:
        return selector
    names = [slot.name for slot in matching(selector, slots)]
    # As Litmus does: a share is rounded down, but one is always hit.
    share = 1.0 if selector.percent is None else selector.percent
    count = selector.random if selector.random is not None else max(1, int(share * len(names) + 1e-9))
    if not names:
        raise SpecError(f"{_selector(selector)} selects no member")
    if not 0 < count <= len(names):
        raise SpecError(f"{_selector(selector)} asks for {count} of {counted(len(names), 'member')}")
    chosen = set(dice.sample(names, count))
    return Selector(names=tuple(name for name in names if name in chosen))


def _map_selectors(value: Any, change: Callable[[Selector], Selector]) -> Any:
    """A copy of a fault in which every selector, wherever its fields hold one, is replaced."""
    if isinstance(value, Selector):
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)(_map_selectors(v, change) for v in value)
    if isinstance(value, dict):
        return {k: _map_selectors(v, change) for k, v in value.items()}
    if isinstance(value, msgspec.Struct):
        fields = {f: _map_selectors(getattr(value, f), change) for f in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    return value


def _everyone(slots: Sequence[Slot]) -> tuple[Member, ...]:
    return tuple(Member(name=s.name, role=s.role, pid=0, node=s.node, rank=s.rank) for s in slots)


def _selector(selector: Selector) -> str:
    return msgspec.json.encode(selector).decode()


# --- limits ----------------------------------------------------------------------------------------------------------


def _crowded(actions: Sequence[Action], experiment: Experiment) -> Iterator[str]:
    """Where more members are hurt at one time than the limit allows, as far as that is known before the run.

    Moments are known relative to the method's start, or to the same unknown moment (a step and those `after:` it).
    """
    most = experiment.limits.members_hurt
    if most is None:
        return
    spans = list(_spans(actions, experiment))
    told: set[tuple[str, ...]] = set()
    for root, start, _, _, _ in spans:
        standing = [s for s in spans if s[0] == root and s[1] <= start < s[2]]
        names = frozenset().union(*(s[3] for s in standing))
        steps = tuple(dict.fromkeys(s[4] for s in standing))
        if len(names) > most and steps not in told:
            told.add(steps)
            whom = ", ".join(sorted(names))
            yield f"{', '.join(steps)}: hurts {len(names)} at one time ({whom}), the limit is {most}"


def _spans(
    actions: Sequence[Action], experiment: Experiment
) -> Iterator[tuple[str, float, float, frozenset[str], str]]:
    """(what its moment is relative to, start, end, whom it hurts, step) of each action."""
    everyone = _everyone(experiment.target.slots)
    first = {a.step: a for a in reversed(actions)}
    for action in actions:
        fault = fault_of(action, experiment)
        root, start = _start(action, first)
        # An instant fault hurts at its moment only: when its victim is back, no plan can know.
        length = 1e-9 if fault.instant else float("inf") if action.hold is None else action.hold
        whom = hurt(fault.selectors(), select(fault.selectors(), experiment.target.slots, everyone))
        yield root, start, start + length, whom, action.step


def _start(action: Action, first: dict[str, Action]) -> tuple[str, float]:
    offset = 0.0
    for _ in range(len(first) + 1):  # no longer than a chain can be, should it hold a cycle
        when = action.when
        offset += when.delay
        if isinstance(when, At):
            return "method", offset + when.seconds
        if not isinstance(when, After) or when.step not in first:
            break
        action = first[when.step]
        offset += (action.hold or 0.0) if when.healed else 0.0
    return f"trigger of {action.step}", offset
