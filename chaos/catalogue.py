"""What can be named in an experiment, and what each of it promises: the data behind `list`, `explain`, `schema`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec import NODEFAULT
from msgspec import inspect as mi

from chaos.api import Fault, Invariant, Probe, Selector
from chaos.errors import PluginError
from chaos.experiment import Limits, Rpo, Rto
from chaos.fileops import FILE_OPS
from chaos.load.reader import describe
from chaos.load.schema import json_schema
from chaos.load.triggers import BESIDE
from chaos.registry import GROUPS, Registry, did_you_mean, installed
from chaos.trigger import (
    After,
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
    Trigger,
)
from chaos.units import EXAMPLES, format_duration, format_ratio, format_size

# Words of an experiment that are no plugins; their types say what they mean.
WORDS: Mapping[str, type] = {
    "rpo": Rpo, "rto": Rto, "limits": Limits, "selector": Selector, "condition": Condition,
    "at": At, "every": Every, "poisson": Poisson, "event": OnEvent, "point": OnPoint, "file": OnFile,
    "phase": OnPhase, "log": OnLog, "probe": OnProbe, "after": After,
}  # fmt: skip
# What a trigger is told in a mapping of its own, and how it may look.
KEYS: Mapping[str, Mapping[str, str]] = {
    "file": {
        "path": "a glob below the target's data, or one that begins with /; required",
        "op": f"one of {', '.join(FILE_OPS)}; required",
    },
    "log": {"regex": "what is found in the line; required", "member": "a glob over names; optional"},
    "probe": {
        "name": "that of a hypothesis; required",
        "at-least": "a bound, as are at-most and the like; one required",
    },
}
TRIGGERS: Mapping[str, str] = {
    "at": "{at: 10s}", "every": "{every: 30s, times: 3}", "poisson": "{poisson: 2/h, times: 3}",
    "event": "{event: step.completed, where: {step: 30}}", "point": "{point: checkpoint.before_commit, nth: 2}",
    "file": "{file: {path: 'store/**', op: write}, nth: 2}", "phase": "{phase: recovery.load}",
    "log": "{log: {regex: out of memory, member: 'worker-*'}}",
    "probe": "{probe: {name: training.throughput, at-least: 1}}", "after": "{after: process.kill, delay: 2s}",
}  # fmt: skip
ANY = mi.AnyType()
_WRITE = {"duration": format_duration, "ratio": format_ratio, "size": format_size}


class Row(NamedTuple):
    """One kind. `id` is the invariant's number, `needs` the capability or the events without which it is nothing."""

    kind: str
    group: str
    summary: str
    id: str
    needs: tuple[str, ...]


def list_kinds(group: str | None = None, registry: Registry | None = None) -> tuple[Row, ...]:
    """Every kind of a group (None: of all), in the order of the groups and of the alphabet."""
    registry = registry or installed()
    groups = GROUPS if group is None else (group,)
    return tuple(_row(registry, name, kind) for name in groups for kind in registry.kinds(name))


def explain(kind: str, registry: Registry | None = None) -> str:
    """Everything about one kind or word, as text; PluginError with a near miss where there is none."""
    registry = registry or installed()
    if kind in WORDS:
        return "\n".join(_explain_word(kind))
    groups = [group for group in GROUPS if kind in registry.kinds(group)]
    if not groups and (need := _capabilities(registry).get(kind)):
        return f"{kind}  (what a fault needs of a target)\n\n{_doc(need)}"
    if not groups:
        hint = did_you_mean(kind, [*WORDS, *(k for group in GROUPS for k in registry.kinds(group))])
        raise PluginError(f"nothing is named `{kind}` ({hint}; `chaos list` shows all)")
    return "\n\n".join("\n".join(_explain(registry, group, kind)) for group in groups)


def _row(registry: Registry, group: str, kind: str) -> Row:
    cls = registry.find(group, kind)
    needs: tuple[str, ...] = _capability(cls)
    if issubclass(cls, Invariant):
        needs = cls.needs
    return Row(kind, group, _doc(cls).partition("\n")[0], cls.id if issubclass(cls, Invariant) else "", needs)


def _doc(cls: type) -> str:
    return inspect.cleandoc(cls.__doc__ or "")


def _capability(cls: type) -> tuple[str, ...]:
    """The name of the capability that a fault asks its target for."""
    if not issubclass(cls, Fault):
        return ()
    for base in getattr(cls, "__orig_bases__", ()):
        return tuple(getattr(argument, "__name__", str(argument)) for argument in get_args(base))
    return ()


def _capabilities(registry: Registry) -> Mapping[str, type]:
    """What faults may need of a target, alone or as part of a larger one, by name: what their modules know of."""
    modules = {sys.modules[registry.find("faults", kind).__module__] for kind in registry.kinds("faults")}
    known = (cls for module in modules for cls in vars(module).values() if isinstance(cls, type))
    parts = (part for cls in known if getattr(cls, "_is_runtime_protocol", False) for part in cls.__mro__)
    return {part.__name__: part for part in parts if getattr(part, "_is_runtime_protocol", False)}


def _explain(registry: Registry, group: str, kind: str) -> Iterator[str]:
    cls, row = registry.find(group, kind), _row(registry, group, kind)
    yield f"{kind}  ({group[:-1]}{f' {row.id}' if row.id else ''})"
    yield ""
    yield "\n\n".join(p for p in _paragraphs(cls) if not p.startswith(("Proof: ", "Heal: ")))
    yield from _facts(cls, row)
    yield from _settings(cls)
    if group != "drivers":
        yield ""
        yield "example:"
        yield from (f"  {line}" for line in _example(cls, kind))


