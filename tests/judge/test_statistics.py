"""Repeats: how often, and how much at the tail."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.errors import Exit
from chaos.experiment import Budget, Rto
from chaos.judge import series
from chaos.result import Need, Recovery, Result
from chaos.statistics import quantile, spread, wilson
from chaos.verdict import Outcome

CODES = {Outcome.PASS: Exit.PASS, Outcome.FAIL: Exit.FAIL, Outcome.UNKNOWN: Exit.INCONCLUSIVE}


def result(outcome: Outcome = Outcome.PASS, *totals: float | None, **more: Any) -> Result:
    return Result(
        experiment="e",
        outcome=outcome,
        exit=more.get("exit", CODES[outcome]),
        headline="",
        checks=(),
        recoveries=tuple(Recovery(need=Need.FAILURE, total=t, lost_steps=5) for t in totals),
    )


def test_a_series_of_passes_passes() -> None:
    found = series([result(Outcome.PASS, 2.0)] * 20, Budget(rto=Rto(total=3.0)))
    assert (found.outcome, found.exit, found.headline) == (Outcome.PASS, Exit.PASS, "20 of 20 runs passed")
    assert found.spreads["rto.total"].high == 2.0
    assert found.spreads["rpo.steps"].median == 5


def test_the_worst_recovery_of_a_run_is_its_figure() -> None:
    assert series([result(Outcome.PASS, 1.0, 4.0)], Budget()).spreads["rto.total"].median == 4.0


def test_a_run_with_a_failure_that_never_ended_has_no_total() -> None:
    found = series([result(Outcome.PASS, 1.0), result(Outcome.FAIL, 1.0, None)], Budget(rto=Rto(total=3.0)))
    assert found.spreads["rto.total"].count == 1
    assert "(1 of 2 runs" in found.checks[0].verdict.reason


def test_one_failure_fails_the_series() -> None:
    found = series([result(), result(Outcome.FAIL), result(Outcome.UNKNOWN)], Budget())
    assert (found.outcome, found.exit, found.passes) == (Outcome.FAIL, Exit.FAIL, 1)


def test_a_heal_that_failed_outranks_everything() -> None:
    found = series([result(Outcome.FAIL), result(Outcome.FAIL, exit=Exit.HEAL_FAILED)], Budget())
    assert found.exit is Exit.HEAL_FAILED


def test_a_budget_on_the_tail_is_judged_on_the_upper_end_of_its_interval() -> None:
    runs = [result(Outcome.PASS, t) for t in [1.0] * 19 + [10.0]]
    found = series(runs, Budget(rto=Rto(total=5.0)))
    (check,) = found.checks
    assert quantile(sorted([1.0] * 19 + [10.0]), 0.95) < 5.0  # the plain p95 would have passed
    assert check.verdict.outcome is Outcome.FAIL
    assert found.exit is Exit.FAIL


@pytest.mark.parametrize(("runs", "sure"), [(2, False), (58, False), (59, True)])
def test_few_runs_do_not_claim_to_know_the_tail(runs: int, sure: bool) -> None:
    (check,) = series([result(Outcome.PASS, 1.0)] * runs, Budget(rto=Rto(total=5.0))).checks
    assert ("too few to be sure of a p95" not in check.verdict.reason) is sure


def test_a_figure_that_no_run_measured_is_unknown() -> None:
    found = series([result()] * 3, Budget(rto=Rto(total=5.0)))
    assert found.outcome is Outcome.UNKNOWN


def test_the_interval_depends_on_the_seed_alone() -> None:
    values = [float(v) for v in range(30)]
    assert spread(values, seed=3) == spread(values, seed=3)
    assert spread(values, seed=3) != spread(values, seed=4)


def test_the_interval_holds_the_estimate_and_lies_within_the_values() -> None:
    found = spread([float(v) for v in range(100)])
    assert found.median == 49.5
    assert found.p95 == pytest.approx(94.05)
    assert found.low <= found.p95 <= found.high <= found.maximum == 99.0


def test_a_single_value_is_its_own_interval() -> None:
    found = spread([3.0])
    assert (found.median, found.p95, found.low, found.high) == (3.0, 3.0, 3.0, 3.0)


def test_the_pass_rate_has_its_textbook_interval() -> None:
    assert wilson(20, 20) == pytest.approx((0.8389, 1.0), abs=1e-4)
    assert wilson(10, 20) == pytest.approx((0.2993, 0.7007), abs=1e-4)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)


def test_a_series_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        series([], Budget())
