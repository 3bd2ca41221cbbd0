"""What a shell does to standard streams: the exit code is the verdict's all the same."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from judge.histories import Tape, killed_and_restarted

from chaos.cli.output import columns
from chaos.errors import Exit
from cli.recorded import record

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def recorded(folder: Path, tape: Tape) -> str:
    """A run's folder, judged by whether its job was done."""
    record(folder, tape)
    return shlex.join([sys.executable, "-m", "chaos", "judge", str(folder)])


@pytest.mark.parametrize("streams", ["", ">&-", ">&- 2>&-", "<&- >&- 2>&-", ">/dev/full 2>/dev/full"])
def test_a_stream_that_is_closed_or_full_changes_no_exit_code(tmp_path: Path, streams: str) -> None:
    failed = recorded(tmp_path, Tape().start().train(1, 5).done(5))
    done = subprocess.run(["sh", "-c", f"{failed} {streams}"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == Exit.FAIL, done.stderr
    assert done.stderr == ""


def test_a_reader_that_has_gone_turns_no_failure_into_a_pass(tmp_path: Path) -> None:
    failed = recorded(tmp_path, Tape().start().train(1, 5).done(5))
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(["sh", "-c", failed], stdout=pipe, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert done.returncode == Exit.FAIL
    assert done.stderr == ""


def test_what_is_opened_first_does_not_become_standard_output(tmp_path: Path) -> None:
    command = recorded(tmp_path, killed_and_restarted())
    before = (tmp_path / "journal.jsonl").read_bytes()
    subprocess.run(["sh", "-c", f"{command} >&-"], cwd=ROOT, check=False)
    assert (tmp_path / "journal.jsonl").read_bytes() == before


@pytest.mark.parametrize(("told", "width"), [("80", 80), ("0", 100), ("wide", 100), (None, 100)])
def test_a_width_that_is_none_is_an_ordinary_one(monkeypatch: pytest.MonkeyPatch, told: str | None, width: int) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("os.get_terminal_size", lambda _: os.terminal_size((0, 0)))
    if told is not None:
        monkeypatch.setenv("COLUMNS", told)
    assert columns() == width
