"""Which experiments this project's gate runs: what is open, as often as asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.errors import Exit
from chaos.history import History
from chaos.report.summary import summary
from chaos.result import Check, Kind, Result
from chaos.verdict import Outcome, failed
from ci.gate import OPEN_QUESTIONS, runs_of, told, wanted

JOURNAL = Path("runs/cut-1/journal.jsonl")


def decision(*rulings: tuple[str, str], commands: tuple[str, ...]) -> dict[str, Any]:
    return {
        "commands": list(commands),
        "rulings": [
            {"state": "blocked", "why": {"reason": reason}, "todo": {"run": [file]}} for reason, file in rulings
        ],
    }


def test_files_of_the_gates_commands_as_often_as_it_asks() -> None:
    commands = ["chaos gate --add a:b=x.yaml && chaos run x.yaml 'y z.yaml' --repeat 2", "chaos run w.yaml"]
    assert list(runs_of(commands)) == ["x.yaml", "x.yaml", "y z.yaml", "y z.yaml", "w.yaml"]


@pytest.mark.parametrize("reason", sorted(OPEN_QUESTIONS))
def test_an_open_question_is_asked(reason: str) -> None:
    assert wanted(decision((reason, "x.yaml"), commands=("chaos run x.yaml",))) == ["x.yaml"]


def test_a_failure_is_asked_again_only_where_the_gate_says_how_often() -> None:
    said = decision(("failing", "x.yaml"), commands=("chaos run x.yaml --repeat 4",))
    assert wanted(said) == ["x.yaml"] * 4
    said["commands"] = []
    del said["rulings"][0]["todo"]
    assert wanted(said) == []


@pytest.mark.parametrize("reason", ["new", "not-exercised", "over-budget", "edited"])
def test_an_answer_is_not_asked_for_again(reason: str) -> None:
    said = decision((reason, "x.yaml"), ("untested", "y.yaml"), commands=("chaos run x.yaml y.yaml",))
    assert wanted(said) == ["y.yaml"]


def test_a_gate_that_is_open_asks_for_nothing() -> None:
    assert wanted({"commands": [], "rulings": [{"state": "proved"}]}) == []


def test_of_a_run_that_did_not_pass_all_is_told_and_where_it_lies() -> None:
    check = Check(name="no-orphan", kind=Kind.INVARIANT, verdict=failed("a worker outlived its agent"))
    result = Result(
        experiment="cut", outcome=Outcome.FAIL, exit=Exit.FAIL, headline="no-orphan: a worker outlived", checks=(check,)
    )
    said = summary(result, History([]), files={"report": Path("runs/cut-1/report.html"), "journal": JOURNAL})
    first, *more = told("cut.yaml", 1, said, 2.0).splitlines()
    assert first == f"  2.0 s  {'cut.yaml':60} exit code 1; runs/cut-1"
    assert [line.strip() for line in more] == [line.strip() for line in said.strip().splitlines()]
    assert all(line.startswith(" " * 9) for line in more if line)


def test_one_that_passed_is_a_line_and_one_that_never_began_says_why() -> None:
    assert told("cut.yaml", 0, "PASS  all 3 checks passed\n\njournal runs/x", 2.0).endswith("PASS  all 3 checks passed")
    assert told("cut.yaml", 3, "chaos: no lab\n", 2.0).splitlines()[1:] == ["         chaos: no lab"]
    assert "exit code 3; it has no folder" in told("cut.yaml", 3, "", 2.0)
