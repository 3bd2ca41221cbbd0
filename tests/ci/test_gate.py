"""Which experiments this project's gate runs: what is open, as often as asked."""

from __future__ import annotations

from typing import Any

import pytest

from ci.gate import OPEN_QUESTIONS, runs_of, wanted


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
