"""What an experiment left, and what it amounts to: judged by its journal, healed where it was cut off."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.recorded import record
from judge.histories import Tape

from chaos.archive import NAME, Archive
from chaos.cli.gameday_findings import examine
from chaos.errors import Exit
from chaos.gameday.children import SAID
from chaos.guardian import Ledger

pytestmark = pytest.mark.slow  # a whole report is written
BUILD = {"sources": "5" * 64}


def ran(place: Path, *, ended: bool = True) -> Path:
    """The folder of an attempt with one run in it, and the link that `chaos run` makes beside it."""
    run = place / "01-e" / "20261204-100000-e-abc"
    run.mkdir(parents=True)
    tape = Tape().start(steps=5)
    tape.events[0].data.update(build=BUILD, file="/x/e.yaml", recipe="r")  # type: ignore[attr-defined]
    tape.add("fault.landed", "fault:process.kill", kind="process.kill", hits=["worker-n1"])
    record(run, tape.train(1, 5).done(5) if ended else tape.train(1, 5))
    (run / "schedule.json").write_text("{}")
    (run.parent / "latest").symlink_to(run.name)
    return run


def test_a_run_with_its_end_is_judged_filed_and_has_its_reports(tmp_path: Path) -> None:
    run = ran(tmp_path)
    found = examine(run.parent, None, tmp_path)
    assert found.complete
    assert found.folder == str(run)
    assert found.exit is not None
    assert found.moments[0].text.startswith("process.kill landed")
    assert (run / "report.html").exists(), "the run was killed before it had written it"
    with Archive(tmp_path / NAME) as archive:
        assert archive.known() == {run.name}
    again = examine(run.parent, None, tmp_path)
    assert again == found, "a second look after another kill changes nothing"


def test_the_exit_code_that_somebody_saw_is_the_one_that_counts(tmp_path: Path) -> None:
    run = ran(tmp_path)
    assert examine(run.parent, int(Exit.HEAL_FAILED), tmp_path).exit is Exit.HEAL_FAILED


@pytest.mark.parametrize("code", [None, 137])
def test_a_run_without_its_end_was_cut_off_and_is_not_filed(tmp_path: Path, code: int | None) -> None:
    run = ran(tmp_path, ended=False)
    found = examine(run.parent, code, tmp_path)
    assert not found.complete
    assert not (tmp_path / NAME).exists()


def test_what_a_run_that_was_cut_off_owes_is_undone_or_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.guardian.AGAIN", 0.0)
    run = ran(tmp_path, ended=False)
    ledger = Ledger(str(run))
    ledger.write({"id": 1, "what": "toxic a", "method": "DELETE", "url": "http://127.0.0.1:9/a"})
    ledger.close()
    found = examine(run.parent, None, tmp_path)
    assert found.exit is Exit.HEAL_FAILED
    (undo,) = found.undo
    assert undo.startswith("toxic a: DELETE http://127.0.0.1:9/a")
    assert f"`chaos undo {run}`" in undo


def test_what_ended_before_it_had_a_run_is_told_by_its_last_words(tmp_path: Path) -> None:
    (tmp_path / SAID).write_text("x\nchaos: no such file\n")
    wrong = examine(tmp_path, int(Exit.USAGE), tmp_path)
    assert (wrong.complete, wrong.exit, wrong.headline) == (True, Exit.USAGE, "chaos: no such file")
    lost = examine(tmp_path, None, tmp_path)
    assert (lost.complete, lost.exit) == (False, None)


def test_a_run_that_was_killed_before_its_first_line_is_cut_off(tmp_path: Path) -> None:
    run = ran(tmp_path)
    (run / "journal.jsonl").unlink()
    found = examine(run.parent, None, tmp_path)
    assert (found.complete, found.exit) == (False, None)
    assert "journal.jsonl" in found.headline
