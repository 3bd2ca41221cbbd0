"""Trends over builds: what is compared, what is called worse, and what is too little to say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from chaos.errors import Exit
from chaos.evidence import Build, Evidence
from chaos.trend import Asked, State, Trend, trends
from chaos.trend.text import sparkline, text
from chaos.verdict import Outcome

STEADY = (4.0, 4.1, 4.2, 4.3, 4.4)
WORSE = (6.0, 6.1, 6.2, 6.3, 6.4)


def runs(
    build: str, values: Sequence[float], start: float = 0.0, figure: str = "rto.total", **more: Any
) -> list[Evidence]:
    """A run for each value, a minute apart."""
    return [
        Evidence(
            **{
                "run": f"{build}{start}{n}", "folder": "/f", "experiment": "cut", "file": "/f", "target": "app",
                "recipe": "r", "build": Build(sources=build, commit=f"c-{build}"), "started": start + 60 * n,
                "outcome": Outcome.PASS, "exit": Exit.PASS, "headline": "h", "figures": {figure: value}, **more,
            }
        )
        for n, value in enumerate(values)
    ]  # fmt: skip


def only(found: list[Evidence], **asked: Any) -> Trend:
    (trend,) = trends(found, Asked(**asked)).trends
    return trend


def test_a_build_that_takes_longer_is_worse() -> None:
    trend = only([*runs("a", STEADY), *runs("b", WORSE, 1e4)])
    assert trend.state is State.WORSE
    assert [(p.build.sources, p.runs, p.median) for p in trend.points] == [("a", 5, 4.2), ("b", 5, 6.2)]
    assert trend.compared is not None
    assert (trend.compared.superiority, round(trend.compared.shift, 6)) == (1.0, 2.0)
    assert trend.p == pytest.approx(1 / 252)


def test_a_build_that_takes_less_is_not() -> None:
    assert only([*runs("a", WORSE), *runs("b", STEADY, 1e4)]).state is State.STEADY
    assert only([*runs("a", STEADY), *runs("b", STEADY, 1e4)]).state is State.STEADY


def test_of_goodput_less_is_worse() -> None:
    asked = {"figures": ("goodput",)}
    assert only([*runs("a", WORSE, 0, "goodput"), *runs("b", STEADY, 1e4, "goodput")], **asked).state is State.WORSE
    assert only([*runs("a", STEADY, 0, "goodput"), *runs("b", WORSE, 1e4, "goodput")], **asked).state is State.STEADY


def test_one_against_one_is_too_few_and_never_fine() -> None:
    trend = only([*runs("a", [4.0]), *runs("b", [400.0], 1e4)])
    assert (trend.state, trend.needed) == (State.TOO_FEW, 19)
    shown = text(trends([*runs("a", [4.0]), *runs("b", [400.0], 1e4)], Asked()), color=False)
    assert "too few: 1 run of the newest build; 19 could show something" in shown
    assert not trends([*runs("a", [4.0]), *runs("b", [4.0], 1e4)], Asked()).tested


def test_one_build_has_nothing_to_be_compared_with() -> None:
    found = trends(runs("a", STEADY), Asked())
    assert (found.trends[0].state, found.tested) == (State.TOO_FEW, False)
    assert "5 runs of one build: there is nothing to compare with" in text(found, color=False)


def test_as_many_builds_before_are_taken_as_it_takes() -> None:
    before = [run for n, value in enumerate(STEADY) for run in runs(f"a{n}", [value], 1e4 * n)]
    trend = only([*before, *runs("b", WORSE, 1e6)])
    assert trend.compared is not None
    assert (trend.compared.before, trend.state) == (2, State.WORSE)  # 1 of 21 ways is below 0.05


def test_many_figures_are_corrected_for_being_many() -> None:
    """A p of 1/20 is worse for one trend alone, and not for one of two."""
    first = [*runs("a", [1.0, 2.0, 3.0, 3.5]), *runs("b", [3.2, 5.0, 6.0, 7.0], 1e4)]
    alone = only(first)
    assert alone.p is not None
    assert alone.p < 0.05
    others = [
        run
        for n in range(2)
        for b, at in (("a", 0.0), ("b", 1e4))
        for run in runs(b, [1.0, 2.0, 3.0, 4.0], at, experiment=f"other{n}")
    ]
    together = next(t for t in trends([*first, *others], Asked()).trends if t.experiment == "cut")
    assert together.p is not None
    assert together.p > 0.05
    assert together.state is State.STEADY


def test_what_could_not_be_shown_among_so_many_is_too_few_and_never_fine() -> None:
    """Three against three have a p of 1/20 at best: enough alone, and for nothing beside another figure."""
    three = [*runs("a", STEADY[:3]), *runs("b", WORSE[:3], 1e4)]
    assert only(three).state is State.WORSE
    other = [*runs("a", STEADY[:3], experiment="other"), *runs("b", WORSE[:3], 1e4, experiment="other")]
    found = trends([*three, *other], Asked())
    assert [t.state for t in found.trends] == [State.TOO_FEW] * 2
    assert not found.tested
    assert {t.needed for t in found.trends} == {5}
    # One that has enough is not corrected for those that can say nothing.
    enough = [*runs("a", STEADY), *runs("b", WORSE, 1e4)]
    found = trends([*enough, *other], Asked())
    assert [(t.state, t.p) for t in found.trends] == [(State.WORSE, pytest.approx(1 / 252)), (State.TOO_FEW, None)]


def test_nothing_is_held_against_an_old_build_that_is_back() -> None:
    back = [*runs("a", STEADY), *runs("b", WORSE, 1e4), *runs("a", STEADY, 2e4)]
    found = trends(back, Asked())
    (trend,) = found.trends
    assert (trend.state, trend.back, found.worse) == (State.WORSE, Build(sources="a", commit="c-a"), ())
    assert "the newest run is of a again" in text(found, color=False)
    again = trends([*back, *runs("b", WORSE, 3e4)], Asked())
    assert [t.back for t in again.worse] == [None]


def test_what_is_not_comparable_is_left_out() -> None:
    good = [*runs("a", STEADY), *runs("b", STEADY, 1e4)]
    noise = [
        *runs("a", WORSE, 10.0, overrides={"nodes": "9"}),
        *runs("b", WORSE, 1e4 + 5, exit=Exit.INCONCLUSIVE),
        *runs("a", WORSE, 20.0, recipe="older"),
        *runs("a", WORSE, 30.0, lab=False),
        *runs("a", [1.0], 40.0, figure="rto.detect"),
    ]
    trend = only(sorted([*good, *noise], key=lambda r: r.started))
    assert ([p.runs for p in trend.points], trend.left_out) == ([5, 5], 10)
    assert [p.median for p in trend.points] == [4.2, 4.2]


def test_a_failed_run_counts_since_without_it_the_figure_would_flatter() -> None:
    failed = runs("b", WORSE, 1e4, outcome=Outcome.FAIL, exit=Exit.FAIL)
    assert only([*runs("a", STEADY), *failed]).state is State.WORSE


def test_a_level_that_came_with_an_earlier_build_is_told_and_not_held_against_the_newest() -> None:
    history = [*runs("a", STEADY * 2), *runs("b", WORSE, 1e4), *runs("c", WORSE, 2e4)]
    found = trends(history, Asked())
    (trend,) = found.trends
    assert trend.state is State.SHIFTED
    assert trend.changed is not None
    assert (trend.changed.sources, trend.levels) == ("b", (4.2, 6.2))
    assert found.worse == ()
    assert "another level since c-b: median 4.20 → 6.20 s" in text(found, color=False)


def test_a_level_that_is_better_by_now_is_no_trouble() -> None:
    trend = only([*runs("a", WORSE * 2), *runs("b", STEADY, 1e4), *runs("c", STEADY, 2e4)])
    assert trend.change_p is not None
    assert (trend.change_p < 0.05, trend.state) == (True, State.STEADY)


def test_what_is_asked_for_is_what_is_looked_at() -> None:
    variants: tuple[dict[str, Any], ...] = ({"target": "x"}, {"experiment": "y"}, {})
    history = [run for more in variants for run in (*runs("a", STEADY, **more), *runs("b", STEADY, 1e4, **more))]
    assert len(trends(history, Asked()).trends) == 3
    assert [t.target for t in trends(history, Asked(targets=("x",))).trends] == ["x"]
    assert [t.experiment for t in trends(history, Asked(experiments=("y",))).trends] == ["y"]
    assert trends(history, Asked(figures=("rpo",))).trends == ()
    assert len(trends(history, Asked(figures=("rto",))).trends) == 3
    assert text(trends([], Asked()), color=False) == "no run on record has such a figure\n"


def test_builds_are_in_the_order_of_their_first_runs() -> None:
    trend = only([*runs("b", [1.0], 0), *runs("a", [1.0], 60), *runs("b", [1.0], 120)])
    assert [p.build.sources for p in trend.points] == ["b", "a"]


def test_the_print_has_its_numbers_below_each_other() -> None:
    shown = text(trends([*runs("a", STEADY), *runs("b", [v + 10 for v in WORSE], 1e5)], Asked()), color=False)
    assert shown.splitlines() == [
        "app · cut · rto.total, s  ▁█",
        "  build  commit  first run   runs  median    p95",
        "  a      c-a     1970-01-01     5    4.20   4.38",
        "  b      c-b     1970-01-02     5   16.20  16.38",
        "  worse: +12 s, higher in 100% of pairs, p = 0.004 (corrected), 5 against 5 runs",
        "",
        "1 worse",
    ]
    assert "\x1b[1;31mworse\x1b[0m" in text(trends([*runs("a", STEADY), *runs("b", WORSE, 1e5)], Asked()), color=True)


def test_a_sparkline_spans_what_there_is() -> None:
    assert sparkline([1.0, 2.0, 3.0]) == "▁▅█"
    assert sparkline([2.0, 2.0]) == "▄▄"
