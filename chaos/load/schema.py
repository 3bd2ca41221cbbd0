"""The JSON Schema (2020-12) of an experiment file, made of the types and of every plugin that is installed.

What a schema can say: keys, types, units, required settings, which settings go with which kind. What it cannot, such
as events that a target declares, `chaos validate` checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import inspect as mi

from chaos.api import Duration, Selector
from chaos.experiment import Budget, Ending, Limits, Mode
from chaos.fileops import FILE_OPS
from chaos.load.hypotheses import BOUNDS
from chaos.load.triggers import BESIDE
from chaos.registry import Registry, installed
from chaos.trigger import PHASES
from chaos.units import DURATIONS, EXAMPLES, NUMBER, RATES, SIZES

JSON = dict[str, Any]
_VARIABLE: JSON = {"type": "string", "pattern": r"\$\{[^}]+\}"}
_UNITS = {"duration": DURATIONS, "size": SIZES, "rate": RATES, "ratio": {"%": 0.01}}


def json_schema(registry: Registry | None = None) -> JSON:
    """The schema of the experiment file."""
    registry = registry or installed()
    steps = [_plugin(registry, "faults", kind, "fault", _step_keys(), ["when"]) for kind in registry.kinds("faults")]
    properties = {
        "title": {"type": "string", "description": "what the experiment shows, as a sentence"},
        "description": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "target": {"type": "string", "description": "the target file, relative to this one"},
        "settings": {"type": "object", "description": "settings of the target that differ from its defaults"},
        "seed": {"type": "integer", "minimum": 0},
        "steady-state-hypothesis": {"type": "array", "items": {"anyOf": _hypotheses(registry, True)}},
        "method": {"type": "array", "items": {"anyOf": steps}},
        "budget": of_type(Budget),
        "invariants": {"type": "array", "items": {"anyOf": _invariants(registry)}},
        "abort": {"type": "array", "items": {"anyOf": _hypotheses(registry, False)}},
        "limits": of_type(Limits),
        "job": of_type(Ending),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "chaos experiment",
        **_object(properties, ["target", "method"]),
        "$defs": {
            **{name: _quantity(name) for name in _UNITS},
            "selector": _selector(),
            "condition": _condition(),
            "trigger": {"oneOf": [_trigger(word) for word in BESIDE]},
        },
    }


def of_type(annotation: Any) -> JSON:
    """The schema of a type."""
    return _schema(mi.type_info(annotation))


def _schema(kind: mi.Type) -> JSON:
    match kind:
        case mi.Metadata(extra={"unit": str(unit)}):
            return {"$ref": f"#/$defs/{unit}"}
        case mi.Metadata():
            return {**(kind.extra_json_schema or {}), **_schema(kind.type)}
        case mi.StructType():
            if kind.cls is Selector:
                return {"$ref": "#/$defs/selector"}
            fields = {field.encode_name: _field(field) for field in kind.fields}
            return _object(fields, [field.encode_name for field in kind.fields if field.required])
        case mi.UnionType():
            return {"anyOf": [_schema(t) for t in kind.types]}
        case mi.LiteralType():
            return {"enum": list(kind.values)}
        case mi.EnumType():
            return {"enum": [member.value for member in kind.cls]}
        case mi.ListType() | mi.VarTupleType() | mi.SetType() | mi.FrozenSetType():
            return {"type": "array", "items": _schema(kind.item_type)}
        case mi.TupleType():
            items = [_schema(t) for t in kind.item_types]
            return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
        case mi.DictType():
            return {"type": "object", "additionalProperties": _schema(kind.value_type)}
        case mi.BoolType():
            return _or_variable({"type": "boolean"})
        case mi.StrType():
            return {"type": "string", "minLength": 1}
        case mi.NoneType():
            return {"type": "null"}
        case mi.IntType() | mi.FloatType():
            names = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
            bounds = {names[key]: getattr(kind, key) for key in names if getattr(kind, key) is not None}
            return _or_variable({"type": "integer" if isinstance(kind, mi.IntType) else "number", **bounds})
    return {}


def _field(field: mi.Field) -> JSON:
    schema = _schema(field.type)
    plain = isinstance(field.default, bool | int | float | str) and "$ref" not in schema
    return {**schema, "default": field.default} if plain else schema


def _object(properties: Mapping[str, Any], required: list[str]) -> JSON:
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def _or_variable(schema: JSON) -> JSON:
    return {"anyOf": [schema, _VARIABLE]}


def _quantity(name: str) -> JSON:
    units = "|".join(unit.replace("/", r"\/") for unit in _UNITS[name])
    text = {"type": "string", "pattern": rf"^\s*(?:{NUMBER}|\.\d+)\s*(?:{units}){'?' if name == 'ratio' else ''}\s*$"}
    number = [{"type": "number", "minimum": 0}] if name == "ratio" else []
    return {"description": f"such as {EXAMPLES[name]}", "anyOf": [text, *number, _VARIABLE]}


def _selector() -> JSON:
    def several(item: JSON) -> JSON:
        return {"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]}

    word = {"type": "string"}
    properties = {
        "names": several(word),
        "roles": several(word),
        "ranks": several(of_type(int)),
        "nodes": {**several(word), "description": "names, or `rest`: all that the other selector does not name"},
        "domains": {"type": "object", "additionalProperties": word},
        "random": _or_variable({"type": "integer", "minimum": 1}),
        "percent": {"anyOf": [{"type": "number", "exclusiveMinimum": 0, "maximum": 100}, word]},
        "rest": _or_variable({"type": "boolean"}),
    }
    return {"description": "whom to hit; every condition must hold", **_object(properties, []), "minProperties": 1}


def _condition() -> JSON:
    number = of_type(float)
    properties = {
        "equals": {}, "at-least": number, "at-most": number, "one-of": {"type": "array"},
        "between": {"type": "array", "items": number, "minItems": 2, "maxItems": 2},
    }  # fmt: skip
    scalar = {"type": ["string", "number", "boolean", "null", "array"]}
    return {"anyOf": [scalar, {**_object(properties, []), "minProperties": 1}]}


def _trigger(word: str) -> JSON:
    duration, text, count = {"$ref": "#/$defs/duration"}, {"type": "string"}, {"type": "integer", "minimum": 1}
    condition = {"$ref": "#/$defs/condition"}
    beside: JSON = {
        "where": {"type": "object", "additionalProperties": condition},
        "nth": count, "times": count, "healed": {"type": "boolean"}, "delay": duration,
    }  # fmt: skip
    counted = {"where": beside["where"], "nth": count}
    bounds = _condition()["anyOf"][1]["properties"]
    values: JSON = {
        "at": duration,
        "every": duration,
        "poisson": {"$ref": "#/$defs/rate"},
        "event": {"anyOf": [text, _object({"kind": text, **counted}, ["kind"])]},
        "point": text,
        "file": _object({"path": text, "op": {"enum": list(FILE_OPS)}, **counted}, ["path", "op"]),
        "phase": {"enum": list(PHASES)},
        "log": {"anyOf": [text, _object({"regex": text, "member": text, "nth": count}, ["regex"])]},
        "probe": _object({"name": text, **bounds}, ["name"]),
        "after": text,
    }
    return _object({word: values[word], **{key: beside[key] for key in (*BESIDE[word], "delay")}}, [word])


def _step_keys() -> JSON:
    return {
        "name": {"type": "string"},
        "when": {"$ref": "#/$defs/trigger"},
        "hold": {**of_type(Duration), "description": "how long it stands; without it, to the final phase"},
    }


def _plugin(registry: Registry, group: str, kind: str, word: str, own: JSON, required: list[str]) -> JSON:
    """One alternative: the settings of a plugin beside the keys of the place where it is named."""
    cls = registry.find(group, kind)
    settings = of_type(cls)
    properties = {word: {"const": kind}, **own, **settings["properties"]}
    if group == "faults" and getattr(cls, "instant", False):
        del properties["hold"]
    summary = (cls.__doc__ or "").strip().partition("\n")[0]
    return {"title": kind, "description": summary, **_object(properties, [word, *required, *settings["required"]])}


def _hypotheses(registry: Registry, with_mode: bool) -> list[JSON]:
    tolerance = {"type": ["string", "number"]}
    bounds: JSON = dict.fromkeys(BOUNDS, tolerance)
    bounds["between"] = {"type": "array", "items": tolerance, "minItems": 2, "maxItems": 2}
    own = {"name": {"type": "string"}, **bounds, **({"mode": of_type(Mode)} if with_mode else {})}
    one_bound = {"oneOf": [{"required": [key]} for key in BOUNDS]}
    return [{**_plugin(registry, "probes", kind, "probe", own, []), **one_bound} for kind in registry.kinds("probes")]


def _invariants(registry: Registry) -> list[JSON]:
    kinds = registry.kinds("invariants")
    with_settings = [
        _object({kind: {"anyOf": [of_type(registry.invariant(kind)), {"type": "null"}]}}, [kind]) for kind in kinds
    ]
    return [{"enum": list(kinds)}, *with_settings]


__all__ = ["json_schema", "of_type"]
