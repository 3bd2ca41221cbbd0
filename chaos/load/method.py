"""The steps of a method, and how they refer to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from chaos.api import Duration, Links, Selector, Slot, capability_of
from chaos.experiment import Step
from chaos.load.document import INVALID, Node, Problems, show
from chaos.load.hypotheses import unique_names
from chaos.load.plugins import find
from chaos.load.reader import Reader
from chaos.load.selectors import Written, check_nodes, check_selectors, read_selector
from chaos.load.triggers import Scope, read_trigger
from chaos.registry import Registry, did_you_mean
from chaos.selection import matching, standing
from chaos.storage import Power
from chaos.trigger import After, OnFile, OnPoint

OWN = ("fault", "name", "when", "hold")


def read_method(node: Node, scope: Scope, registry: Registry, problems: Problems) -> tuple[Step, ...]:
    """The steps; `after` names steps, whatever was written."""
    if isinstance(node.value, dict) and "mix" in node.value:
        problems.add(node.keys["mix"], "a `mix` is not there yet", "write the method as a list of steps")
        return ()
    if not isinstance(node.value, list):
        if node.value is not INVALID:
            reason = f"`method` is a list of steps, not {show(node.value)}"
            problems.add(node.place, reason, "`method: []` is an experiment without a fault")
        return ()
    names = unique_names(node.value, "fault", problems)
    read = [_step(item, name, scope, registry, problems) for item, name in zip(node.value, names, strict=True)]
    places = _after_places(node.value)
    steps = {name: step for name, step in zip(names, read, strict=True) if step is not INVALID}
    _resolve_after(steps, names, [_kind(item) for item in node.value], places, problems)
    _check_after(steps, dict(zip(names, places, strict=True)), problems)
    return tuple(steps.values())


def _step(node: Node, name: str, scope: Scope, registry: Registry, problems: Problems) -> Any:
    written: list[Written] = []

    def selector(node: Node) -> Any:
        read = read_selector(node, problems)
        if read is not INVALID:
            written.append(Written(node, read))
        return read

    reader = Reader(problems, {Selector: selector})
    cls: Any = find(node, "fault", registry, reader)
    entries = node.value if isinstance(node.value, dict) else {}
    fault: Any = INVALID
    if cls is not INVALID:
        fault = reader.struct(node, cls, f"`{_kind(node)}`", ignore=OWN)
    if isinstance(node.value, dict) and "when" not in entries:
        problems.add(node.place, "no trigger", "add `when:` with at, event, point, log, probe, after, every or poisson")
    when: Any = read_trigger(entries["when"], reader, scope) if "when" in entries else INVALID
    if "name" in entries:
        reader.read(entries["name"], str)
    hold = reader.read(entries["hold"], Duration) if "hold" in entries else None
    if cls is not INVALID and cls.instant and hold is not None:
        problems.add(node.keys["hold"], f"`{_kind(node)}` is done in an instant: nothing to hold", "remove `hold`")
    if hold == 0:
        problems.add(entries["hold"].place, "a hold of zero: it would be healed as soon as it has landed", "such as 5s")
    if scope.target is not None and fault is not INVALID:
        check_selectors(written, scope.target.slots, problems)
        if hits_nodes(cls):
            check_nodes(written, scope.target.slots, _kind(node), problems)
        for key in (key for key in fault.sections() if key not in scope.target.raw):
            reason = f"`{_kind(node)}` cannot be carried out: the target file has no `{key}`"
            problems.add(entries["fault"].place, reason, f"declare it there (docs/target.md, `{key}`)")
        links = scope.target.raw.get("links")
        if links and "link" in entries and isinstance(link := getattr(fault, "link", None), str) and link not in links:
            problems.add(entries["link"].place, f"the target has no link `{link}`", did_you_mean(link, links))
    if fault is INVALID or when is INVALID:
        return INVALID
    if scope.target is not None:
        _check_held(fault, when, written, scope.target.slots, entries["when"], problems)
    return Step(name=name, kind=_kind(node), fault=fault, when=when, hold=None if hold is INVALID else hold)


def _check_held(
    fault: Any, when: Any, written: Sequence[Written], slots: Sequence[Slot], node: Node, problems: Problems
) -> None:
    """Refuse a fault that waits for its victim while its victim waits for the fault."""
    if not fault.awaits or not isinstance(when, OnPoint | OnFile) or not written:
        return
    if any(w.selector.random is not None or w.selector.percent is not None for w in written):
        return  # whom it hits is known only once the dice are thrown
    victims = {slot.name for w in written for slot in matching(w.selector, slots)}
    held = {slot.name for slot in standing(when.where, slots)} or {slot.name for slot in slots}
    if held <= victims:
        who = next(iter(held)) if len(held) == 1 else "a member that it hits"
        what = "at that failpoint" if isinstance(when, OnPoint) else "before that file operation"
        reason = f"never lands: it waits until {who} has done something, and {who} stands {what} until it has landed"
        problems.add(node.place, reason, "trigger it by an event, or where another member stands")


def hits_nodes(fault: type) -> bool:
    """Whether it cuts nodes off or takes their power, so that who is on no node cannot be hit."""
    need = capability_of(fault)
    return need is not None and not {Links, Power}.isdisjoint(need.__mro__)


def _kind(node: Node) -> str:
    return str(node.value["fault"].plain()) if isinstance(node.value, dict) and "fault" in node.value else ""


def _after_places(nodes: Sequence[Node]) -> list[Node | None]:
    """The node of each step's `after`, None where it has none."""
    found: list[Node | None] = []
    for node in nodes:
        when = node.value.get("when") if isinstance(node.value, dict) else None
        found.append(when.value.get("after") if when is not None and isinstance(when.value, dict) else None)
    return found


