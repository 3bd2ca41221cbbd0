"""When a fault is injected: data with pure matching; a closed set, not a plugin kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from chaos.history import Event


class Condition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="kebab"):
    """A comparison of one value; every bound that is given must hold. Types count: `1` is not `true`."""

    equals: Any = msgspec.UNSET
    at_least: float | None = None
    at_most: float | None = None
    one_of: tuple[Any, ...] | None = None

    def holds(self, value: Any) -> bool:
        """Whether `value` meets every bound; a missing or non-numeric value never meets a numeric bound."""
        if self.equals is not msgspec.UNSET and not same(value, self.equals):
            return False
        if self.one_of is not None and not any(same(value, x) for x in self.one_of):
            return False
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if self.at_least is not None and not (number and value >= self.at_least):
            return False
        return not (self.at_most is not None and not (number and value <= self.at_most))


def same(a: Any, b: Any) -> bool:
    """Equality that tells booleans from numbers (1 is not true) but not 1 from 1.0."""
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


Where = Mapping[str, Condition]


class Trigger(msgspec.Struct, frozen=True, kw_only=True, tag_field="on", tag=lambda name: name.lower()):
    """Base of all triggers. `delay` is seconds between the trigger and the injection."""

    delay: float = 0.0


class At(Trigger, frozen=True, kw_only=True):
    """`seconds` after the method began, on an absolute schedule: errors do not add up."""

    seconds: float


class Every(Trigger, frozen=True, kw_only=True):
    """At `period`, 2 × `period`, … after the method began, `times` times (None: to the end of the run)."""

    period: float
    times: int | None = None


class Poisson(Trigger, frozen=True, kw_only=True):
    """Arrivals of a Poisson process with `rate` per second; the plan draws the moments from the seed."""

    rate: float
    times: int | None = None


class _Counted(Trigger, frozen=True, kw_only=True):
    where: Where = {}
    nth: int = 1  # the nth match fires, 1-based

    def fields_match(self, data: Mapping[str, Any]) -> bool:
        return all(key in data and condition.holds(data[key]) for key, condition in self.where.items())


class OnEvent(_Counted, frozen=True, kw_only=True):
    """The nth event of `kind` whose fields satisfy `where`. `source` may be named among the fields."""

    kind: str

    def matches(self, event: Event) -> bool:
        """Whether this event counts towards `nth`."""
        return event.kind == self.kind and self.fields_match({"source": event.source, **event.data})


class OnPoint(_Counted, frozen=True, kw_only=True):
    """The nth time a member stands at failpoint `point`; it waits there until the fault has landed."""

    point: str

    def matches_point(self, source: str, point: str, data: Mapping[str, Any]) -> bool:
        """Whether this stop counts towards `nth`."""
        return point == self.point and self.fields_match({"source": source, **data})


class OnLog(Trigger, frozen=True, kw_only=True):
    """The nth log line of `member` (a glob over names; None: anyone) in which `regex` is found."""

    regex: str
    member: str | None = None
    nth: int = 1


class OnProbe(Trigger, frozen=True, kw_only=True):
    """The first sample of the probe named `probe` in the experiment's hypothesis that meets `condition`."""

    probe: str
    condition: Condition


class OnFile(_Counted, frozen=True, kw_only=True):
    """The nth time that a member is about to do `op` on a path that matches the glob `path`; the operation waits until
    the fault has landed, and happens then. Relative globs are below the target's data. `where` may ask for `source`."""

    path: str
    op: str

    def matches_file(self, source: str, op: str, path: str, data: Mapping[str, Any]) -> bool:
        """Whether this operation counts towards `nth`; `path` is relative to the target's data where it lies there."""
        return op == self.op and matches_path(self.path, path) and self.fields_match({"source": source, **data})


class OnPhase(Trigger, frozen=True, kw_only=True):
    """The nth time that a recovery enters a phase: a fault during a recovery.

    After a fault has landed, `recovery.restart` begins with `failure.detected`; after both, `recovery.form` with
    `group.forming`, `recovery.load` with `checkpoint.loading`, `recovery.warmup` with `recovery.validated`, and after
    that one `recovery.save` with `checkpoint.begun`, the first save after the resume.
    """

    phase: str
    nth: int = 1


# The events that lead into a phase, in this order; the last one is its beginning.
PHASES: Mapping[str, tuple[str, ...]] = {
    "recovery.restart": ("fault.landed", "failure.detected"),
    "recovery.form": ("fault.landed", "failure.detected", "group.forming"),
    "recovery.load": ("fault.landed", "failure.detected", "checkpoint.loading"),
    "recovery.warmup": ("fault.landed", "failure.detected", "recovery.validated"),
    "recovery.save": ("fault.landed", "failure.detected", "recovery.validated", "checkpoint.begun"),
}


def matches_path(pattern: str, path: str) -> bool:
    """Whether a path matches a glob; `**` stands for any number of folders, also none, `*` stays within one."""
    return _glob(pattern).fullmatch(path) is not None


def regex(pattern: str) -> str:
    """The same glob for those who know only regular expressions."""
    return _glob(pattern).pattern


@cache
def _glob(pattern: str) -> re.Pattern[str]:
    out, place = "", 0
    while place < len(pattern):
        if pattern.startswith("**/", place):
            out, place = out + "(?:[^/]+/)*", place + 3
        elif pattern.startswith("**", place):
            out, place = out + ".*", place + 2
        elif pattern[place] == "*":
            out, place = out + "[^/]*", place + 1
        elif pattern[place] == "?":
            out, place = out + "[^/]", place + 1
        else:
            out, place = out + re.escape(pattern[place]), place + 1
    return re.compile(out)


class After(Trigger, frozen=True, kw_only=True):
    """When another step (by its name) has landed, or with `healed` when it was healed."""

    step: str
    healed: bool = False


AnyTrigger = At | Every | Poisson | OnEvent | OnPoint | OnFile | OnPhase | OnLog | OnProbe | After
