from __future__ import annotations

from xml.etree import ElementTree

import pytest

from chaos.errors import Exit
from chaos.history import Event, History
from chaos.report.junit import encode, quote
from chaos.result import Kind, Result
from chaos.verdict import Outcome, failed

from .scripted import check, result_of


def suite(result: Result, history: History) -> ElementTree.Element:
    root = ElementTree.fromstring(encode([(result, history)]))
    found = root.find("testsuite")
    assert found is not None
    return found


def test_one_case_a_check_and_one_for_the_verdict(result: Result, history: History) -> None:
    found = suite(result, history)
    assert found.get("name") == "cut"
    names = [(c.get("classname"), c.get("name")) for c in found.iter("testcase")]
    assert ("cut.invariant", "T9 fenced-writer") in names
    assert ("cut", "verdict") in names
    assert len(names) == len(result.checks) + 1
    assert (found.get("failures"), found.get("errors")) == ("0", "0")


def test_a_failure_quotes_its_evidence(red: Result, history: History) -> None:
    case = next(c for c in suite(red, history).iter("testcase") if c.get("name") == "T2 no-uncommitted-restore")
    failure = case.find("failure")
    assert failure is not None
    assert failure.get("message") == "rank 1 restored generation 3"
    seq = red.checks[-2].verdict.evidence[0]
    assert f"#{seq} " in (failure.text or "")
    assert "checkpoint 1 committed at step 20" in (failure.text or "")


def test_what_could_not_be_judged_is_an_error_not_a_skip(red: Result, history: History) -> None:
    case = next(c for c in suite(red, history).iter("testcase") if c.get("name") == "T12 no-orphan")
    assert case.find("error") is not None
    assert case.find("skipped") is None


@pytest.mark.parametrize(
    ("outcome", "exit", "tag"),
    [
        (Outcome.PASS, Exit.PASS, None),
        (Outcome.PASS, Exit.HEAL_FAILED, "error"),
        (Outcome.UNKNOWN, Exit.INCONCLUSIVE, "error"),
        (Outcome.FAIL, Exit.FAIL, "failure"),
    ],
)
def test_no_run_with_another_exit_than_0_is_green(outcome: Outcome, exit: Exit, tag: str | None) -> None:
    result = Result(experiment="x", outcome=outcome, exit=exit, headline="why", checks=())
    case = suite(result, History()).find("testcase")
    assert case is not None
    assert [c.tag for c in case if c.tag != "system-out"] == ([tag] if tag else [])


def test_the_time_of_the_suite_is_the_length_of_the_run(result: Result, history: History) -> None:
    assert float(suite(result, history).get("time", "0")) == pytest.approx(result.seconds)


def test_figures_are_properties(result: Result, history: History) -> None:
    properties = {p.get("name"): p.get("value") for p in suite(result, history).iter("property")}
    assert properties["rto.total"] == "4.1 s"
    assert properties["rpo.steps"] == "0 steps"
    assert properties["seed"] == "7"


@pytest.mark.parametrize("text", ["\x00\x08\x1b[31m", "]]> <script>&", "\ud800", "\ufffe", "ü – 漢 😀", '"quoted"'])
def test_any_text_gives_valid_xml(events: list[Event], text: str) -> None:
    odd = Event(seq=len(events), t=1.0, wall=1.0, source=text, kind="job.failed", data={"reason": text})
    broken = check(f"name{text}", Kind.INVARIANT, failed(f"reason {text}", [odd.seq]))
    found = suite(result_of(events, broken, outcome=Outcome.FAIL), History([*events, odd]))
    failure = found.find("testcase/failure")
    assert failure is not None
    for part in ("<script>", "]]>", "漢 😀", '"quoted"'):
        assert (part in (failure.text or "")) == (part in text)


def test_repeats_are_a_suite_each(result: Result, red: Result, history: History) -> None:
    root = ElementTree.fromstring(encode(((r, history) for r in (result, red)), numbered=True))
    assert [s.get("name") for s in root.iter("testsuite")] == ["cut#1", "cut#2"]
    assert root.get("failures") == "2"


def test_quotes_are_bounded_and_skip_numbers_that_are_not_there(history: History) -> None:
    lines = quote(history, range(50), 5)
    assert len(lines) == 6
    assert lines[-1] == "and 45 more"
    assert quote(history, [-1, 10**9]) == []
