"""Request bodies, read as the original's decoder reads them.

Keys in any case, unknown keys and bytes behind the first JSON value are ignored, null leaves the default, and a number
with a point is no integer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from chaos.toxiproxy import errors
from chaos.toxiproxy.addresses import ANYWHERE_LOCAL
from chaos.toxiproxy.collection import Wanted
from chaos.toxiproxy.toxic import Attribute, Stage, Toxic, Value
from chaos.toxiproxy.toxics import kinds

LARGEST = 2**63 - 1

T = TypeVar("T", str, bool)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"invalid literal {name}")


_decoder = json.JSONDecoder(parse_constant=_no_constant)


def first_value(body: bytes) -> Any:
    """The first JSON value of a body."""
    text = body.decode("utf-8", "replace").lstrip(" \t\r\n")
    if not text:
        raise errors.bad_body("EOF")
    try:
        return _decoder.raw_decode(text)[0]
    except (ValueError, RecursionError) as error:
        raise errors.bad_body(str(error)) from error


def members(value: Any, what: str) -> dict[str, Any]:
    """An object's members that say something, by their names in lower case."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise errors.bad_body(f"cannot read {_kind(value)} as {what}")
    return {name.lower(): member for name, member in value.items() if member is not None}


def field(fields: Mapping[str, Any], name: str, default: T) -> T:
    value = fields.get(name, default)
    if type(value) is not type(default):
        raise errors.bad_body(f"cannot read {_kind(value)} as field {name}")
    return value


def number(fields: Mapping[str, Any], name: str, default: float) -> float:
    value = fields.get(name, default)
    if type(value) not in (int, float):
        raise errors.bad_body(f"cannot read {_kind(value)} as field {name}")
    return float(value)


# --- proxies ---------------------------------------------------------------------------------------------------------


def wanted(body: bytes) -> Wanted:
    """A proxy to be made."""
    return _complete(_described(first_value(body)))


def all_wanted(body: bytes) -> list[Wanted]:
    """Several; all are read before one is found to lack something."""
    value = first_value(body)
    if not isinstance(value, list | None):
        raise errors.bad_body(f"cannot read {_kind(value)} as a list of proxies")
    described = [_described(entry) for entry in value or ()]
    return [_complete(entry, f" at proxy {place}") for place, entry in enumerate(described, 1)]


def _described(value: Any) -> Wanted:
    fields = members(value, "a proxy")
    return Wanted(
        field(fields, "name", ""),
        field(fields, "upstream", ""),
        field(fields, "listen", "") or ANYWHERE_LOCAL,
        field(fields, "enabled", True),
    )


def _complete(described: Wanted, place: str = "") -> Wanted:
    if not described.name:
        raise errors.missing(f"name{place}")
    if not described.upstream:
        raise errors.missing(f"upstream{place}")
    check_name(described.name)
    return described


def check_name(name: str) -> None:
    """No path leads to a name with a slash."""
    if "/" in name:
        raise errors.invalid(f"name {name}: a slash cannot be part of a path")


# --- toxics ----------------------------------------------------------------------------------------------------------


def toxic(body: bytes, taken: Iterable[str]) -> Toxic:
    """A toxic to be added where those names are taken; checked in the original's order."""
    fields = members(first_value(body), "a toxic")
    stream, kind_name = field(fields, "stream", "downstream"), field(fields, "type", "")
    toxicity = number(fields, "toxicity", 1.0)
    name = field(fields, "name", "")
    if stream.lower() not in ("upstream", "downstream"):
        raise errors.invalid_stream()
    name = name or f"{kind_name}_{stream}"
    kind = kinds().get(kind_name)
    if kind is None:
        raise errors.invalid_type()
    if name in taken:
        raise errors.toxic_exists()
    given = values(kind, fields)
    check_name(name)
    check_toxicity(toxicity)
    for attribute in kind.attributes:
        if attribute.required and attribute.name not in given:
            raise errors.invalid(f"{kind_name}: needs attribute {attribute.name}")
    defaults = {attribute.name: attribute.default for attribute in kind.attributes}
    made = Toxic(name, kind_name, stream, kind, defaults | given, set(given), toxicity)
    made.ttl_ms = ttl(fields) or 0
    return made


def values(kind: type[Stage], fields: Mapping[str, Any]) -> dict[str, Value]:
    """Those attributes that a body names, checked: all or none is taken."""
    given = members(fields.get("attributes"), "attributes")
    found = {a.name: _value(a, given[a.name]) for a in kind.attributes if a.name in given}
    for attribute in kind.attributes:
        if attribute.name in found and (fault := attribute.fault(found[attribute.name])):
            raise errors.invalid(f"attribute {fault}")
    return found


def check_toxicity(toxicity: float) -> None:
    if not 0 <= toxicity <= 1:
        raise errors.invalid(f"toxicity {toxicity:g}: from 0 to 1")


def ttl(fields: Mapping[str, Any]) -> int | None:
    """The time to live that a body names, in milliseconds; 0 is none."""
    if "ttl_ms" not in fields:
        return None
    value = _value(Attribute("ttl_ms"), fields["ttl_ms"])
    if int(value) < 0:
        raise errors.invalid("ttl_ms: at least 0")
    return int(value)


def _value(attribute: Attribute, value: Any) -> Value:
    right = (int, float) if isinstance(attribute.default, float) else (type(attribute.default),)
    if type(value) not in right or (isinstance(value, int) and abs(value) > LARGEST):
        raise errors.bad_body(f"cannot read {_kind(value)} as attribute {attribute.name}")
    return float(value) if isinstance(attribute.default, float) else value


def _kind(value: Any) -> str:
    names = {bool: "bool", str: "string", list: "array", dict: "object"}
    return names.get(type(value), f"number {value}")
