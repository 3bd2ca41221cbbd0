"""The verb `trend`: its exit codes and its output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.stored import store
from trend.test_trends import STEADY, WORSE, runs

from chaos.archive import NAME
from chaos.cli import main


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs" / NAME


def test_worse_fails_only_where_that_is_asked_for(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(here, [*runs("a", STEADY), *runs("b", WORSE, 1e4)])
    assert main(["trend"]) == 0
    assert "worse: +2 s" in capsys.readouterr().out
    assert main(["trend", "--fail-on-regression"]) == 1
    assert main(["trend", "--fail-on-regression", "--figure", "rpo"]) == 3


def test_steady_is_zero_and_too_little_is_three(here: Path) -> None:
    assert main(["trend"]) == 3
    store(here, [*runs("a", STEADY), *runs("b", STEADY, 1e4)])
    assert main(["trend", "--fail-on-regression"]) == 0
    assert main(["trend", "--target", "other"]) == 3


def test_as_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(here, [*runs("a", STEADY), *runs("b", WORSE, 1e4)])
    assert main(["trend", "--json", "--experiment", "cut"]) == 0
    (trend,) = json.loads(capsys.readouterr().out)["trends"]
    assert (trend["state"], trend["points"][1]["median"]) == ("worse", 6.2)


def test_a_figure_that_is_none_is_a_mistake_of_the_call(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trend", "--figure", "rto.totle"]) == 2
    assert "did you mean `rto.total`?" in capsys.readouterr().err
