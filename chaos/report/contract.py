"""The recovery contract of a run: each figure beside its budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from chaos.report.lines import number, seconds
from chaos.result import Check, Kind, Recovery, Result
from chaos.verdict import Outcome

TERMS = (("detect", "detect"), ("restart", "restart"), ("load", "load"), ("warmup", "warm-up"))
_UNITS = (("steps", "steps"), ("samples", "samples"), ("seconds", "s"))


class Figure(NamedTuple):
    """A measured value; `limit` None: nothing was promised. `outcome` None: not judged."""

    name: str  # as the experiment's file calls it: rto.total
    label: str
    value: float | None
    limit: float | None
    unit: str
    outcome: Outcome | None

    @property
    def share(self) -> float:
        """How much of the budget is spent; 0 where either is unknown."""
        return self.value / self.limit if self.value is not None and self.limit else 0.0

    def __str__(self) -> str:
        return against(self.value, self.limit, self.unit)

    @property
    def amount(self) -> str:
        """The value with its unit."""
        return amount(self.value, self.unit)

    @property
    def budget(self) -> str:
        """`of 6.0 s`, or that none was set."""
        return "no budget" if self.limit is None else f"of {amount(self.limit, self.unit)}"


def amount(value: float | None, unit: str) -> str:
    """A value with its unit."""
    if unit == "s":
        return seconds(value)
    if value == 1 and unit in ("steps", "samples"):
        unit = unit.removesuffix("s")
    return f"{number(value)} {unit}".strip() if value is not None else "–"


def against(value: float | None, limit: float | None, unit: str) -> str:
    """A value beside its bound: `3.2 s of 6.0 s`, `0 of 20 steps`."""
    if limit is None:
        return amount(value, unit)
    return f"{amount(value, unit) if unit == 's' else number(value)} of {amount(limit, unit)}"


def rto(result: Result, recovery: Recovery) -> tuple[Figure, ...]:
    """The total and the four terms that add up to it; of a service the first of them."""
    whole = _figure(result, "rto.total", "RTO", recovery.total, "s")
    terms = TERMS[:1] if recovery.serving else TERMS
    return (whole, *(_figure(result, f"rto.{f}", label, getattr(recovery, f), "s") for f, label in terms))


def rpo(result: Result, recovery: Recovery) -> tuple[Figure, ...]:
    """What was lost, in steps, samples and seconds; nothing can be of a service."""
    if recovery.serving:
        return ()
    return tuple(_figure(result, f"rpo.{f}", f"RPO, {f}", getattr(recovery, f"lost_{f}"), unit) for f, unit in _UNITS)


def measured(check: Check) -> str:
    """What a check measured, beside its bound: `3.2 s of 6.0 s`, or `79 to 120 samples/s, at least 84`."""
    m = check.measured
    unit = str(m.get("unit") or "")
    if isinstance(m.get("value"), int | float):
        return against(m["value"], m.get("limit"), unit)
    if "lowest" not in m:
        return number(m["value"]) if "value" in m else ""
    bound = ", ".join(f"{word.replace('-', ' ')} {number(value)}" for word, value in bounds(check).items())
    return f"{number(m['lowest'])} to {number(m.get('highest'))} {unit}".rstrip() + (f", {bound}" if bound else "")


def bounds(check: Check) -> Mapping[str, float]:
    """The numeric bounds of a hypothesis: `at-least`, `at-most`."""
    found = check.measured.get("bound")
    if not isinstance(found, Mapping):
        return {}
    return {word: value for word, value in found.items() if isinstance(value, int | float)}


def ordered(result: Result) -> Iterator[Check]:
    """The checks, what needs attention first, else in the order of the experiment."""
    rank = {Outcome.FAIL: 0, Outcome.UNKNOWN: 1, Outcome.PASS: 2}
    yield from sorted(result.checks, key=lambda c: rank[c.verdict.outcome])


def _figure(result: Result, name: str, label: str, value: float | None, unit: str) -> Figure:
    check = next((c for c in result.of(Kind.BUDGET) if c.name == name), None)
    if check is None:
        return Figure(name, label, value, None, unit, None)
    # The check judges the worst of all episodes: its outcome is this figure's only where it is about this figure.
    outcome = check.verdict.outcome if check.measured.get("value") == value else None
    return Figure(name, label, value, check.measured.get("limit"), unit, outcome)
