"""N runs of one experiment: how often it passed, and what recovery costs at the tail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chaos.errors import Exit
from chaos.experiment import Budget
from chaos.judge import budget as figures
from chaos.result import Check, Kind, Need, Result, Series, Spread
from chaos.statistics import ENOUGH, spread, wilson
from chaos.units import counted
from chaos.verdict import Outcome, Verdict, failed, merge, passed, unknown

_EXITS = (Exit.HEAL_FAILED, Exit.INTERRUPTED, Exit.TERMINATED, Exit.USAGE, Exit.FAIL, Exit.INCONCLUSIVE, Exit.PASS)


def series(results: Sequence[Result], budget: Budget, seed: int = 0) -> Series:
    """The runs taken together. A bound of the budget is judged on the upper end of the interval of its p95."""
    if not results:
        raise ValueError("a series needs at least one run")
    spreads: dict[str, Spread] = {}
    checks: list[Check] = []
    for family, fields in (("rpo", figures.RPO), ("rto", figures.RTO)):
        for field, unit in fields.items():
            name = f"{family}.{field}"
            taken = [v for result in results if (v := _of_run(result, name)) is not None]
            if taken:
                spreads[name] = spread(taken, seed)
            limit = getattr(getattr(budget, family), field, None)
            if limit is not None:
                checks.append(_check(name, unit, limit, spreads.get(name), len(results)))
    outcome = merge([*(r.outcome for r in results), *(c.verdict.outcome for c in checks)])
    passes = sum(r.outcome is Outcome.PASS for r in results)
    exits = {r.exit for r in results} | ({Exit.FAIL} if outcome is Outcome.FAIL else set())
    exits |= {Exit.INCONCLUSIVE} if outcome is Outcome.UNKNOWN else set()
    return Series(
        experiment=results[0].experiment,
        outcome=outcome,
        exit=next(e for e in _EXITS if e in exits),
        headline=f"{passes} of {counted(len(results), 'run')} passed",
        runs=len(results),
        passes=passes,
        rate=(passes / len(results), *wilson(passes, len(results))),
        spreads=spreads,
        checks=tuple(checks),
    )


def _of_run(result: Result, name: str) -> float | None:
    """The worst figure of a run; none where a failure does not tell it, since that of the others would flatter."""
    timed = [r for r in result.recoveries if r.need is not Need.PLANNED or name.startswith("rpo")]
    values = [(r.need, figures.value(r, name)) for r in timed]
    if any(value is None and need in (Need.FAILURE, Need.UNPROVOKED) for need, value in values):
        return None
    return max((value for _, value in values if value is not None), default=None)


def _check(name: str, unit: str, limit: float, spread: Spread | None, runs: int) -> Check:
    measured: dict[str, Any] = {"limit": limit, "unit": unit}
    if spread is None:
        return Check(
            name=name,
            kind=Kind.BUDGET,
            verdict=unknown(f"measured in none of {counted(runs, 'run')}"),
            measured=measured,
        )
    few = f", too few to be sure of a p95: {ENOUGH} are needed" if spread.count < ENOUGH else ""
    reason = (
        f"p95 {spread.p95:.4g} {unit}, its 95 % bootstrap interval ends at {spread.high:.4g} ({spread.count} of "
        f"{counted(runs, 'run')}{few}); {limit:g} {unit} allowed"
    )
    # Evidence of a series is its runs, by number.
    verdict: Verdict = passed(reason, range(runs)) if spread.high <= limit else failed(reason)
    measured |= {"value": spread.high, "median": spread.median, "p95": spread.p95, "maximum": spread.maximum}
    return Check(name=name, kind=Kind.BUDGET, verdict=verdict, measured=measured)
