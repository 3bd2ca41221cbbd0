"""`chaos gameday status`: what ran and what did not, orders that nobody has carried out yet, and all of it as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from gameday.fakes import plan

from chaos.cli import main
from chaos.errors import Exit
from chaos.gameday.agenda import draw
from chaos.gameday.children import born
from chaos.gameday.desk import Desk
from chaos.gameday.records import Attempt, DayState, Finding, Gate
from chaos.gameday.store import Store


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state.sqlite"


def begun(store: Store, *exits: Exit | None) -> int:
    """A day of five whose first experiments ended like that; None: it was cut off."""
    whole = plan(*"abcde")
    day = store.begin(whole, draw(whole, 1), planned=1.0, started=2.0, folder="/d").id
    for number, code in enumerate(exits, 1):
        folder = f"/d/{number}"
        store.intend(day, Attempt(number=number, attempt=1, folder=folder, intended=3.0))
        store.started(folder, 4711, "boot:1", 4.0)
        store.ended(folder, Finding(complete=code is not None, exit=code, headline="h"), 5.0, orphaned=False)
    return day


def said(capsys: pytest.CaptureFixture[str], state: Path, *words: str) -> str:
    capsys.readouterr()
    assert main(["gameday", "status", "--state", str(state), *words]) == 0
    return capsys.readouterr().out


def told(capsys: pytest.CaptureFixture[str], state: Path) -> dict[str, Any]:
    (status,) = json.loads(said(capsys, state, "--json", "-"))
    assert isinstance(status, dict)
    return status


def test_an_experiment_that_was_aborted_or_cut_off_has_not_run(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store(state, write=True) as store:
        day = begun(store, Exit.PASS, Exit.FAIL, None, Exit.TERMINATED)
        store.skip(day, 5, "aborted by ada", 6.0)
        store.end(day, DayState.ABORTED, "aborted by ada", 6.0)
    assert "\n  2 of 5 experiments ran, 2 were cut off, 1 is not run\n" in said(capsys, state)
    outcomes = [e["outcome"] for e in told(capsys, state)["day"]["experiments"]]
    assert outcomes == ["pass", "fail", "interrupted", "interrupted", "not run"]


def test_what_runs_is_told_apart_from_what_ended_unseen(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store(state, write=True) as store:
        day = begun(store)
        for number, birth in ((1, "long ago"), (2, born(os.getpid()))):
            store.intend(day, Attempt(number=number, attempt=1, folder=f"/d/{number}", intended=3.0))
            store.started(f"/d/{number}", os.getpid(), birth, 4.0)
    assert "  0 of 5 experiments ran, 0 are not run\n" in said(capsys, state)
    outcomes = [e["outcome"] for e in told(capsys, state)["day"]["experiments"]]
    assert outcomes == ["to be judged", "running", "to come", "to come", "to come"]


def test_the_newest_reason_of_a_pause_is_shown_and_the_first_stays_on_record(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(state, write=True) as store:
        desk = Desk(store, lambda: 7.0)
        for text, by in (("release", "ada"), ("incident", "bob"), ("", "eve")):
            store.order("pause", text, by, 6.0)
        desk.look()
        store.order("pause", "a fire", "dan", 8.0)
    text = said(capsys, state)
    assert "  paused by bob: incident; `chaos gameday resume`\n" in text
    assert "  kept until it runs: pause by dan: a fire\n" in text
    status = told(capsys, state)
    assert [line["text"] for line in status["timeline"]] == [
        "pause by ada: release", "pause by bob: incident", "pause by eve"
    ]  # fmt: skip
    assert (status["paused"], status["orders"][0]["text"]) == ("paused by bob: incident", "a fire")


def test_all_of_it_is_written_for_a_program(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store(state, write=True) as store:
        day = begun(store, Exit.PASS)
        store.ask(day, Gate(name="rung node", asked=5.0, until=99.0))
    text = said(capsys, state, "--json", "status.json")
    assert "approval asked: rung node" in text
    (status,) = json.loads(Path("status.json").read_bytes())
    assert status == told(capsys, state)
    assert (status["title"], status["file"], status["pid"]) == ("A day", str(state), None)
    assert (status["day"]["state"], status["day"]["asked"][0]["name"]) == ("running", "rung node")
    assert main(["gameday", "status", "--state", str(state), "--json", "state.sqlite/x"]) == Exit.USAGE


def test_of_no_game_day_there_is_an_empty_list(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gameday", "status", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == []
