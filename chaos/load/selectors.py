"""Selectors as they are written, and whether they can match anything that the target declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from chaos.api import Selector, Slot
from chaos.load.document import INVALID, Node, Problems, show
from chaos.load.reader import Reader
from chaos.registry import did_you_mean
from chaos.selection import matching

KEYS = ("names", "roles", "ranks", "nodes", "domains", "random", "percent", "rest")


class Written(NamedTuple):
    """A selector with its place in the file."""

    node: Node
    selector: Selector


def check_nodes(written: Sequence[Written], slots: Sequence[Slot], kind: str, problems: Problems) -> None:
    """Tell of selectors that match members of which none is on a node, for a fault that hits nodes."""
    for node, selector in written:
        found = () if selector.rest else matching(selector, slots)
        if found and not any(slot.node for slot in found):
            reason = f"`{kind}` hits nodes, and these are on none: {', '.join(slot.name for slot in found)}"
            problems.add(node.place, reason, "give members a `node` in the target file (docs/target.md)")


def read_selector(node: Node, problems: Problems) -> Any:
    """`{roles: [worker], random: 1}`, `{nodes: rest}`, … as a `Selector`; a single word may stand for a list."""
    before = len(problems)
    reader = Reader(problems)
    entries = reader.mapping(node, "a selector", KEYS)
    if isinstance(node.value, dict) and not node.value:
        problems.add(node.place, "a selector without a condition", f"say whom: {', '.join(KEYS)}")
    fields: dict[str, Any] = {}
    for key, below in entries.items():
        if key == "nodes" and below.value == "rest":
            fields["rest"] = True
        elif key == "rest":
            fields[key] = reader.read(below, bool)
        elif key == "percent":
            fields[key] = _percent(below, reader)
        elif key == "random":
            fields[key] = _at_least(below, 1, reader)
        elif key == "domains":
            fields[key] = reader.read(below, dict[str, str])
        else:
            fields[key] = _several(below, int if key == "ranks" else str, reader)
    if "random" in fields and "percent" in fields:
        problems.add(node.keys["percent"], "`random` and `percent` in one selector", "keep one")
    if not isinstance(node.value, dict) or len(problems) > before or INVALID in fields.values():
        return INVALID
    return Selector(**fields)


def _several(node: Node, type_: type, reader: Reader) -> Any:
    items = node.value if isinstance(node.value, list) else [node]
    if not items:
        reader.problems.add(node.place, "an empty list selects nothing", "name at least one")
        return INVALID
    read = tuple(reader.read(item, type_) for item in items)
    return INVALID if INVALID in read else read


def _at_least(node: Node, low: int, reader: Reader) -> Any:
    number = reader.read(node, int)
    if number is not INVALID and number < low:
        reader.problems.add(node.place, f"{show(number)} is not at least {low}")
        return INVALID
    return number


def _percent(node: Node, reader: Reader) -> Any:
    """`25` and `25%` are both a quarter."""
    text = node.value.removesuffix("%").strip() if isinstance(node.value, str) else node.value
    try:
        share = float(str(text)) if not isinstance(text, bool) else -1.0
    except ValueError:
        share = -1.0
    if not 0 < share <= 100:
        reader.problems.add(node.place, f"{show(node.value)} is no percentage", "more than 0, at most 100")
        return INVALID
    return share / 100


def check_selectors(written: Sequence[Written], slots: Sequence[Slot], problems: Problems) -> None:
    """Tell each selector of one fault that can match no member of the target."""
    others = [w.selector for w in written if not w.selector.rest]
    for node, selector in written:
        if selector.rest:
            _check_rest(node, others, slots, problems)
        elif _values_exist(node, selector, slots, problems):
            found = matching(selector, slots)
            if not found:
                problems.add(node.place, "selects no member: nobody meets all of its conditions")
            elif selector.random is not None and selector.random > len(found):
                reason = f"`random: {selector.random}` of {len(found)} that match"
                problems.add(node.keys["random"], reason, f"at most {len(found)}")


def _check_rest(node: Node, others: Sequence[Selector], slots: Sequence[Slot], problems: Problems) -> None:
    if not others:
        problems.add(node.place, "`nodes: rest` without a selector that it could be the rest of")
        return
    if any(o.random is not None or o.percent is not None for o in others):
        return  # who is left is known only once the dice are thrown
    taken = {slot.node for other in others for slot in matching(other, slots)}
    if not {slot.node for slot in slots} - taken - {None}:
        problems.add(node.place, "`nodes: rest` is nobody: the other selector has all nodes")


_FIELDS: Mapping[str, Callable[[Slot], object]] = {
    "names": lambda slot: slot.name,
    "roles": lambda slot: slot.role,
    "ranks": lambda slot: slot.rank,
    "nodes": lambda slot: slot.node,
}


def _values_exist(node: Node, selector: Selector, slots: Sequence[Slot], problems: Problems) -> bool:
    """Tell every name, role, rank, node and domain that no slot has."""
    before = len(problems)
    entries = node.value if isinstance(node.value, dict) else {}
    for key, of in _FIELDS.items():
        if key not in entries:
            continue
        known = {of(slot) for slot in slots} - {None}
        below = entries[key]
        for item in below.value if isinstance(below.value, list) else [below]:
            if item.value not in known:
                fix = did_you_mean(str(item.value), map(str, known))
                problems.add(item.place, f"the target has no {key[:-1]} {show(item.value)}", fix)
    domains = entries.get("domains")
    for kind, name in selector.domains.items():
        known_names = {slot.domains[kind] for slot in slots if kind in slot.domains}
        if name not in known_names and domains is not None and isinstance(domains.value, dict):
            kinds = {k for slot in slots for k in slot.domains}
            fix = did_you_mean(name, known_names) if kind in kinds else did_you_mean(kind, kinds)
            problems.add(domains.value[kind].place, f"the target has no {kind} `{name}`", fix)
    return len(problems) == before
