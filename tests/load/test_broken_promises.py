"""Mistakes in what is promised: hypotheses, budget, limits, invariants."""

from __future__ import annotations

import pytest

from .broken import control, steady
from .conftest import TARGET, Load, Mistakes

ROWS: dict[str, tuple[str, str]] = {
    # --- hypotheses
    "no bound": (
        steady(),
        "4:5: no bound, so nothing would be judged (one of at-least, at-most, between, equals)",
    ),
    "a tolerance that is not applied": (
        steady("at-least: 1", "tolerance: 2"),
        "6:5: unknown key `tolerance` in `training.throughput`",
    ),
    "two bounds": (
        steady("at-least: 1", "at-most: 2"),
        "6:5: two bounds: `at-least` and `at-most` (`between: [low, high]` is both)",
    ),
    "a bound that no number meets": (
        steady("equals: true"),
        "5:13: `true` can never be met as a bound (the probe gives a number in samples/s)",
    ),
    "a bound in the wrong unit": (
        steady("at-least: 90%"),
        "5:15: `90%` is no bound for this probe (the probe gives a number in samples/s, or `0.7 of baseline`)",
    ),
    "a bound that is no number": (
        steady("at-least: .nan"),
        "5:15: `nan` can never be met as a bound",
    ),
    "bounds the wrong way round": (
        steady("between: [2, 1]"),
        "5:14: the low bound is above the high one",
    ),
    "half a baseline": (
        steady("between: [0.5 of baseline, 9]"),
        "5:14: one bound is of the baseline, the other is not",
    ),
    "the baseline against itself": (
        steady("at-least: 0.7 of baseline", "mode: before"),
        "6:11: the baseline cannot be held against itself",
    ),
    "an unknown mode": (
        steady("at-least: 1", "mode: egde"),
        "6:11: one of before, after, edge, continuous, during is meant, not `egde` (did you mean `edge`?)",
    ),
    "a mode that is never judged": (
        steady("at-least: 1", "mode: during"),
        "6:11: `during` is never judged: the method has no fault",
    ),
    "an unknown probe": (
        control("steady-state-hypothesis:\n  - probe: training.throughputs\n    at-least: 1"),
        "4:12: unknown probe `training.throughputs` (did you mean `training.throughput`?)",
    ),
    "hypotheses as a mapping": (
        control("steady-state-hypothesis: {probe: a}"),
        "3:26: `steady-state-hypothesis` is a list, not a mapping",
    ),
    "a mode of an abort": (
        control("abort:\n  - probe: host.memory\n    at-most: 90%\n    mode: during"),
        "6:5: unknown key `mode` in `host.memory`",
    ),
    # --- budget, limits, invariants
    "a budget with a unit missing": (
        control("budget:\n  rto: {total: 30}"),
        "4:16: `30` has no unit (a duration is written",
    ),
    "a budget of nothing in particular": (
        control("budget:\n  rto: 30s"),
        "4:8: `rto` does not say of what `30s` is (such as {total: 30s})",
    ),
    "an empty budget": (control("budget: {}"), "3:9: a budget without a bound would not be"),
    "an empty part of a budget": (control("budget: {rpo: {}}"), "3:15: a budget without a"),
    "a term that does not exist": (
        control("budget:\n  rto: {warm-up: 3s}"),
        "4:9: unknown key `warm-up` in `rto` (did you mean `warmup`?)",
    ),
    "a negative loss": (
        control("budget:\n  rpo: {steps: -1}"),
        "4:16: `-1` is not at least 0",
    ),
    "an unknown limit": (
        control("limits: {wal: 3s}"),
        "3:10: unknown key `wal` in `limits` (did you mean `wall`?)",
    ),
    "an unknown invariant": (
        control("invariants: [fenced-writers]"),
        "3:14: unknown invariant `fenced-writers` (did you mean `fenced-writer`?)",
    ),
    "an invariant the target cannot feed": (
        control("invariants: [no-orphan]"),
        "3:14: `no-orphan` cannot be judged: the target declares no `worker.stopped`",
    ),
    "an invariant twice": (
        control("invariants: [fenced-writer, fenced-writer]"),
        "3:29: `fenced-writer` is given twice",
    ),
    "a wrong setting of an invariant": (
        control("invariants:\n  - fenced-writer: {atempt: required}"),
        "4:21: unknown key `atempt` in `fenced-writer` (did you mean `attempt`?)",
    ),
}


@pytest.mark.parametrize(("text", "expected"), ROWS.values(), ids=ROWS)
def test_a_mistake_is_told_once_at_its_place(mistakes: Mistakes, text: str, expected: str) -> None:
    (only,) = mistakes(text)
    assert only.startswith(f"sample.yaml:{expected}"), only


@pytest.mark.parametrize(
    ("budget", "place", "what"),
    [
        ("{rpo: {steps: 20}}", "4:15", "rpo"),
        ("{rto: {total: 9s, restart: 2s}}", "4:36", "rto.restart"),
        ("{rto: {warmup: 2s}}", "4:24", "rto.warmup"),
    ],
)
def test_what_means_nothing_for_a_service_is_refused(mistakes: Mistakes, budget: str, place: str, what: str) -> None:
    serving = TARGET.replace("step.completed: [step, rank, epoch]", "request.completed: [id]")
    (only,) = mistakes(f"target: target.yaml\nmethod: []\ntitle: a\nbudget: {budget}", target=serving)
    assert only.startswith(f"sample.yaml:{place}: `{what}` means nothing for sample"), only


def test_a_service_may_have_a_bound_on_what_its_clients_see(load: Load) -> None:
    serving = TARGET.replace("step.completed: [step, rank, epoch]", "request.completed: [id]")
    text = "target: target.yaml\nmethod: []\nbudget: {rto: {total: 2s, detect: 1s}}"
    assert load(text, target=serving).budget.rto is not None
