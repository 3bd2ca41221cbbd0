"""`when:` as it is written: one trigger, what narrows it, and a delay."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from chaos.api import Duration
from chaos.experiment import TargetSpec
from chaos.fileops import FILE_OPS, reachable
from chaos.load.document import INVALID, Node, show
from chaos.load.hypotheses import BOUNDS, read_bound
from chaos.load.reader import Reader, is_number
from chaos.registry import did_you_mean
from chaos.trigger import (
    PHASES,
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
)
from chaos.units import UnitError, parse_rate

# What may stand beside each trigger, `delay` apart.
BESIDE: Mapping[str, tuple[str, ...]] = {
    "at": (),
    "event": ("where", "nth"),
    "point": ("where", "nth"),
    "file": ("where", "nth"),
    "phase": ("nth",),
    "log": ("nth",),
    "probe": (),
    "after": ("healed",),
    "every": ("times",),
    "poisson": ("times",),
}
MODIFIERS = ("where", "nth", "healed", "times", "delay")
COMPARISONS = ("equals", "at-least", "at-most", "one-of", "between")

# Events of the harness itself, which every target has; the table of docs/events.md.
HARNESS: Mapping[str, tuple[str, ...]] = {
    "run.started": (
        "experiment", "title", "target", "seed", "version", "settings", "slots", "limits", "lab", "python", "kernel",
        "contract", "build", "file", "recipe", "overrides",
    ),
    "target.starting": (),
    "target.ready": ("mechanisms",),
    "baseline.met": (),
    "baseline.missed": (),
    "method.started": (),
    "method.ended": (),
    "member.started": ("member", "role", "node", "rank", "pid"),
    "member.exited": ("member", "role", "node", "rank", "pid", "code", "expected"),
    "point.reached": ("name",),
    "point.released": ("name",),
    "file.reached": ("op", "path"),
    "file.released": ("op", "path", "member"),
    "hook.hit": ("member", "site", "do", "where"),
    "fault.armed": ("kind", "settings", "hold"),
    "fault.injecting": ("members", "nodes", "trigger"),
    "fault.landed": ("kind", "members", "nodes", "evidence", "instant"),
    "fault.healed": ("kind", "evidence", "seconds", "met"),
    "fault.failed": ("phase", "error", "message", "undo", "traceback"),
    "fault.missed": ("reason",),
    "probe.sampled": ("value", "late", "error"),
    "abort.triggered": ("name", "value"),
    "limit.reached": ("name", "value"),
    "target.hung": ("seconds", "alive"),
    "target.finished": ("code", "member"),
    "target.stopping": (),
    "target.malformed": ("line", "reason"),
    "host.sampled": ("own", "others"),
    "target.log_lost": ("log", "reason"),
    "stacks.dumped": ("logs",),
    "run.interrupted": ("signal", "left"),
    "final.started": ("reason", "detail"),
    "run.ended": ("reason", "detail", "digest"),
}  # fmt: skip
# These carry fields of the target's own.
_OPEN = ("member.started", "member.exited", "point.reached", "point.released", "file.reached", "file.released")


class Scope(NamedTuple):
    """What a trigger may refer to: the target (None where its file could not be read), the unit of each probe."""

    target: TargetSpec | None
    probes: Mapping[str, str]


def read_trigger(node: Node, reader: Reader, scope: Scope) -> Any:
    """The trigger; `after` still holds what was written, a step's name or a fault's kind."""
    before = len(reader.problems)
    entries = reader.mapping(node, "`when`", (*BESIDE, *MODIFIERS))
    words = [key for key in entries if key in BESIDE]
    if not words:
        if isinstance(node.value, dict):
            reader.problems.add(node.place, "no trigger", f"one of {', '.join(BESIDE)}")
        return INVALID
    for word in words[1:]:
        reader.problems.add(node.keys[word], f"two triggers in one step: `{words[0]}` and `{word}`", "keep one")
    word = words[0]
    for key in entries:
        if key in MODIFIERS and key not in (*BESIDE[word], "delay"):
            reader.problems.add(node.keys[key], f"`{key}` does not go with `{word}`", "remove it")
    delay = reader.read(entries["delay"], Duration) if "delay" in entries else 0.0
    beside = {key: entries[key] for key in BESIDE[word] if key in entries}
    fields = _READ[word](entries[word], beside, reader, scope)
    if len(reader.problems) > before or delay is INVALID or fields is INVALID or INVALID in fields.values():
        return INVALID
    return _CLASS[word](**fields, delay=delay)


def _at(node: Node, beside: Mapping[str, Node], reader: Reader, scope: Scope) -> Any:
    return {"seconds": reader.read(node, Duration)}


def _every(node: Node, beside: Mapping[str, Node], reader: Reader, scope: Scope) -> Any:
    period = reader.read(node, Duration)
    if period == 0:
        reader.problems.add(node.place, "a period of zero")
    return {"period": period, **_times(beside, reader)}


def _poisson(node: Node, beside: Mapping[str, Node], reader: Reader, scope: Scope) -> Any:
    rate: Any = INVALID
    try:
        rate = parse_rate(str(node.value)) if not isinstance(node.value, list | dict | bool) else 0.0
    except UnitError as error:
        reader.problems.add(node.place, str(error), error.fix)
    if rate == 0:
        reader.problems.add(node.place, f"{show(node.value)} is no rate above zero", "such as 2/h")
    return {"rate": rate, **_times(beside, reader)}


def _times(beside: Mapping[str, Node], reader: Reader) -> dict[str, Any]:
    return {"times": _count(beside["times"], reader)} if "times" in beside else {}


def _count(node: Node, reader: Reader) -> Any:
    number = reader.read(node, int)
    if number is not INVALID and number < 1:
        reader.problems.add(node.place, f"{show(number)} is not at least 1", "the first is 1")
        return INVALID
    return number


def _event(node: Node, beside: Mapping[str, Node], reader: Reader, scope: Scope) -> Any:
    inner = {"kind": node}
    if isinstance(node.value, dict):
        inner = reader.mapping(node, "`event`", ("kind", "where", "nth"), ("kind",))
        for key in inner.keys() & beside.keys():
            reader.problems.add(beside[key].place, f"`{key}` is given within `event` and beside it", "keep one")
        beside = {**beside, **{key: inner[key] for key in ("where", "nth") if key in inner}}
    kind: Any = reader.read(inner["kind"], str) if "kind" in inner else INVALID
    fields: Collection[str] | None = None
    if kind is not INVALID and scope.target is not None:
        known = {**HARNESS, **scope.target.events}
        if kind in known:
            fields = None if kind in _OPEN else known[kind]
        elif "events" in scope.target.raw:
            reader.problems.add(
                inner["kind"].place, f"the target declares no event `{kind}`", did_you_mean(kind, known)
            )
    return {"kind": kind, **_counted(beside, reader, kind, fields)}


def _point(node: Node, beside: Mapping[str, Node], reader: Reader, scope: Scope) -> Any:
    point = reader.read(node, str)
    fields: Collection[str] | None = None
    if point is not INVALID and scope.target is not None:
        known = scope.target.points
        fields = known.get(point)
        if point not in known:
            fix = did_you_mean(point, known) or "declare it under `points:` in the target file"
            reader.problems.add(node.place, f"the target declares no failpoint `{point}`", fix)
    return {"point": point, **_counted(beside, reader, point, fields)}


def _file(node: Node, beside: Mapping[str, Node], reader: Reader, scope: Scope) -> Any:
    entries = reader.mapping(node, "`file`", ("path", "op", "where", "nth"), ("path", "op"))
    for key in entries.keys() & beside.keys():
        reader.problems.add(beside[key].place, f"`{key}` is given within `file` and beside it", "keep one")
    beside = {**beside, **{key: entries[key] for key in ("where", "nth") if key in entries}}
    path: Any = reader.read(entries["path"], str) if "path" in entries else INVALID
    if path is not INVALID and not reachable(path):
        reason = f"no operation is on {show(path)}: paths are told without `..`"
        reader.problems.add(entries["path"].place, reason, "a glob below the target's data, or one that begins with /")
    op: Any = reader.read(entries["op"], str) if "op" in entries else INVALID
    if op is not INVALID and op not in FILE_OPS:
        fix = did_you_mean(op, FILE_OPS) or f"one of {', '.join(FILE_OPS)}"
        reader.problems.add(entries["op"].place, f"there is no file operation `{op}`", fix)
        op = INVALID
    return {"path": path, "op": op, **_counted(beside, reader, "file", None)}


def _phase(node: Node, beside: Mapping[str, Node], reader: Reader, scope: Scope) -> Any:
    phase = reader.read(node, str)
    if phase is INVALID:
        return {"phase": INVALID}
    if phase not in PHASES:
        fix = did_you_mean(phase, PHASES) or f"one of {', '.join(PHASES)}"
        reader.problems.add(node.place, f"there is no phase `{phase}`", fix)
        return {"phase": INVALID}
    if scope.target is not None and "events" in scope.target.raw:
        known = {**HARNESS, **scope.target.events}
        if missing := [kind for kind in PHASES[phase] if kind not in known]:
            they = f"`{phase}` is entered by {', '.join(missing)}"
            reader.problems.add(node.place, f"{they}, which the target does not declare", "declare what it emits")
    return {"phase": phase, **({"nth": _count(beside["nth"], reader)} if "nth" in beside else {})}


def _counted(beside: Mapping[str, Node], reader: Reader, name: str, fields: Collection[str] | None) -> dict[str, Any]:
    """`where` and `nth`; `fields` None: what `name` carries is not known."""
    read: dict[str, Any] = {"nth": _count(beside["nth"], reader)} if "nth" in beside else {}
    where = beside.get("where")
    if where is None:
        return read
    if not isinstance(where.value, dict):
        reader.mapping(where, "`where`", ("a field of the event",))
        return {**read, "where": INVALID}
    conditions = {}
    for field, below in where.value.items():
        if fields is not None and field not in (*fields, "source"):
            fix = did_you_mean(field, (*fields, "source"))
            reader.problems.add(where.keys[field], f"`{name}` declares no field `{field}`", fix)
        conditions[field] = read_condition(below, reader)
    return {**read, "where": INVALID if INVALID in conditions.values() else conditions}


def read_condition(node: Node, reader: Reader) -> Any:
    """A scalar (equals), a list (one of), or a mapping of bounds."""
    if node.value is INVALID:
        return INVALID
    if isinstance(node.value, list):
        return Condition(one_of=tuple(node.plain()))
    if not isinstance(node.value, dict):
        return Condition(equals=node.value)
    return bounds(reader.mapping(node, "a condition", COMPARISONS), node, reader)


def bounds(entries: Mapping[str, Node], node: Node, reader: Reader) -> Any:
    """The condition that these bounds make together."""
    before, fields = len(reader.problems), dict[str, Any]()
    for key, below in entries.items():
        if key == "equals":
            fields["equals"] = below.plain()
        elif key == "one-of":
            fields["one_of"] = tuple(item.plain() for item in reader.sequence(below, "`one-of`"))
        elif key == "between":
            pair = reader.read(below, tuple[float, float])
            fields["at_least"], fields["at_most"] = pair if isinstance(pair, tuple) else (INVALID, INVALID)
        else:
            fields[key.replace("-", "_")] = reader.read(below, float)
    if not entries and isinstance(node.value, dict):
        reader.problems.add(node.place, "a condition without a bound", f"one of {', '.join(COMPARISONS)}")
    low, high = fields.get("at_least"), fields.get("at_most")
    if is_number(low) and is_number(high) and low > high:
        reader.problems.add(node.place, f"no number is at least {low:g} and at most {high:g}")
    return INVALID if len(reader.problems) > before or INVALID in fields.values() else Condition(**fields)


def _log(node: Node, beside: Mapping[str, Node], reader: Reader, scope: Scope) -> Any:
    inner = {"regex": node}
    if isinstance(node.value, dict):
        inner = reader.mapping(node, "`log`", ("member", "regex", "nth"), ("regex",))
    fields: dict[str, Any] = {key: reader.read(inner[key], str) for key in ("member", "regex") if key in inner}
    for count in (c for c in (inner.get("nth"), beside.get("nth")) if c is not None):
        if "nth" in fields:
            reader.problems.add(count.place, "`nth` is given within `log` and beside it", "keep one")
        fields["nth"] = _count(count, reader)
    regex, member = fields.get("regex", INVALID), fields.get("member", INVALID)
    if regex is not INVALID:
        try:
            re.compile(regex)
        except re.error as error:
            reader.problems.add(inner["regex"].place, f"no regular expression: {error}")
    if member is not INVALID and scope.target is not None:
        names = [slot.name for slot in scope.target.slots]
        if not any(fnmatchcase(name, member) for name in names):
            fix = did_you_mean(member, names)
            reader.problems.add(inner["member"].place, f"`{member}` matches no member of the target", fix)
    return fields if regex is not INVALID else INVALID


def _probe(node: Node, beside: Mapping[str, Node], reader: Reader, scope: Scope) -> Any:
    entries = reader.mapping(node, "`probe`", ("name", *BOUNDS), ("name",))
    if "name" not in entries:
        return INVALID
    name: Any = reader.read(entries["name"], str)
    if name is not INVALID and name not in scope.probes:
        fix = did_you_mean(name, scope.probes) or "name it under `steady-state-hypothesis:`"
        reader.problems.add(entries["name"].place, f"no hypothesis samples a probe named `{name}`", fix)
        return INVALID
    condition, of_baseline = read_bound(node, scope.probes.get(name, ""), reader)
    if of_baseline:
        reader.problems.add(node.place, "a trigger does not know the baseline", "give an absolute bound")
    return {"probe": name, "condition": condition}


def _after(node: Node, beside: Mapping[str, Node], reader: Reader, scope: Scope) -> Any:
    fields = {"step": reader.read(node, str)}
    return {**fields, "healed": reader.read(beside["healed"], bool)} if "healed" in beside else fields


_READ: Mapping[str, Callable[[Node, Mapping[str, Node], Reader, Scope], Any]] = {
    "at": _at, "event": _event, "point": _point, "file": _file, "phase": _phase, "log": _log,
    "probe": _probe, "after": _after, "every": _every, "poisson": _poisson,
}  # fmt: skip
_CLASS: Mapping[str, Callable[..., Any]] = {
    "at": At, "event": OnEvent, "point": OnPoint, "file": OnFile, "phase": OnPhase, "log": OnLog,
    "probe": OnProbe, "after": After, "every": Every, "poisson": Poisson,
}  # fmt: skip