def _explain_word(word: str) -> Iterator[str]:
    cls = WORDS[word]
    yield f"{word}  ({'trigger' if issubclass(cls, Trigger) else 'part of an experiment'})"
    yield ""
    yield _doc(cls)
    if issubclass(cls, Trigger):
        yield ""
        if keys := KEYS.get(word):
            yield f"keys of `{word}`:"
            yield from (f"  {key:{max(map(len, keys))}}  {means}" for key, means in keys.items())
            yield ""
        yield f"beside it: {', '.join((*BESIDE[word], 'delay'))}"
        yield ""
        yield "example:"
        yield f"  when: {TRIGGERS[word]}"
    else:
        yield from _settings(cls)


def _settings(cls: type) -> Iterator[str]:
    fields = _fields(cls)
    if fields:
        yield ""
        yield "settings:"
    width = max((len(field.encode_name) for field in fields), default=0)
    for field in fields:
        yield f"  {field.encode_name:{width}}  {_setting(field)}"


def _facts(cls: type, row: Row) -> Iterator[str]:
    if issubclass(cls, Fault):
        yield ""
        yield f"fidelity: {cls.fidelity}"
        proof = "recorded as evidence of `fault.landed`; without it the run is inconclusive"
        yield f"proof:    {_section(cls, 'Proof') or proof}"
        heal = "nothing: it is done in an instant" if cls.instant else "when `hold` ends, or in the final phase"
        yield f"heals:    {_section(cls, 'Heal') or heal}"
        yield f"needs:    a target with {', '.join(row.needs)}" if row.needs else "needs:    nothing of the target"
    elif issubclass(cls, Probe):
        yield ""
        yield f"unit:     {cls.unit}"
    elif issubclass(cls, Invariant) and row.needs:
        yield ""
        yield f"needs:    the events {', '.join(row.needs)}"


def _section(cls: type, word: str) -> str:
    """The paragraph of the docstring that begins with `Proof:` or `Heal:`, as one line."""
    found = (p for p in _paragraphs(cls) if p.startswith(f"{word}: "))
    return " ".join(next(found, "").removeprefix(f"{word}: ").split())


def _paragraphs(cls: type) -> list[str]:
    return _doc(cls).split("\n\n")


def _fields(cls: type) -> tuple[mi.Field, ...]:
    info = mi.type_info(cls)
    return info.fields if isinstance(info, mi.StructType) else ()


def _setting(field: mi.Field) -> str:
    words = describe(field.type)
    if field.required:
        return f"{words}; required"
    if field.default is NODEFAULT or field.default is None:
        return f"{words}; optional"
    return f"{words}; default {_written(field.default, field.type)}"


def _written(value: Any, kind: mi.Type) -> str:
    """A default as it would be written in YAML."""
    unit = _unit(kind)
    if unit in _WRITE:
        return _WRITE[unit](value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Selector):
        value = msgspec.to_builtins(value)  # without what it leaves open
        if not value:
            return "every member"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_written(one, ANY)}' for key, one in value.items())}}}"
    if isinstance(value, tuple | list | frozenset):
        return f"[{', '.join(_written(one, ANY) for one in value)}]"
    return str(getattr(value, "value", value))


def _unit(kind: mi.Type) -> str:
    if isinstance(kind, mi.UnionType):
        return next(filter(None, map(_unit, kind.types)), "")
    return str((kind.extra or {}).get("unit", "")) if isinstance(kind, mi.Metadata) else ""


def _example(cls: type, kind: str) -> Iterator[str]:
    """YAML that validates: what is required, with values of its type."""
    required = [f"{field.encode_name}: {_sample(field.type)}" for field in _fields(cls) if field.required]
    if issubclass(cls, Fault):
        yield f"- fault: {kind}"
        yield from (f"  {line}" for line in required)
        yield "  when: {at: 10s}"
        if not cls.instant:
            yield "  hold: 8s"
    elif issubclass(cls, Probe):
        yield f"- probe: {kind}"
        yield from (f"  {line}" for line in required)
        yield "  at-most: 90%" if cls.unit == "share" else "  at-least: 0.7 of baseline"
    else:
        yield f"- {kind}" if not required else f"- {kind}: {{{', '.join(required)}}}"


def _sample(kind: mi.Type) -> str:
    match kind:
        case mi.Metadata(extra_json_schema={"examples": [first, *_]}):
            return str(first)
        case mi.Metadata(extra={"unit": str(unit)}):
            return EXAMPLES[unit].split(",")[0].split(" ")[0]
        case mi.Metadata():
            return _sample(kind.type)
        case mi.StructType():
            return "{ranks: [1]}"
        case mi.TupleType() if all(isinstance(t, mi.StructType) for t in kind.item_types):
            return "[{nodes: [n1]}, {nodes: rest}]"
        case mi.VarTupleType() | mi.ListType():
            return f"[{_sample(kind.item_type)}]"
        case mi.LiteralType():
            return str(kind.values[0])
        case mi.UnionType():
            return _sample(kind.types[0])
        case mi.BoolType():
            return "true"
        case mi.IntType() | mi.FloatType():
            return str(kind.ge if kind.ge is not None else 1)
    return "name"


__all__ = ["Row", "explain", "json_schema", "list_kinds"]
