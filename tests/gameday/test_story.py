"""The report: complete, honest about what is not proved, and free of any network."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chaos.errors import Exit
from chaos.gameday.agenda import draw
from chaos.gameday.pages import write
from chaos.gameday.records import Attempt, DayRecord, DayState, DayStory, Figure, Finding, Line, Moment, Skip
from chaos.gameday.story import Report, report
from chaos.gameday.terms import Draw, Plan

from .fakes import at, plan

START = at("2026-12-04T10:00")


def told(place: Path, it: Plan, attempts: list[Attempt], **more: object) -> Report:
    """The report of a day with these attempts."""
    day = DayRecord(
        id=1, planned=START, started=START, state=DayState.ENDED, plan=it, agenda=draw(it, 3),
        folder=str(place / "day"), ended=START + 100,
    )  # fmt: skip
    fields = {name: more.pop(name) for name in tuple(more) if name in DayRecord.__struct_fields__}
    day = msgspec.structs.replace(day, **fields)
    story = DayStory(**{"day": day, "attempts": tuple(attempts), "skips": (), "gates": (), "lines": (), **more})  # type: ignore[arg-type]
    return report(story)


def attempt(number: int, exit_: Exit | None = Exit.PASS, **more: object) -> Attempt:
    finding = Finding(**{"complete": exit_ is not None, "exit": exit_, "headline": f"headline {number}", **more})  # type: ignore[arg-type]
    begun = START + 10.0 * number
    return Attempt(
        number=number, attempt=1, folder=f"/d/{number}", intended=begun, begun=begun, ended=begun + 5, finding=finding
    )  # fmt: skip


def test_each_turn_has_its_outcome(tmp_path: Path) -> None:
    exits = [Exit.PASS, Exit.FAIL, Exit.INCONCLUSIVE, Exit.HEAL_FAILED, Exit.TERMINATED, None, Exit.USAGE]
    found = told(
        tmp_path, plan(*"abcdefghi"), [attempt(n, exit_) for n, exit_ in enumerate(exits, 1)],
        skips=(Skip(number=8, why="the rung is not passed", at=START),),
    )  # fmt: skip
    assert [part.outcome for part in found.parts] == [
        "pass", "fail", "inconclusive", "heal failed", "interrupted", "interrupted", "inconclusive",
        "not run", "to come",
    ]  # fmt: skip
    assert found.counts["interrupted"] == 2


def test_the_day_in_one_sentence(tmp_path: Path) -> None:
    def slow(value: float | None) -> tuple[Figure, ...]:
        return (Figure(name="rto.total", outcome="pass", value=value, limit=20.0, unit="s"),)

    found = told(
        tmp_path, plan("a", "b", "c"),
        [attempt(1, figures=slow(3.0)), attempt(2, Exit.FAIL, figures=slow(8.94)), attempt(3, figures=slow(None))],
    )  # fmt: skip
    assert found.headline == "2 of 3 experiments passed; b failed; the slowest recovery took 8.9 s (b)"


def test_surprises_are_what_nobody_promised(tmp_path: Path) -> None:
    lot = Draw(count=3, mix={"x": 1.0, "rare": 0.0, "ssd": 1.0}, stands_for={"x": (0,), "rare": (1,)}, seed=5, rate=1.0)
    found = told(
        tmp_path, plan("a", "b", draw=lot),
        [
            attempt(1, Exit.FAIL, failed=("rto.total",)),
            attempt(2, Exit.INCONCLUSIVE, unknown=("training.loss",)),
            attempt(3, figures=(Figure(name="rto.total", outcome="pass", value=9.0, limit=10.0, unit="s"),)),
        ],
        started=START + 300, past={"a": ("pass", "pass")},
    )  # fmt: skip
    text = "\n".join(found.surprises)
    for expected in (
        "It began 5 min after its time.", "1 a: fail: headline 1.",
        "2 a: inconclusive: headline 2 (could not be judged: training.loss).", "3 a took 90% of its budget rto.total.",
        "a is flaky: it passed and failed on this day.", "Never drawn: rare.",
        "50% of the failures of the mix have no experiment that stands for them: ssd 50.0%.",
    ):  # fmt: skip
        assert expected in text
    whats = [action.what for action in found.actions]
    assert whats[0] == "Mend what a showed: rto.total"
    assert whats[1] == "Make a conclusive: training.loss"
    assert whats[-1] == "Write an experiment for ssd"


def test_results_are_compared_with_earlier_runs(tmp_path: Path) -> None:
    flaky = told(tmp_path, plan("a"), [attempt(1)], past={"a": ("pass", "fail", "unknown", "pass")})
    assert flaky.surprises == ("a is flaky: 2 of 3 earlier runs passed; today: pass.",)
    new = told(tmp_path, plan("a"), [attempt(1, Exit.FAIL)], past={"a": ("pass", "pass")})
    assert "a was pass in all 2 earlier runs; today: fail." in new.surprises
    assert told(tmp_path, plan("a"), [attempt(1)], past={"a": ("pass",)}).surprises == ()


def test_the_timeline_is_in_order_and_holds_faults_and_notes(tmp_path: Path) -> None:
    lines = (Line(at=START + 12, kind="note.taken", text="the alarm fired (ada)"),)
    moments = (Moment(at=START + 11, text="kill landed"), Moment(at=START + 13, text="kill healed"))
    found = told(tmp_path, plan("a"), [attempt(1, moments=moments)], lines=lines, planned=START - 60)
    assert [entry.text for entry in found.timeline] == [
        "the day was planned to start", "1 a: kill landed", "the alarm fired (ada)", "1 a: kill healed"
    ]  # fmt: skip


def test_what_must_be_undone_by_hand_comes_first(tmp_path: Path) -> None:
    found = told(
        tmp_path, plan("a", "b"), [attempt(1, Exit.FAIL), attempt(2, Exit.HEAL_FAILED, undo=("delete toxic 7",))]
    )
    assert "Undo by hand: delete toxic 7" in [action.what for action in found.actions]


def test_the_pages_hold_everything_and_need_no_network(tmp_path: Path) -> None:
    run = tmp_path / "day" / "01-a" / "run"
    run.mkdir(parents=True)
    (run / "report.html").touch()
    evil = "<script>alert('x')</script> | [a](b)\nnext\u202e\ud800"
    found = told(
        tmp_path, plan("a", "b"),
        [attempt(1, Exit.FAIL, folder=str(run), headline=evil), attempt(2)],
        lines=(Line(at=START, kind="note.taken", text=evil),),
    )  # fmt: skip
    html, markdown = (path.read_text() for path in write(tmp_path / "day", found))
    assert 'href="01-a/run/report.html"' in html
    assert "(01-a/run/report.html)" in markdown
    for text in (html, markdown):
        assert "<script" not in text
        assert "http" not in text
        assert "\u202e" not in text
        for question in found.questions:
            assert question.split("'")[0] in text
        for promise in ("RTO total ≤ 20s", "no-orphan"):
            assert promise in text
    rows = [line for line in markdown.splitlines() if line.startswith("| 1 |")]
    assert len(rows) == 1
    assert "\\| [a](b) next" in rows[0]


def test_an_earlier_report_is_replaced_whole(tmp_path: Path) -> None:
    for headline in ("first", "second"):
        write(tmp_path / "day", told(tmp_path, plan("a"), [attempt(1, headline=headline)]))
    assert "second" in (tmp_path / "day" / "report.html").read_text()
    assert {path.name for path in (tmp_path / "day").iterdir()} == {"report.html", "report.md"}
