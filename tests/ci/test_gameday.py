"""Plans of game days that are in this repository hold no mistake, and the one that is killed is over both targets."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from chaos.gameday.agenda import draw
from chaos.history import Event
from chaos.load.gameday import load_gameday
from ci.gameday import ROOT, _plan, _standing


def test_the_example_is_a_plan() -> None:
    plan = load_gameday(ROOT / "ci" / "examples" / "gameday.yaml")
    assert plan.draw is not None
    assert {piece.rung for piece in plan.pieces} <= set(plan.ladder)


def test_the_day_that_is_killed_is_drawn_over_both_targets(tmp_path: Path) -> None:
    path = tmp_path / "gameday.yaml"
    path.write_text(_plan(datetime(2026, 12, 4, 10, 1, tzinfo=UTC), 12, 7))
    plan = load_gameday(path)
    assert plan.timetable is not None
    assert plan.timetable.cron == "1 10 * * *"
    drawn = {Path(turn.piece.target).parent.name for turn in draw(plan, 0).turns}
    assert drawn == {"trainer", "serving"}


def test_a_fault_that_stands_is_found() -> None:
    def event(kind: str, fault: str, source: str) -> Event:
        return Event(0, 0.0, 0.0, source, kind, {"kind": fault})

    events = [event("fault.landed", "process.freeze", "fault:a"), event("fault.landed", "process.kill", "fault:b")]
    assert _standing(events) == ["fault:a"]
    assert _standing([*events, event("fault.healed", "process.freeze", "fault:a")]) == []
