"""Typed values out of nodes: every mistake is noted with its place, and reading goes on."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeGuard

from msgspec import inspect as mi

from chaos.load.document import INVALID, Node, Place, Problems, show
from chaos.registry import did_you_mean
from chaos.units import PARSERS, UnitError, counted

_VARIABLE = re.compile(r"\$\{([^}]*)\}")


class Reader:
    """Reads nodes as msgspec types. What cannot be read becomes `INVALID`, its reason in `problems`.

    `special` gives classes of structs that are written in a form of their own to the function that reads it.
    """

    def __init__(self, problems: Problems, special: Mapping[type, Callable[[Node], Any]] | None = None) -> None:
        self.problems = problems
        self._special = special or {}

    def mapping(self, node: Node, what: str, known: Collection[str], required: Collection[str] = ()) -> dict[str, Node]:
        """The entries with known keys; unknown and missing ones are told. Empty where it is no mapping."""
        if not isinstance(node.value, dict):
            if node.value is not INVALID:
                fix = f"keys: {', '.join(known)}"
                self.problems.add(node.place, f"{what} is a mapping, not {show(node.value)}", fix)
            return {}
        fixes = set()
        for key in node.value:
            if key not in known:
                fixes.add(fix := did_you_mean(key, known))
                self.problems.add(node.keys[key], f"unknown key {show(key)} in {what}", fix)
        for key in required:
            # A mistyped key is one mistake, not two.
            if key not in node.keys and f"did you mean `{key}`?" not in fixes:
                self.problems.add(node.place, f"{what} lacks `{key}`")
        return {key: below for key, below in node.value.items() if key in known}

    def sequence(self, node: Node, what: str) -> list[Node]:
        """The items of a list; told and empty where it is none."""
        if isinstance(node.value, list):
            return node.value
        if node.value is not INVALID:
            self.problems.add(node.place, f"{what} is a list, not {show(node.value)}")
        return []

    def read(self, node: Node, type_: Any) -> Any:
        """The node as a value of that type, given as an annotation."""
        return self.value(node, mi.type_info(type_))

    def struct(self, node: Node, cls: type, what: str, ignore: Collection[str] = ()) -> Any:
        """The node as a struct; keys in `ignore` are another's business."""
        info = mi.type_info(cls)
        assert isinstance(info, mi.StructType)
        fields = {field.encode_name: field for field in info.fields}
        required = [name for name, field in fields.items() if field.required]
        entries = self.mapping(node, what, [*fields, *ignore], required)
        own = [(fields[key], below) for key, below in entries.items() if key in fields]
        values = {field.name: self.value(below, field.type) for field, below in own}
        told = not isinstance(node.value, dict) or any(name not in node.keys for name in required)
        if told or INVALID in values.values():
            return INVALID
        try:
            return cls(**values)
        except (TypeError, ValueError) as error:  # a check of the struct's own, in __post_init__
            self.problems.add(node.place, str(error))
            return INVALID

    def value(self, node: Node, kind: mi.Type) -> Any:
        """The node as a value of that type."""
        if node.value is INVALID:
            return INVALID
        match kind:
            case mi.Metadata(extra={"unit": str(unit)}):
                return self._quantity(node, unit, kind.type)
            case mi.Metadata():
                return self.value(node, kind.type)
            case mi.StructType():
                special = self._special.get(kind.cls)
                return special(node) if special else self.struct(node, kind.cls, f"`{kind.cls.__name__.lower()}`")
            case mi.UnionType():
                return self._one_of(node, kind)
            case mi.ListType() | mi.VarTupleType() | mi.SetType() | mi.FrozenSetType():
                items = [self.value(item, kind.item_type) for item in self.sequence(node, describe(kind))]
                return self._collected(node, items, kind)
            case mi.TupleType():
                items = self.sequence(node, describe(kind))
                if isinstance(node.value, list) and len(items) != len(kind.item_types):
                    return self._refuse(
                        node, f"{describe(kind)} has {counted(len(kind.item_types), 'item')}, not {len(items)}"
                    )
                read = [self.value(item, type_) for item, type_ in zip(items, kind.item_types, strict=False)]
                return self._collected(node, read, kind)
            case mi.DictType():
                if not isinstance(node.value, dict):
                    return self._refuse(node, f"a mapping is meant, not {show(node.value)}")
                below = {key: self.value(item, kind.value_type) for key, item in node.value.items()}
                return INVALID if INVALID in below.values() else below
            case _:
                return self._scalar(node, kind)

    def _collected(self, node: Node, items: list[Any], kind: Any) -> Any:
        if not isinstance(node.value, list) or INVALID in items:
            return INVALID
        low, high = getattr(kind, "min_length", None), getattr(kind, "max_length", None)
        if (low is not None and len(items) < low) or (high is not None and len(items) > high):
            return self._refuse(node, f"{counted(len(items), 'item')}; {low or 0} to {high or 'any number'} are meant")
        match kind:
            case mi.ListType():
                return items
            case mi.SetType() | mi.FrozenSetType():
                return frozenset(items)
            case _:
                return tuple(items)

    def _one_of(self, node: Node, kind: mi.UnionType) -> Any:
        if node.value is None and any(isinstance(t, mi.NoneType) for t in kind.types):
            return None
        types = [t for t in kind.types if not isinstance(t, mi.NoneType)]
        if len(types) == 1:
            return self.value(node, types[0])
        for type_ in types:
            attempt = Reader(Problems(), self._special).value(node, type_)
            if attempt is not INVALID:
                return attempt
        return self._refuse(node, f"{' or '.join(map(describe, types))} is meant, not {show(node.value)}")

    def _quantity(self, node: Node, unit: str, kind: mi.Type) -> Any:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return self._refuse(node, f"a {unit} is meant, not {show(value)}")
        try:
            number = PARSERS[unit](str(value))
        except UnitError as error:
            return self._refuse(node, str(error), error.fix)
        return self._bounded(node, number, kind)

    def _scalar(self, node: Node, kind: mi.Type) -> Any:
        value: Any = node.value
        match kind:
            case mi.AnyType() | mi.RawType():
                return node.plain()
            case mi.BoolType() if isinstance(value, bool):
                return value
            case mi.IntType() if isinstance(value, int) and not isinstance(value, bool):
                return self._bounded(node, value, kind)
            case mi.FloatType() if isinstance(value, int | float) and not isinstance(value, bool):
                if not math.isfinite(value):
                    return self._refuse(node, f"{show(value)} is not finite")
                return self._bounded(node, float(value), kind)
            case mi.StrType() if isinstance(value, str):
                if kind.pattern is not None and not re.search(kind.pattern, value):
                    return self._refuse(node, f"{show(value)} does not match `{kind.pattern}`")
                return value if value else self._refuse(node, "an empty string")
            case mi.LiteralType(values=known) | mi.EnumType(cls=type(__members__=known)):
                return self._choice(node, kind, known)
        fix = "put it in quotes" if isinstance(kind, mi.StrType) and not isinstance(value, list | dict) else ""
        return self._refuse(node, f"{describe(kind)} is meant, not {show(value)}", fix)

    def _choice(self, node: Node, kind: mi.Type, known: Any) -> Any:
        allowed = {m.value: m for m in kind.cls} if isinstance(kind, mi.EnumType) else {v: v for v in known}
        value = node.value
        if isinstance(value, str | int | None) and not isinstance(value, bool) and value in allowed:
            return allowed[value]
        fix = did_you_mean(str(value), map(str, allowed)) if not isinstance(value, list | dict) else ""
        return self._refuse(node, f"one of {', '.join(map(str, allowed))} is meant, not {show(value)}", fix)

    def _bounded(self, node: Node, number: float, kind: Any) -> Any:
        for bound, holds, word in (
            (kind.ge, operator.ge, "at least"),
            (kind.gt, operator.gt, "more than"),
            (kind.le, operator.le, "at most"),
            (kind.lt, operator.lt, "less than"),
        ):
            if bound is not None and not holds(number, bound):
                return self._refuse(node, f"{show(node.value)} is not {word} {bound:g}")
        return number

    def _refuse(self, node: Node, reason: str, fix: str = "") -> Any:
        self.problems.add(node.place, reason, fix)
        return INVALID


