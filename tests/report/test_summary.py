from __future__ import annotations

from pathlib import Path

import msgspec

from chaos.errors import Exit
from chaos.history import Event, History
from chaos.report.summary import series_summary, summary
from chaos.result import Kind, Need, Recovery, Result, Series, Spread
from chaos.verdict import Outcome, failed, passed, unknown

from .scripted import Script, check, result_of


def line_with(text: str, words: str) -> str:
    return next(line for line in text.splitlines() if words in line)


def test_the_verdict_and_why_come_first(result: Result, history: History) -> None:
    assert summary(result, history).splitlines()[0] == "VERDICT PASS: every promise held"


def test_figures_stand_beside_their_budget(result: Result, history: History) -> None:
    text = summary(result, history)
    detect = line_with(text, "  detect ")
    assert "1.9 s of 6.0 s" in detect
    assert detect.count("█") == 8  # 1.9 / 6 of 24
    assert "RPO      0 of 20 steps" in text
    assert "resume   4.0 s · catch-up 4.1 s" in text
    assert "goodput 71 %" in text


def test_a_broken_budget_runs_over_the_end_of_its_bar(events: list[Event], history: History) -> None:
    over = check("rto.restart", Kind.BUDGET, failed("0.5 s", [1]), value=0.5, limit=0.25, unit="s")
    text = summary(result_of(events, over, outcome=Outcome.FAIL), history)
    assert "█▶ 200 %" in line_with(text, "  restart ")


def test_what_needs_attention_comes_first_and_in_full(events: list[Event], history: History) -> None:
    long = "a reason that goes on " * 20
    result = result_of(events, check("fenced", Kind.INVARIANT, failed(long, [3])), outcome=Outcome.FAIL)
    text = summary(result, history, width=80)
    table = text[text.index("Checks:") : text.index("Look at")]
    assert "FAIL" in table.splitlines()[1]
    assert "".join(table.split()).count("areasonthatgoeson") == 20
    assert max(map(len, table.splitlines())) <= 80


def test_a_green_check_is_one_line_that_ends_with_its_evidence(events: list[Event], history: History) -> None:
    green = check("kept", Kind.INVARIANT, passed("it held " * 40, range(3, 20)))
    line = line_with(summary(result_of(events, green), history, width=90), "kept")
    assert len(line) <= 90
    assert line.endswith("…  [#3 #4 #5 +14]")


def test_it_says_what_to_look_at_only_when_it_is_not_green(result: Result, red: Result, history: History) -> None:
    assert "Look at" not in summary(result, history)
    text = summary(red, history)
    assert "checkpoint 1 committed at step 20" in text[text.index("Look at") :]


def test_a_hang_points_to_the_stacks(events: list[Event]) -> None:
    tell = Script()
    tell.events = list(events)
    tell(13.0, "harness", "target.hung", seconds=30, alive=["worker-n0"])
    hung = result_of(events, check("progress", Kind.RUN, failed("hang of survivors")), outcome=Outcome.FAIL)
    assert "stacks of worker-n0 are in the logs" in summary(hung, History(tell.events))


def test_what_to_undo_by_hand_is_told(history: History) -> None:
    result = Result(
        experiment="x", outcome=Outcome.UNKNOWN, exit=Exit.HEAL_FAILED, headline="a heal failed", checks=(),
        undo=("kill -CONT 123",),
    )  # fmt: skip
    assert "Undo by hand: kill -CONT 123" in summary(result, history)


def test_a_run_without_any_check_or_recovery_has_a_summary() -> None:
    result = Result(experiment="x", outcome=Outcome.UNKNOWN, exit=Exit.INCONCLUSIVE, headline="no checks", checks=())
    assert "Checks: 0 pass" in summary(result, History())


