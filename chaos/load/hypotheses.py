"""Steady-state hypotheses and abort conditions: a probe, one bound, when it must hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from chaos.experiment import Hypothesis, Mode
from chaos.load.document import INVALID, Node, Problems, show
from chaos.load.plugins import find
from chaos.load.reader import Reader, is_number
from chaos.registry import Registry
from chaos.trigger import Condition
from chaos.units import NUMBER, PARSERS, UnitError, parse_ratio

BOUNDS = ("at-least", "at-most", "between", "equals")
_OF_BASELINE = re.compile(r"(.*\S)\s+of\s+baseline")
# In which dimension a bound may be written, by the unit of the probe.
_DIMENSION: Mapping[str, str] = {
    "s": "duration", "seconds": "duration",
    "B": "size", "bytes": "size",
    "ratio": "ratio", "share": "ratio", "fraction": "ratio", "%": "ratio",
    "1/s": "rate", "/s": "rate",
}  # fmt: skip


def read_hypotheses(
    steady: Node | None, abort: Node | None, registry: Registry, problems: Problems
) -> tuple[tuple[Hypothesis, ...], tuple[Hypothesis, ...], Mapping[str, str]]:
    """Both lists, and the unit by the name of each, those of entries with mistakes included."""
    reader = Reader(problems)
    entries = reader.sequence(steady, "`steady-state-hypothesis`") if steady else []
    guards = reader.sequence(abort, "`abort`") if abort else []
    names = unique_names([*entries, *guards], "probe", problems)
    read = [
        _read(node, name, reader, registry, guard=i >= len(entries))
        for i, (node, name) in enumerate(zip((*entries, *guards), names, strict=True))
    ]
    first, second = read[: len(entries)], read[len(entries) :]
    units = dict.fromkeys(names, "") | {h.name: h.probe.unit for h in (*_valid(first), *_valid(second))}
    return _valid(first), _valid(second), units


def _valid(read: Sequence[Any]) -> tuple[Hypothesis, ...]:
    return tuple(item for item in read if item is not INVALID)


def unique_names(nodes: Sequence[Node], word: str, problems: Problems) -> list[str]:
    """A name for each: its `name:`, else its kind, numbered where several share it. A name given twice is told."""
    written = [node.value if isinstance(node.value, dict) else {} for node in nodes]
    kinds = [str(entry[word].plain()) if word in entry else "" for entry in written]
    anonymous = Counter(kind for kind, entry in zip(kinds, written, strict=True) if "name" not in entry)
    counted: Counter[str] = Counter()
    names: list[str] = []
    for kind, entry in zip(kinds, written, strict=True):
        if "name" in entry:
            name = str(entry["name"].plain())
            if name in names:
                problems.add(entry["name"].place, f"the name `{name}` is given twice", "names are unique")
        else:
            counted[kind] += 1
            name = kind if anonymous[kind] == 1 else f"{kind}-{counted[kind]}"
        names.append(name)
    return names


def _read(node: Node, name: str, reader: Reader, registry: Registry, guard: bool) -> Any:
    own = ("probe", "name", *BOUNDS) if guard else ("probe", "name", "mode", *BOUNDS)
    cls = find(node, "probe", registry, reader)
    if cls is INVALID or not isinstance(node.value, dict):
        return INVALID
    problems, before = reader.problems, len(reader.problems)
    probe = reader.struct(node, cls, f"`{node.value['probe'].value}`", ignore=own)
    if "name" in node.value:
        reader.read(node.value["name"], str)
    mode = reader.read(node.value["mode"], Mode) if "mode" in own and "mode" in node.value else Mode.EDGE
    bound, of_baseline = read_bound(node, cls.unit, reader)
    if of_baseline and mode is Mode.BEFORE:
        problems.add(node.value["mode"].place, "the baseline cannot be held against itself", "give an absolute bound")
    if len(problems) > before or INVALID in (probe, bound, mode):
        return INVALID
    kind = str(node.value["probe"].value)
    mode = Mode.CONTINUOUS if guard else mode
    return Hypothesis(name=name, kind=kind, probe=probe, bound=bound, of_baseline=of_baseline, mode=mode)


def read_bound(node: Node, unit: str, reader: Reader) -> tuple[Any, bool]:
    """The condition of the one bound in a mapping, and whether it is a multiple of the baseline."""
    entries, problems = node.value if isinstance(node.value, dict) else {}, reader.problems
    given = [key for key in entries if key in BOUNDS]
    if not given:
        problems.add(node.place, "no bound, so nothing would be judged", f"one of {', '.join(BOUNDS)}")
        return INVALID, False
    for key in given[1:]:
        problems.add(node.keys[key], f"two bounds: `{given[0]}` and `{key}`", "`between: [low, high]` is both")
    key, below = given[0], entries[given[0]]
    items = [below]
    if key == "between":
        items = reader.sequence(below, "`between`")
        if isinstance(below.value, list) and len(items) != 2:
            problems.add(below.place, f"`between` has two bounds, not {len(items)}", "[low, high]")
            return INVALID, False
    read = [_tolerance(item, unit, reader) for item in items]
    values, relative = [value for value, _ in read], {of for _, of in read}
    if len(values) != len(items) or not values or INVALID in values:
        return INVALID, False
    if len(relative) > 1:
        problems.add(below.place, "one bound is of the baseline, the other is not", "write both in the same way")
        return INVALID, False
    if key == "between":
        if values[0] > values[1]:
            problems.add(below.place, "the low bound is above the high one", "[low, high]")
        return Condition(at_least=values[0], at_most=values[1]), relative.pop()
    return Condition(**{key.replace("-", "_"): values[0]}), relative.pop()


def _tolerance(node: Node, unit: str, reader: Reader) -> tuple[Any, bool]:
    """`12.5`, `90%`, `2s`, `12 samples/s` or `0.7 of baseline`: a number in the unit of the probe."""
    value = node.value
    if is_number(value):
        return float(value), False
    dimension = _DIMENSION.get(unit)
    such = f"the probe gives a number in {unit}" if unit else "the probe gives a bare number"
    if not isinstance(value, str):
        if value is not INVALID:
            reader.problems.add(node.place, f"{show(value)} can never be met as a bound", such)
        return INVALID, False
    relative = _OF_BASELINE.fullmatch(value.strip())
    try:
        if relative:
            return parse_ratio(relative[1]), True
        number, _, rest = value.strip().partition(" ")
        if re.fullmatch(rf"[-+]?{NUMBER}", number) and (not rest or rest.strip() == unit):
            return float(number), False
        if dimension is None:
            reader.problems.add(
                node.place, f"{show(value)} is no bound for this probe", f"{such}, or `0.7 of baseline`"
            )
            return INVALID, False
        return PARSERS[dimension](value), False
    except UnitError as error:
        reader.problems.add(node.place, str(error), f"{such}; {error.fix}")
        return INVALID, False