def _resolve_after(
    steps: dict[str, Step],
    names: Sequence[str],
    kinds: Sequence[str],
    places: Sequence[Node | None],
    problems: Problems,
) -> None:
    """Put the name of the step in place of what was written, which may be its kind."""
    for name, node in zip(names, places, strict=True):
        step = steps.get(name)
        if node is None or step is None or not isinstance(step.when, After):
            continue
        target = step.when.step
        of_kind = [n for n, kind in zip(names, kinds, strict=True) if kind == target]
        if target in names:
            continue
        if len(of_kind) == 1:
            steps[name] = msgspec.structs.replace(step, when=msgspec.structs.replace(step.when, step=of_kind[0]))
        elif of_kind:
            problems.add(node.place, f"{len(of_kind)} steps are `{target}`", f"name one: {', '.join(of_kind)}")
        else:
            problems.add(node.place, f"no step is named `{target}`", did_you_mean(target, names))


def _check_after(steps: Mapping[str, Step], places: Mapping[str, Node | None], problems: Problems) -> None:
    """Tell cycles once each, and waits for a heal that never comes."""
    told: set[str] = set()
    for name, step in steps.items():
        node = places[name]
        if node is None or not isinstance(step.when, After):
            continue
        trail = [name]
        current = steps.get(step.when.step)
        while current is not None and current.name not in trail:
            trail.append(current.name)
            current = steps.get(current.when.step) if isinstance(current.when, After) else None
        if current is not None and current.name == name and name not in told:
            told.update(trail)
            ring = " after ".join(f"`{n}`" for n in (*trail, name))
            problems.add(node.place, f"a cycle: {ring}", "start one of them by another trigger")
        before = steps.get(step.when.step)
        if step.when.healed and before is not None:
            if before.fault.instant:
                problems.add(node.place, f"`{before.name}` is done in an instant and never healed", "remove `healed`")
            elif before.hold is None:
                reason = f"`{before.name}` is held to the end, so its heal comes too late"
                problems.add(node.place, reason, f"give `{before.name}` a `hold`")