def test_an_unfinished_recovery_is_told_as_such(events: list[Event], history: History) -> None:
    result = result_of(events, check("rto.total", Kind.BUDGET, unknown("no end")), outcome=Outcome.UNKNOWN)
    half = Recovery(need=result.recoveries[0].need, faults=("network.partition",), detect=1.0)
    text = summary(msgspec.structs.replace(result, recoveries=(half,)), history)
    assert "not over when the run ended" in text
    assert line_with(text, "  restart ").split() == ["restart", "–"]


def test_a_fault_that_ended_the_target_is_not_said_to_have_needed_no_recovery(red: Result, history: History) -> None:
    end = Recovery(
        need=Need.FAILURE, faults=("process.kill",), members=("supervisor",), evidence={"began": 1, "ended": 2}
    )
    text = summary(msgspec.structs.replace(red, recoveries=(end,)), history)
    assert line_with(text, "Recovery after process.kill on supervisor").endswith("– it ended the target")


def test_other_episodes_have_a_line_each(result: Result, history: History) -> None:
    growth = Recovery(need=Need.PLANNED, began=11.0, complete=True, epoch=3, world=(2, 3), total=1.2, lost_steps=0)
    blip = Recovery(need=Need.NONE, faults=("network.latency",))
    text = summary(msgspec.structs.replace(result, recoveries=(growth, *result.recoveries, blip)), history)
    assert "Recovery after network.partition" in text
    assert line_with(text, "Also planned at 11.0 s").endswith(
        "(2 → 3 ranks, epoch 3, generation –): 1.2 s, 0 steps lost"
    )
    assert "Also network.latency landed and needed no recovery" in text


def test_a_recovery_without_a_fault_is_not_told_as_after_one(result: Result, history: History) -> None:
    alarm = Recovery(need=Need.UNPROVOKED, began=11.0, complete=True, epoch=2, world=(4, 4), total=1.2, lost_steps=1)
    text = summary(msgspec.structs.replace(result, recoveries=(alarm,)), history)
    assert "Recovery that no fault explains (4 → 4 ranks" in text
    text = summary(msgspec.structs.replace(result, recoveries=(*result.recoveries, alarm)), history)
    assert line_with(text, "Also unprovoked").endswith("1.2 s, 1 step lost")


def test_the_files_are_named(result: Result, history: History) -> None:
    assert line_with(summary(result, history, files={"report": Path("runs/1/report.html")}), "report").endswith(
        "runs/1/report.html"
    )


def test_color_only_on_request_and_no_text_can_steer_the_terminal(events: list[Event], history: History) -> None:
    bad = check("x\x1b[2J", Kind.INVARIANT, failed("y\x1b]0;z\x07", [1]))
    result = result_of(events, bad, outcome=Outcome.FAIL)
    assert "\x1b" not in summary(result, history)
    colored = summary(result, history, color=True)
    assert "\x1b[1;31mFAIL" in colored
    assert "\x1b[2J" not in colored
    assert "\x1b]" not in colored


def test_repeats_show_rate_interval_and_spread() -> None:
    spread = Spread(count=20, median=4.0, p95=6.1, maximum=7.0, low=5.5, high=7.0)
    budget = check("rto.total", Kind.BUDGET, failed("p95 above 6 s", [1]))
    series = Series(
        experiment="cut", outcome=Outcome.FAIL, exit=Exit.FAIL, headline="1 of 20 failed", runs=20, passes=19,
        rate=(0.95, 0.76, 0.99), spreads={"rto.total": spread, "rpo.steps": spread}, checks=(budget,),
    )  # fmt: skip
    text = series_summary(series)
    assert "19 of 20 runs passed, 95 % (95 %: 76 % to 99 %)" in text
    assert line_with(text, "rto.total").split()[1:] == [
        "4.0",
        "s",
        "6.1",
        "s",
        "7.0",
        "s",
        "5.5",
        "s",
        "to",
        "7.0",
        "s",
    ]
    assert "6.1 steps" in line_with(text, "rpo.steps")
    assert "p95 above 6 s" in text
