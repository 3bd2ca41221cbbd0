from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.errors import Exit, JournalError
from chaos.report.record import encode, read
from chaos.result import Result
from chaos.verdict import Outcome


def test_it_says_outcome_exit_and_why(red: Result) -> None:
    told = json.loads(encode(red))
    assert (told["format"], told["outcome"], told["exit"], told["headline"]) == (1, "fail", 1, red.headline)
    broken = next(c for c in told["checks"] if c["verdict"]["outcome"] == "fail")
    assert (broken["id"], broken["kind"], broken["verdict"]["evidence"]) == (
        "T2", "invariant", list(red.checks[-2].verdict.evidence),
    )  # fmt: skip


def test_every_key_is_there_even_where_nothing_is_known() -> None:
    empty = Result(experiment="x", outcome=Outcome.UNKNOWN, exit=Exit.INCONCLUSIVE, headline="nothing ran", checks=())
    told = json.loads(encode(empty))
    assert told["seed"] is None
    assert told["recoveries"] == []
    assert told["efficiency"]["goodput"] is None
    assert set(told) == set(json.loads(encode(empty))) >= {"format", "chaos", "title", "undo", "started", "seconds"}


def test_what_was_written_reads_back(red: Result, tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    path.write_bytes(encode(red))
    back = read(path)
    assert back.checks == red.checks
    assert back.recoveries == red.recoveries
    assert back.exit is Exit.FAIL


def test_text_that_is_no_utf8_is_replaced() -> None:
    odd = Result(experiment="x", outcome=Outcome.FAIL, exit=Exit.FAIL, headline="a\ud800b", checks=())
    assert json.loads(encode(odd))["headline"] == "a?b"


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"outcome": "green"}'])
def test_a_file_that_is_no_verdict_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "verdict.json"
    path.write_bytes(content)
    with pytest.raises(JournalError, match=r"verdict\.json"):
        read(path)