def describe(kind: mi.Type) -> str:
    """A type in words, as it stands in a message and in `chaos explain`."""
    match kind:
        case mi.Metadata(extra={"unit": str(unit)}):
            return f"a {unit}"
        case mi.Metadata(extra_json_schema={"description": str(meant)}):
            return meant
        case mi.Metadata():
            return describe(kind.type)
        case mi.UnionType():
            return " or ".join(describe(t) for t in kind.types if not isinstance(t, mi.NoneType))
        case mi.LiteralType():
            return "one of " + ", ".join(map(str, kind.values))
        case mi.EnumType():
            return "one of " + ", ".join(str(m.value) for m in kind.cls)
        case mi.ListType() | mi.VarTupleType() | mi.SetType() | mi.FrozenSetType():
            return f"a list, each item {describe(kind.item_type)}"
        case mi.TupleType():
            return "a list of " + ", ".join(map(describe, kind.item_types))
        case mi.DictType():
            return f"a mapping to {describe(kind.value_type)}"
        case mi.StructType():
            return f"a {kind.cls.__name__.lower()}"
    words = {mi.BoolType: "true or false", mi.IntType: "a whole number", mi.FloatType: "a number", mi.StrType: "a word"}
    return words.get(type(kind), "any value")


def substitute(
    node: Node, variables: Mapping[str, Any] | None, problems: Problems, leave: Collection[str] = ()
) -> Node:
    """The tree with every `${name}` filled in; a string that is nothing else takes the type of the value.

    Names in `leave` (also before a dot) stay as they are. With `variables` None, since nobody could tell them,
    strings with variables become `INVALID` in silence.
    """

    def fill(node: Node) -> Node:
        text = node.value
        if not isinstance(text, str) or "${" not in text:
            return node
        if variables is None:
            return Node(node.place, INVALID)
        names = _VARIABLE.findall(text)
        rest = _VARIABLE.sub("", text)
        undefined = [n for n in names if n not in variables and n.partition(".")[0] not in leave]
        for name in undefined:
            problems.add(node.place, f"undefined variable `${{{name}}}`", did_you_mean(name, variables))
        if "${" in rest:
            problems.add(node.place, f"`${{` without its `}}` in {show(text)}")
        if undefined or "${" in rest:
            return Node(node.place, INVALID)
        if len(names) == 1 and not rest and names[0] in variables:
            return _literal(node.place, variables[names[0]])
        value = _VARIABLE.sub(lambda m: str(variables[m[1]]) if m[1] in variables else m[0], text)
        return Node(node.place, value)

    return node.each(fill)


def _literal(place: Place, value: Any) -> Node:
    """A node that holds a value from elsewhere."""
    if isinstance(value, list):
        return Node(place, [_literal(place, item) for item in value])
    if isinstance(value, dict):
        below = {str(key): _literal(place, item) for key, item in value.items()}
        return Node(place, below, dict.fromkeys(below, place))
    return Node(place, value)


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a finite number; `true` is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
