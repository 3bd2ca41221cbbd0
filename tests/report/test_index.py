from __future__ import annotations

import pytest

from chaos.errors import Exit
from chaos.report.index import age, encode, lines, proofs, spark

from .evidence import NOW, inventory, proof
from .test_page import Tree


def state(path: str, *runs: object, **known: object) -> str:
    ordered = sorted(runs, key=lambda e: -e.started)  # type: ignore[attr-defined]
    found = proofs(ordered, {"trainer": inventory("a", "b", **known)}, NOW)  # type: ignore[arg-type]
    return next(row.state for row in found if row.path == path)


def test_a_path_is_proved_by_a_pass_of_the_build_as_it_is_now() -> None:
    assert state("a", proof(1, "a")) == "proved"
    assert state("a", proof(1, "a", build="old")) == "older"
    assert state("a", proof(1, "a"), sources="newer") == "older"


def test_a_path_that_nobody_exercised_was_never_proved() -> None:
    assert state("b", proof(1, "a")) == "never"
    assert state("b", proof(1, "a", entered=("b",))) == "never"  # it was not left well


def test_the_last_conclusive_run_decides() -> None:
    failed = proof(2, "a", exit=Exit.FAIL, ago=10.0)
    assert state("a", proof(1, "a"), failed) == "failed"
    assert state("a", proof(1, "a", ago=5.0), failed) == "proved"
    assert state("a", proof(1, "a"), proof(2, "a", exit=Exit.INCONCLUSIVE, ago=10.0)) == "proved"


def test_a_run_of_another_system_than_the_file_says_proves_nothing() -> None:
    assert state("a", proof(1, "a", overrides={"defect": "none"})) == "never"


def test_without_an_inventory_the_newest_run_is_the_newest_build() -> None:
    runs = [proof(2, "a", build="new", ago=10.0), proof(1, "b", build="old")]
    assert {row.path: row.state for row in proofs(runs, {}, NOW)} == {"a": "proved", "b": "older"}


def test_a_path_that_was_taken_out_is_no_gap() -> None:
    assert state("c", proof(1, "c")) == "gone"


def test_what_needs_attention_comes_first() -> None:
    runs = [proof(1, "b", "d"), proof(2, "d", exit=Exit.FAIL, ago=10.0)]
    rows = proofs(runs[::-1], {"trainer": inventory("a", "b", "d")}, NOW)
    assert [(row.path, row.state) for row in rows] == [("a", "never"), ("d", "failed"), ("b", "proved")]


def test_runs_with_settings_of_their_own_are_counted_apart() -> None:
    (line,) = lines([proof(2, exit=Exit.FAIL, overrides={"defect": "x"}), proof(1)])
    assert (line.runs, line.passes, line.others, line.last.run) == (1, 1, 1, "run-1")


def test_experiments_show_the_course_of_their_rto() -> None:
    runs = [proof(3, ago=1), proof(2, ago=2, exit=Exit.FAIL), proof(1, ago=3), proof(9, experiment="cut", ago=4)]
    first, second = lines(runs)
    assert (first.name, first.runs, first.passes, first.last.run) == ("kill", 3, 2, "run-3")
    assert first.spark is not None
    assert [dot[2] for dot in first.spark.dots] == ["pass", "fail", "pass"]
    assert [dot[1] for dot in first.spark.dots] == sorted((d[1] for d in first.spark.dots), reverse=True)  # it rises
    assert second.name == "cut"
    assert spark([proof(1, figures={})]) is None


@pytest.mark.parametrize(
    ("past", "words"),
    [(3.0, "just now"), (600.0, "10 minutes ago"), (9000.0, "2 hours ago"), (900_000.0, "10 days ago")],
)
def test_ages_are_told_as_people_do(past: float, words: str) -> None:
    assert age(past) == words


def test_runs_are_listed_newest_first_with_links_where_there_is_a_report() -> None:
    runs = [proof(1, "a", ago=100.0), proof(2, "a", ago=10.0)]
    tree = Tree(encode(runs, {}, now=NOW, links={"run-2": "run-2/report.html"}))
    assert tree.text.index("headline 2") < tree.text.index("headline 1")
    assert {a["href"] for tag, a in tree.elements if tag == "a"} == {"#main", "run-2/report.html"}


def test_an_empty_store_has_a_page() -> None:
    assert "No run has told of a recovery path" in Tree(encode([], {}, now=NOW, links={})).text


def test_ten_thousand_runs_stay_a_small_page_that_says_what_is_left_out() -> None:
    runs = [proof(i, "a", "b", ago=float(i), headline="x" * 200) for i in range(10_000)]
    page = encode(runs, {"trainer": inventory("a", "b")}, now=NOW, links={r.run: f"{r.run}/report.html" for r in runs})
    assert len(page) < 1_500_000
    assert "9000 older ones are in" in " ".join(Tree(page).text.split())


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><img src=x>', "{{ 7*7 }}"])
def test_no_text_of_a_run_becomes_markup(text: str) -> None:
    runs = [proof(1, text, headline=text, experiment=text, target=text, overrides={}), proof(2, overrides={text: text})]
    tree = Tree(encode(runs, {}, now=NOW, links={}))
    assert len([tag for tag, _ in tree.elements if tag == "script"]) == 3
    assert not [tag for tag, _ in tree.elements if tag == "img"]
    assert text in tree.text
