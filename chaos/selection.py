"""Who is meant: selectors resolved against the members that live and the places that were declared. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from chaos.api import Member, Selection, Selector, Slot


def select(
    selectors: Sequence[Selector], slots: Sequence[Slot], members: Sequence[Member], nodes: Sequence[str] = ()
) -> tuple[Selection, ...]:
    """What each selector of one fault means now, in the same order.

    `nodes` are all nodes in order of declaration; those of the slots are added. A selection holds the live members
    that match, and the nodes that are meant, dead or alive: a node stays selected when its members have gone.
    """
    everywhere = tuple(
        dict.fromkeys((*nodes, *(s.node for s in slots if s.node), *(m.node for m in members if m.node)))
    )
    domains = _domains(slots)
    named = {i: _select(s, slots, members, everywhere, domains) for i, s in enumerate(selectors) if not s.rest}
    taken = {node for selection in named.values() for node in selection.nodes}
    rest = tuple(node for node in everywhere if node not in taken)
    return tuple(named[i] if i in named else _select(s, slots, members, rest, domains) for i, s in enumerate(selectors))


def matching(selector: Selector, slots: Iterable[Slot]) -> tuple[Slot, ...]:
    """The slots that every given field fits; `random`, `percent` and `rest` are not looked at."""
    slots = tuple(slots)
    domains = _domains(slots)
    return tuple(s for s in slots if _fits(selector, s, domains))


def standing(where: Mapping[str, Any], slots: Iterable[Slot]) -> tuple[Slot, ...]:
    """The slots of which one stands where a trigger with these conditions holds a member; none where nobody knows.

    Known from the fields by which a member says who it is: `source`, `member`, `node`, `rank`, or its role, as in
    `replica: replica-1`.
    """
    slots, told = tuple(slots), False
    for field, condition in where.items():
        of: Callable[[Slot], Any] | None = _SAYS.get(field)
        if of is None and field in {s.role for s in slots}:
            slots, of = tuple(s for s in slots if s.role == field), _SAYS["member"]
        if of is not None:
            told, slots = True, tuple(s for s in slots if condition.holds(of(s)))
    return slots if told else ()


_SAYS: Mapping[str, Callable[[Slot], Any]] = {
    "source": lambda slot: slot.name, "member": lambda slot: slot.name,
    "node": lambda slot: slot.node, "rank": lambda slot: slot.rank,
}  # fmt: skip


def is_empty(selector: Selector, selection: Selection) -> bool:
    """Whether nothing is selected: no live member where members are named, no node where places are."""
    return not (selection.members if _names_members(selector) else selection.nodes or selection.members)


def hurt(selectors: Sequence[Selector], selections: Sequence[Selection]) -> frozenset[str]:
    """What a fault hurts, as the limit `members-hurt` counts it.

    A selector that names members hurts each of them, one that names places hurts each node as one. Of a fault between
    two sides the smaller side is hurt: the other goes on.
    """
    sides = [
        frozenset(m.name for m in selection.members)
        if _names_members(selector)
        else frozenset(f"node {n}" for n in selection.nodes) or frozenset(m.name for m in selection.members)
        for selector, selection in zip(selectors, selections, strict=True)
    ]
    return min(sides, key=len, default=frozenset())


def _names_members(selector: Selector) -> bool:
    return bool(selector.names or selector.roles or selector.ranks)


def _domains(slots: Iterable[Slot]) -> Mapping[str, Mapping[str, str]]:
    """The failure domains of each member by name, and those that all members of a node share by the node's."""
    found: dict[str, Mapping[str, str]] = {}
    shared: dict[str, dict[str, str]] = {}
    for slot in slots:
        found[slot.name] = slot.domains
        if slot.node is not None:
            known = shared.setdefault(slot.node, dict(slot.domains))
            shared[slot.node] = {kind: name for kind, name in known.items() if slot.domains.get(kind) == name}
    return {**shared, **found}


def _fits(selector: Selector, one: Slot | Member, domains: Mapping[str, Mapping[str, str]]) -> bool:
    inside = domains.get(one.name) or domains.get(one.node or "", {})
    return (
        (not selector.names or one.name in selector.names)
        and (not selector.roles or one.role in selector.roles)
        and (not selector.ranks or one.rank in selector.ranks)
        and (not selector.nodes or one.node in selector.nodes)
        and all(inside.get(kind) == name for kind, name in selector.domains.items())
    )


def _select(
    selector: Selector,
    slots: Sequence[Slot],
    members: Sequence[Member],
    nodes: Sequence[str],
    domains: Mapping[str, Mapping[str, str]],
) -> Selection:
    hit = tuple(
        m
        for m in members
        if _fits(selector, m, domains) and (m.node in nodes or (m.node is None and not selector.rest))
    )
    if _names_members(selector):
        meant = {m.node for m in hit}
        # A rank follows the process that has it now; only when nobody has it, the place where it began is meant.
        if not (selector.ranks and hit):
            alive = {m.name for m in hit}
            meant |= {s.node for s in slots if s.name not in alive and _fits(selector, s, domains)}
    else:
        meant = {
            n
            for n in nodes
            if (not selector.nodes or n in selector.nodes)
            and all(domains.get(n, {}).get(kind) == name for kind, name in selector.domains.items())
        }
    return Selection(members=hit, nodes=tuple(n for n in nodes if n in meant))


def _is_there(member: Member, nodes: Sequence[str], selector: Selector) -> bool:
    return member.node in nodes if member.node is not None else not selector.rest
