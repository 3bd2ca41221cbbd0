from __future__ import annotations

from typing import Any

import pytest

from chaos.history import Event
from chaos.report.contract import measured, ordered, rto
from chaos.result import Kind, Result
from chaos.verdict import Outcome, failed

from .scripted import check, result_of


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ({}, ""),
        ({"value": 3.21, "limit": 6.0, "unit": "s"}, "3.2 s of 6.0 s"),
        ({"value": 0, "limit": 20, "unit": "steps"}, "0 of 20 steps"),
        ({"value": 12, "unit": "samples"}, "12 samples"),
        ({"value": 1, "unit": "samples"}, "1 sample"),
        ({"value": 0, "limit": 1, "unit": "steps"}, "0 of 1 step"),
        ({"value": "n3"}, "n3"),
        ({"limit": 6.0, "unit": "s"}, ""),
        (
            {"lowest": 79.25, "highest": 120, "unit": "samples/s", "bound": {"at-least": 84}},
            "79.25 to 120 samples/s, at least 84",
        ),
        ({"lowest": 1, "highest": 1, "bound": {"equals": "x"}}, "1 to 1"),
    ],
)
def test_what_was_measured_stands_beside_its_bound(told: dict[str, Any], shown: str) -> None:
    assert measured(check("x", Kind.BUDGET, failed("y"), **told)) == shown


def test_a_figure_wears_the_outcome_only_of_a_check_that_is_about_it(events: list[Event]) -> None:
    worse = check("rto.restart", Kind.BUDGET, failed("another episode"), value=9.0, limit=5.0, unit="s")
    result = result_of(events, worse, outcome=Outcome.FAIL)
    assert result.worst is not None
    figures = {f.name: f for f in rto(result, result.worst)}
    assert (figures["rto.restart"].value, figures["rto.restart"].limit) == (0.5, 5.0)
    assert figures["rto.restart"].outcome is None
    assert figures["rto.detect"].outcome is Outcome.PASS


def test_what_needs_attention_comes_first_in_the_files_order(red: Result) -> None:
    found = [c.verdict.outcome for c in ordered(red)]
    assert found == [Outcome.FAIL, Outcome.UNKNOWN] + [Outcome.PASS] * (len(found) - 2)
    green = [c for c in red.checks if c.verdict.outcome is Outcome.PASS]
    assert list(ordered(red))[2:] == green
