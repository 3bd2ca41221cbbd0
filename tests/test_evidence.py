"""What a run proves, taken from its record."""

from __future__ import annotations

from typing import Any

import pytest
from judge.histories import Tape

from chaos.errors import Exit
from chaos.evidence import Build, Evidence, figures
from chaos.result import Efficiency, Need, Recovery, Result
from chaos.verdict import Outcome


def result(*recoveries: Recovery, **other: Any) -> Result:
    return Result(
        experiment="kill", outcome=Outcome.PASS, exit=Exit.PASS, headline="all passed", checks=(),
        recoveries=recoveries, **other,
    )  # fmt: skip


def begun(**more: Any) -> Tape:
    tape = Tape()
    tape.add("run.started", experiment="kill", target="app", recipe="r", file="/e/kill.yaml", version="9",
             build={"sources": "s", "commit": "c"}, **more)  # fmt: skip
    return tape


def failure(**figures: Any) -> Recovery:
    return Recovery(need=Need.FAILURE, **figures)


def test_the_worst_of_each_figure_counts() -> None:
    found = figures(result(failure(total=3.0, detect=1.0, lost_steps=2), failure(total=2.0, detect=1.5, lost_steps=0)))
    assert found == {"rto.total": 3.0, "rto.detect": 1.5, "rpo.steps": 2.0}


def test_a_total_is_unknown_when_one_recovery_has_no_end() -> None:
    assert "rto.total" not in figures(result(failure(total=3.0), failure(detect=1.0)))


def test_a_figure_that_one_recovery_does_not_tell_is_not_known() -> None:
    told = failure(total=3.0, detect=1.0, lost_steps=2)
    assert figures(result(told, failure(total=4.0))) == {"rto.total": 4.0}


@pytest.mark.parametrize("lost", [float("inf"), float("nan"), 10**400])
def test_a_figure_beyond_all_numbers_is_not_known(lost: float) -> None:
    assert figures(result(failure(lost_steps=lost, total=3.0))) == {"rto.total": 3.0}


def test_planned_growth_is_no_failure() -> None:
    assert figures(result(Recovery(need=Need.PLANNED, total=9.0), failure(total=1.0))) == {"rto.total": 1.0}


def test_efficiency_is_kept() -> None:
    assert figures(result(efficiency=Efficiency(goodput=0.5, ettr=0.9))) == {"goodput": 0.5, "ettr": 0.9}


def test_what_was_tested_comes_from_the_record() -> None:
    tape = begun(overrides={"defect": "x"}, lab=False)
    tape.add("method.started", "harness")
    tape.add("path.entered", "worker", name="a.done")
    tape.add("path.entered", "worker", name="b.stuck")
    tape.add("path.exercised", "worker", name="a.done")
    tape.add("path.exercised", "worker", name="c.plain")
    evidence = Evidence.of("/runs/20260101-kill-1", result(seed=7), tape.history, "digest")
    assert evidence == Evidence(
        run="20260101-kill-1", folder="/runs/20260101-kill-1", experiment="kill", file="/e/kill.yaml", target="app",
        recipe="r", build=Build(sources="s", commit="c"), started=tape.events[0].wall, outcome=Outcome.PASS,
        exit=Exit.PASS, headline="all passed", seed=7, overrides={"defect": "x"}, paths=("a.done", "c.plain"),
        entered=("b.stuck",), journal="digest", version="9", lab=False,
    )  # fmt: skip


def test_a_record_without_a_build_proves_nothing_about_any() -> None:
    with pytest.raises(ValueError, match="which build"):
        Evidence.of("/runs/1", result(), Tape().start().history, "")


@pytest.mark.parametrize(
    ("code", "conclusive"),
    [(Exit.PASS, True), (Exit.FAIL, True), (Exit.INCONCLUSIVE, False), (Exit.HEAL_FAILED, False)],
)
def test_only_pass_and_fail_are_conclusive(code: Exit, conclusive: bool) -> None:
    import msgspec

    evidence = Evidence.of("/r/1", result(), begun().history, "")
    assert msgspec.structs.replace(evidence, exit=code).conclusive is conclusive


STORY = {
    "start": ("path.exercised", "worker", "worker.resume"),
    "armed": ("fault.armed", "fault:process.kill", ""),
    "method": ("method.started", "harness", ""),
    "fault": ("fault.injecting", "fault:process.kill", ""),
    "path": ("path.exercised", "worker", "worker.restart"),
    "end": ("target.finished", "harness", ""),
    "stopping": ("target.stopping", "harness", ""),
    "stop": ("path.exercised", "router", "router.drain"),
}


@pytest.mark.parametrize(
    ("story", "proved"),
    [
        ("start method armed fault path end stop", ("worker.restart",)),
        ("start method armed path fault end", ()),  # it went through it by itself
        ("start method armed fault path stopping stop", ("worker.restart",)),
        ("start method armed path end", ()),  # the fault never came
        ("start method path end stop", ("worker.restart",)),  # an overload, say: nothing is injected
        ("start path", ()),
    ],
)
def test_a_path_counts_after_a_fault_and_before_the_end_of_the_target(story: str, proved: tuple[str, ...]) -> None:
    tape = begun()
    for kind, source, name in (STORY[word] for word in story.split()):
        said: dict[str, Any] = {"name": name} if name else {}
        tape.add(kind, source, **said)
    assert Evidence.of("/r/1", result(), tape.history, "j").paths == proved
