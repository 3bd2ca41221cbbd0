from __future__ import annotations

import msgspec
import pytest

from chaos.experiment import Budget
from chaos.judge import series
from chaos.report.repeats import Repeat, encode, strips
from chaos.result import Result
from chaos.verdict import Outcome

from .scripted import partition_run, result_of
from .test_page import Tree


def runs(*totals: float | None) -> list[Repeat]:
    base = result_of(partition_run())
    found = []
    for i, total in enumerate(totals):
        recovery = msgspec.structs.replace(base.recoveries[0], total=total, complete=total is not None)
        outcome = Outcome.PASS if total is not None else Outcome.FAIL
        result = msgspec.structs.replace(base, recoveries=(recovery,), outcome=outcome)
        found.append(Repeat(f"run-{i}", f"run-{i}/report.html", result))
    return found


def page(repeats: list[Repeat]) -> Tree:
    results: list[Result] = [r.result for r in repeats]
    return Tree(encode(repeats, series(results, Budget())))


def test_every_run_is_a_point_that_leads_to_its_report() -> None:
    tree = page(runs(3.0, 4.0, 5.0))
    links = [a["href"] for tag, a in tree.elements if tag == "a"]
    assert {"run-0/report.html", "run-1/report.html", "run-2/report.html"} <= set(links)
    assert "3 of 3 runs passed" in tree.text


def test_runs_of_one_name_from_two_places_keep_their_figures() -> None:
    twins = [run._replace(name="run") for run in runs(3.0, 9.0)]
    total = next(s for s in strips(twins) if s.name == "rto.total")
    assert [dot.told for dot in total.dots] == ["run: 3.0 s", "run: 9.0 s"]
    told = page(twins).text
    assert "RTO, in all 3.0 s" in told
    assert "RTO, in all 9.0 s" in told


def test_a_run_without_a_report_is_a_point_in_the_colour_of_its_verdict_too() -> None:
    bare = [run._replace(link="") for run in runs(3.0, 4.0)]
    bare[1] = bare[1]._replace(result=msgspec.structs.replace(bare[1].result, outcome=Outcome.FAIL))
    groups = [a["class"] for tag, a in page(bare).elements if tag == "g"]
    assert {"pass", "fail"} == set(groups)


def test_points_box_and_budget_lie_on_one_scale() -> None:
    total = next(s for s in strips(runs(*(float(i) for i in range(10, 21)))) if s.name == "rto.total")
    xs = [dot.x for dot in total.dots]
    assert xs == sorted(xs)
    assert total.whiskers == (xs[0], xs[-1])
    assert total.box[0] < total.middle < total.box[1]
    assert total.middle == pytest.approx(xs[5])
    assert total.limit is not None
    assert total.limit > total.interval[1]  # 30 s
    assert not total.over


def test_a_budget_far_beyond_the_points_does_not_press_them_together() -> None:
    total = next(s for s in strips(runs(1.0, 2.0, 3.0)) if s.name == "rto.total")
    assert total.far
    assert max(dot.x for dot in total.dots) > 700


def test_a_budget_that_the_p95_may_break_is_said() -> None:
    total = next(s for s in strips(runs(3.0, 4.0, 31.0)) if s.name == "rto.total")
    assert total.over
    assert "goes beyond the budget" in page(runs(3.0, 4.0, 31.0)).text


def test_a_run_that_did_not_recover_is_counted_and_not_drawn() -> None:
    total = next(s for s in strips(runs(3.0, None, 5.0)) if s.name == "rto.total")
    assert (len(total.dots), total.missing) == (2, 1)
    assert "1 run does not have it" in page(runs(3.0, None, 5.0)).text
