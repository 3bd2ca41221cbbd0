from __future__ import annotations

import msgspec
import pytest

from chaos.history import Event, History
from chaos.report.compare import Side, changes, difference, encode, overlaid, terms
from chaos.result import Kind, Result
from chaos.verdict import Outcome, failed, passed

from .scripted import check, partition_run, result_of, serving_run
from .test_page import Tree


def slower(result: Result) -> Result:
    worst = msgspec.structs.replace(result.recoveries[0], total=8.2, warmup=5.3, lost_steps=4)
    return msgspec.structs.replace(result, recoveries=(worst,))


def test_terms_are_told_with_their_difference(result: Result) -> None:
    rows = {row.label: row for row in terms(result, slower(result))}
    assert (rows["RTO"].first, rows["RTO"].second) == ("4.1 s", "8.2 s")
    assert (rows["RTO"].change, rows["RTO"].mood) == ("+4.1 s (+100 %)", "worse")
    assert (rows["RPO, steps"].change, rows["RPO, steps"].mood) == ("+4 steps", "worse")
    assert (rows["detect"].change, rows["detect"].mood) == ("same", "")
    assert rows["RTO"].limit == "30.0 s"


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (10.0, 10.1, ("same", "")),
        (10.0, 10.5, ("+500 ms (+5 %)", "")),
        (10.0, 5.0, ("−5.0 s (−50 %)", "better")),
        (0.0, 3.0, ("+3.0 s", "worse")),
        (None, None, ("same", "")),
        (None, 3.0, ("only one is known", "")),
    ],
)
def test_a_difference_is_better_or_worse_only_where_it_is_more_than_chance(
    first: float | None, second: float | None, told: tuple[str, str]
) -> None:
    assert difference(first, second, "s") == told


def test_what_else_the_machines_did_is_told(result: Result) -> None:
    busy, idle = (msgspec.structs.replace(result, others=share) for share in (0.5, 0.1))
    (row,) = (t for t in terms(busy, idle) if t.label == "other work on the machine")
    assert (row.first, row.second, row.mood) == ("50 %", "10 %", "")


def test_more_goodput_is_better(result: Result) -> None:
    more = msgspec.structs.replace(result, efficiency=msgspec.structs.replace(result.efficiency, goodput=0.95))
    assert {t.label: t.mood for t in terms(result, more)}["goodput"] == "better"


def test_checks_that_changed_are_told_and_the_others_counted(events: list[Event]) -> None:
    one = result_of(events, check("fenced", Kind.INVARIANT, passed("refused", [1])))
    two = result_of(
        events, check("fenced", Kind.INVARIANT, failed("taken", [1])), check("new", Kind.RUN, passed("x", [1]))
    )
    found = list(changes(one, two))
    assert [(c.name, c.first, c.second) for c in found] == [
        ("fenced", Outcome.PASS, Outcome.FAIL), ("new", None, Outcome.PASS),
    ]  # fmt: skip
    assert found[0].why == "taken"
    assert list(changes(one, one)) == []


def test_checks_that_only_one_run_has_are_not_taken_from_those_that_say_the_same(events: list[Event]) -> None:
    one = result_of(events)
    two = result_of(events, *(check(f"new {n}", Kind.RUN, passed("x", [1])) for n in range(9)))
    page = Tree(encode(Side("a", "", one, History(events)), Side("b", "", two, History(events))))
    assert f"{len(one.checks)} checks say the same in both" in page.text


def test_curves_lie_over_each_other_with_the_fault_at_zero() -> None:
    first = partition_run()
    later = [msgspec.structs.replace(e, t=e.t + (5.0 if e.t > 1 else 0.0)) for e in first]
    data = overlaid(History(first), History(later))
    loss = next(c for c in data["charts"] if c["title"] == "loss")
    a, b = loss["layers"]
    assert (a["name"], b["name"]) == ("A", "B")
    assert a["pieces"] == b["pieces"]
    assert a["pieces"][0][0] < 0 < a["pieces"][-1][0]
    assert data["from"] == pytest.approx(-11.1, abs=0.2)


def test_the_page_shows_both_verdicts(result: Result, red: Result, history: History) -> None:
    tree = Tree(encode(Side("a", "a/report.html", result, history), Side("b", "", red, history)))
    assert "Passed" in tree.text
    assert "Failed" in tree.text
    assert [a["href"] for tag, a in tree.elements if tag == "a"] == ["#main", "a/report.html"]
    assert "no-uncommitted-restore" in tree.text


def test_runs_of_different_kinds_have_a_page(result: Result, history: History) -> None:
    events = serving_run()
    other = msgspec.structs.replace(result_of(events), experiment="serve", recoveries=())
    tree = Tree(encode(Side("a", "", result, history), Side("b", "", other, History(events))))
    assert "runs of different experiments: cut and serve" in tree.text
