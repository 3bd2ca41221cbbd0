"""Every reason to block, both ways: it blocks, and what it asks for opens the gate."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from chaos.errors import Exit
from chaos.evidence import Build, Evidence
from chaos.experiment import Budget, Rpo, Rto
from chaos.gate import Candidate, Policy, Recipe, State, decide
from chaos.gate.decision import Verdict
from chaos.paths import Path, Spot
from chaos.verdict import Outcome
from gate.scene import (
    DAY,
    HANDLER,
    INVENTORY,
    NOW,
    PATH,
    RECIPE,
    TODAY,
    decided,
    entry,
    question,
    ruling,
    run,
    runs,
    waiver,
    why,
    with_paths,
)  # fmt: skip

CANDIDATE = Candidate(target="app", name="cut", file="experiments/cut.yaml", digest="r1", words={"cut": 3, "link": 2})


def test_three_good_runs_prove_a_path() -> None:
    decision = decided(*runs(3))
    assert (decision.verdict, decision.headline) == (Verdict.OPEN, "1 of 1 recovery path proved")
    assert decision.paths[0].runs == ("r1", "r1.04167", "r1.08333")
    assert decision.commands == ()


def test_new_is_told_with_its_place_and_the_experiment_that_went_through_it() -> None:
    found = ruling(run(), entries=(), candidates=(CANDIDATE,))
    assert found.why is not None
    assert found.why.reason == "new"
    assert "app/link.py:12" in found.why.detail
    assert found.commands == (
        "chaos gate --add app:link.retry=experiments/cut.yaml && chaos run experiments/cut.yaml --repeat 2",
    )
    assert why(*runs(3)) == ""  # once it is listed and was run two times more


def test_new_with_enough_runs_needs_no_other() -> None:
    found = ruling(*runs(3), entries=(), candidates=(CANDIDATE,))
    assert found.commands == ("chaos gate --add app:link.retry=experiments/cut.yaml",)


def test_new_without_a_run_is_given_a_guess_that_says_so() -> None:
    found = ruling(run(paths=()), entries=(), candidates=(CANDIDATE,))
    assert found.commands == (
        "chaos gate --add app:link.retry=experiments/cut.yaml && chaos run experiments/cut.yaml --repeat 3",
    )
    assert "guess" in found.advice
    unlike = msgspec.structs.replace(CANDIDATE, words={"other": 3})
    found = ruling(run(paths=()), entries=(), candidates=(unlike,))
    assert found.commands == ()
    assert "--add app:link.retry=FILE" in found.advice


def test_a_run_on_another_build_makes_no_sure_suggestion() -> None:
    found = ruling(run(build=Build(sources="old")), entries=(), candidates=(CANDIDATE,))
    assert "guess" in found.advice


def test_gone_is_told_with_the_command_that_removes_it() -> None:
    other = Path(name="link.other", declared=(Spot("app/link.py", 2),))
    decision = decided(*runs(3, paths=("link.other",)), inventories=(with_paths(other),), waivers=())
    gone = next(r for r in decision.rulings if r.name == "link.retry")
    assert (gone.why and gone.why.reason, str(gone.where)) == ("gone", "ci/paths.yaml:9")
    assert gone.commands == ("chaos gate --remove app:link.retry",)
    decision = decided(*runs(3), inventories=(with_paths(PATH),))
    assert decision.verdict is Verdict.OPEN


def test_untested() -> None:
    elsewhere = runs(3, experiment="another")
    found = ruling(*elsewhere)
    assert found.why is not None
    assert (found.why.reason, found.why.detail) == ("untested", "no finished run of cut is on record")
    assert found.commands == ("chaos run experiments/cut.yaml --repeat 3",)
    assert why(*elsewhere, *runs(3)) == ""


def test_not_exercised_and_the_experiment_that_would() -> None:
    other = msgspec.structs.replace(CANDIDATE, name="pull", file="experiments/pull.yaml", digest="r2")
    idle = runs(3, paths=())
    listed = msgspec.structs.replace(CANDIDATE, words={"link": 3, "retry": 3})  # the likeliest, and no help
    found = ruling(*idle, run(3, experiment="pull", recipe="r2"), candidates=(listed, other))
    assert found.why is not None
    assert (found.why.reason, found.why.detail) == ("not-exercised", "3 runs of cut never went through it")
    assert found.commands == (
        "chaos gate --add app:link.retry=experiments/pull.yaml && chaos run experiments/pull.yaml --repeat 2",
    )
    both = msgspec.structs.replace(
        entry(), experiments=(RECIPE, msgspec.structs.replace(RECIPE, name="pull", digest="r2"))
    )
    assert why(*idle, *runs(3, experiment="pull", recipe="r2", since=3), entries=(both,)) == ""


def test_an_experiment_that_is_listed_already_is_not_suggested_again() -> None:
    found = ruling(*runs(3, paths=()), candidates=(CANDIDATE,))
    assert found.commands == ()


def test_a_path_that_was_entered_and_never_left_is_not_exercised() -> None:
    found = ruling(*runs(3, paths=(), entered=("link.retry",)))
    assert found.why is not None
    assert found.why.detail == "3 runs of cut went in and never came out well"


def test_few() -> None:
    found = ruling(*runs(2))
    assert found.why is not None
    assert (found.why.reason, found.why.detail) == ("few", "2 of 3 runs")
    assert found.commands == ("chaos run experiments/cut.yaml",)
    assert why(*runs(3)) == ""


def test_stale() -> None:
    old = runs(3, since=20)
    found = ruling(*old)
    assert found.why is not None
    assert (found.why.reason, found.why.detail) == ("stale", "3 runs too old: the newest by 20.0 d, 14d allowed")
    assert found.commands == ("chaos run experiments/cut.yaml --repeat 3",)
    assert why(*old, entries=(entry(fresh=30 * DAY),)) == ""
    assert why(*old, *runs(3)) == ""


def test_a_run_from_the_future_does_not_stay_fresh_for_ever() -> None:
    found = ruling(*runs(3, since=-400))
    assert found.why is not None
    assert found.why.reason == "stale"
    assert "clock" in found.why.detail


def test_other_build() -> None:
    before = runs(3, build=Build(sources="old", commit="c0"))
    found = ruling(*before)
    assert found.why is not None
    assert (found.why.reason, found.why.detail) == ("other-build", "3 runs of another build: old, today new")
    assert why(*before, entries=(entry(build="any"),)) == ""
    assert why(*before, *runs(3, since=0.5)) == ""


def test_a_commit_must_be_the_same_and_clean_then_and_now() -> None:
    asked = (entry(build="commit"),)
    assert why(*runs(3), entries=asked) == ""
    for build in (Build(sources="new", commit="c0"), Build(sources="new", commit="c1", dirty=True)):
        assert why(*runs(3, build=build), entries=asked) == "other-build"
    dirty = msgspec.structs.replace(TODAY, dirty=True)
    found = ruling(*runs(3), entries=asked, builds={"app": dirty})
    assert found.why is not None
    assert found.why.reason == "other-build"
    assert "commit them" in found.why.detail
    nowhere = Build(sources="new")
    assert why(*runs(3, build=nowhere), entries=asked, builds={"app": nowhere}) == "other-build"


def test_failing() -> None:
    found = ruling(*runs(3, since=2), run(1, Exit.FAIL))
    assert found.why is not None
    assert (found.why.reason, found.why.detail) == ("failing", "r1: said FAIL")
    assert found.commands == ()  # running again mends nothing
    assert "/runs/r1/report.html" in found.advice
    mended = Build(sources="mended")
    after = runs(3, since=0.5, build=mended)
    builds = {"app": mended}
    assert why(*runs(3, since=2), run(1, Exit.FAIL), *after, builds=builds) == ""


def test_a_failed_run_counts_though_it_never_reached_the_path() -> None:
    assert why(*runs(3, since=2), run(1, Exit.FAIL, paths=())) == "failing"


def test_flaky_is_not_outvoted_by_running_again() -> None:
    mixed = [*runs(30, since=1), run(3, Exit.FAIL)]
    found = ruling(*mixed)
    assert found.why is not None
    assert found.why.reason == "flaky"
    assert found.why.detail == "1 of 31 runs of cut on this build did not pass, 0% allowed: r3: said FAIL"
    assert found.commands == ()
    assert why(*mixed, entries=(entry(flake_rate=0.04),)) == ""


def test_where_some_may_fail_more_runs_are_asked_for() -> None:
    asked = (entry(flake_rate=0.2),)
    found = ruling(*runs(3), run(3, Exit.FAIL), entries=asked)
    assert found.why is not None
    assert found.why.reason == "flaky"
    assert found.commands == ("chaos run experiments/cut.yaml",)
    assert why(*runs(4), run(3, Exit.FAIL), entries=asked) == ""


PULL = Recipe(name="pull", file="experiments/pull.yaml", digest="r2")


def pulled(count: int, exit: Exit = Exit.PASS, since: float = 1.0, **more: Any) -> list[Evidence]:
    passed = runs(count, exit, since, experiment="pull", recipe="r2", **more)
    return [msgspec.structs.replace(one, run=f"pull-{one.run}") for one in passed]


def test_where_some_may_fail_a_failure_is_asked_about_as_often_as_it_takes_to_tell() -> None:
    asked = (msgspec.structs.replace(entry(flake_rate=0.2, runs=1), experiments=(RECIPE, PULL)),)
    failed, fine = run(3, Exit.FAIL), pulled(1, since=4)
    found = ruling(failed, *fine, entries=asked)
    assert found.why is not None
    assert found.why.reason == "failing"
    assert found.commands == ("chaos run experiments/cut.yaml --repeat 4",)  # not the one that never failed
    assert why(failed, *fine, *runs(3), entries=asked) == "flaky"
    proved = ruling(failed, *fine, *runs(4), entries=asked)
    assert proved.why is None
    assert [note.detail for note in proved.notes] == ["1 of 5 runs of cut on this build did not pass, 20% allowed"]
    assert why(failed, run(1, Exit.FAIL), *fine, *runs(4, since=4), entries=asked) == "failing"


def test_a_failure_that_goes_on_is_not_watered_down_by_another_experiment() -> None:
    asked = (msgspec.structs.replace(entry(flake_rate=0.2), experiments=(RECIPE, PULL)),)
    failed = runs(3, Exit.FAIL, since=2)
    found = ruling(*failed, *pulled(30), entries=asked)
    assert found.why is not None
    assert found.why.detail == "3 of 3 runs of cut on this build did not pass, 20% allowed: r2: said FAIL"
    assert found.commands == ("chaos run experiments/cut.yaml --repeat 12",)
    both = ruling(*failed, *pulled(3, Exit.FAIL), entries=asked)
    assert both.commands == ("chaos run experiments/cut.yaml experiments/pull.yaml --repeat 12",)


def test_a_failure_that_goes_on_is_not_watered_down_by_what_passed_before_it_began() -> None:
    asked = (entry(flake_rate=0.2),)
    before = runs(40, since=3)
    assert why(*before, *runs(1, Exit.FAIL), entries=asked) == ""
    found = ruling(*before, *runs(10, Exit.FAIL), entries=asked)
    assert found.why is not None
    assert found.why.reason == "failing"
    assert found.commands == ("chaos run experiments/cut.yaml --repeat 4",)
    after = ruling(*before, *runs(10, Exit.FAIL), *runs(3, since=0.5), entries=asked)
    assert after.why is not None
    assert "2 of the newest 5 runs of cut on this build" in after.why.detail
    assert why(*before, *runs(10, Exit.FAIL), *runs(4, since=0.5), entries=asked) == ""


def test_a_failure_that_goes_on_is_not_watered_down_by_runs_of_another_build() -> None:
    asked = (entry(flake_rate=0.2, build="any"),)
    found = ruling(*runs(2, Exit.FAIL, since=2), *runs(10, build=Build(sources="old")), entries=asked)
    assert found.why is not None
    assert "2 of 2 runs of cut on this build" in found.why.detail


def test_a_failure_on_the_path_is_not_watered_down_by_runs_that_never_came_to_it() -> None:
    asked = (msgspec.structs.replace(entry(flake_rate=0.2), experiments=(RECIPE, PULL)),)
    idle = runs(20, paths=())
    assert why(*idle, *runs(1, Exit.FAIL, since=2), *pulled(3), entries=asked) == "flaky"
    assert why(*idle, *runs(1, Exit.FAIL, since=2, paths=()), *pulled(3), entries=asked) == ""
    # One whose passes prove nothing can all the same show that its failure was one of a few.
    found = ruling(*runs(1, Exit.FAIL, since=2, paths=()), *pulled(2, since=3), entries=asked)
    assert found.commands == ("chaos run experiments/cut.yaml experiments/pull.yaml --repeat 4",)


def test_a_run_of_another_build_that_says_nothing_hides_no_failure() -> None:
    old, older = Build(sources="old"), Build(sources="older")
    failed = [*runs(3, since=4, build=old), run(3, Exit.FAIL, build=old)]
    for nothing in (run(1, Exit.INCONCLUSIVE, paths=(), build=older), run(1, paths=(), build=older)):
        found = ruling(*failed, nothing, entries=(entry(build="any"),))
        assert found.why is not None
        assert found.why.reason == "failing"
        assert found.commands == ("chaos run experiments/cut.yaml",)  # today's build is another one
    assert why(*failed, run(1), entries=(entry(build="any"),)) == ""


def test_an_experiment_with_a_deliberate_bug_is_suggested_for_no_proof() -> None:
    broken = msgspec.structs.replace(CANDIDATE, defect="no-fencing")
    found = ruling(*runs(3), entries=(), candidates=(broken,))
    assert found.commands == ()
    shown = ruling(run(), entries=(), candidates=(broken,), policy=Policy(verdict="fail"))
    assert "--add app:link.retry=experiments/cut.yaml" in shown.commands[0]


def test_an_experiment_that_fails_on_this_build_is_the_last_to_be_suggested() -> None:
    pull = msgspec.structs.replace(CANDIDATE, name="pull", file="experiments/pull.yaml", digest="r2", words={"pull": 3})
    found = ruling(run(2, Exit.FAIL), *pulled(3), entries=(), candidates=(CANDIDATE, pull))
    assert found.commands == ("chaos gate --add app:link.retry=experiments/pull.yaml",)
    found = ruling(run(2, Exit.FAIL), entries=(), candidates=(CANDIDATE, pull))
    assert found.commands == ("chaos gate --add app:link.retry=experiments/cut.yaml",)
    assert found.advice == "cut goes through it, and on this build proves nothing: failing: r2: said FAIL"


def test_a_failure_of_another_build_is_not_held_against_this_one() -> None:
    asked = (entry(build="any"),)
    old = run(3, Exit.FAIL, build=Build(sources="old"))
    assert why(*runs(3), old, entries=asked) == ""
    assert why(*runs(3, since=4), old, entries=asked) == "failing"


def test_runs_of_other_builds_only_fill_up_what_is_missing() -> None:
    found = ruling(run(1), *runs(5, since=2, build=Build(sources="old")), entries=(entry(build="any"),))
    assert found.runs == ("r1", "r2", "r2.04167")


def test_inconclusive() -> None:
    found = ruling(*runs(2, Exit.INCONCLUSIVE))
    assert found.why is not None
    assert found.why.reason == "inconclusive"
    assert "said INCONCLUSIVE" in found.why.detail
    assert found.commands == ("chaos run experiments/cut.yaml --repeat 3",)
    assert why(*runs(2, Exit.INCONCLUSIVE, since=3), *runs(3)) == ""


def test_an_inconclusive_run_through_the_path_counts_until_as_many_as_asked_came_after_it() -> None:
    late = run(0.9, Exit.INCONCLUSIVE)
    assert why(*runs(3), late) == "inconclusive"
    assert why(*runs(2, since=0.5), *runs(3), late) == "inconclusive"
    assert why(*runs(3, since=0.5), *runs(3), late) == ""
    assert ruling(*runs(3), late).commands == ("chaos run experiments/cut.yaml --repeat 3",)


def test_an_inconclusive_run_that_never_came_to_the_path_says_nothing_of_it() -> None:
    late = run(0.9, Exit.INCONCLUSIVE, paths=())
    found = ruling(*runs(3), late)
    assert found.state is State.PROVED
    assert [note.reason for note in found.notes] == ["inconclusive"]


@pytest.mark.parametrize(
    "more",
    [
        {"exit": Exit.HEAL_FAILED},
        {"journal": ""},
        {"outcome": Outcome.UNKNOWN},
        {"exit": Exit.INCONCLUSIVE, "outcome": Outcome.PASS},
    ],
)
def test_a_pass_that_is_none_is_no_proof(more: dict[str, Any]) -> None:
    found = ruling(*runs(3, **more))
    assert found.why is not None
    assert (found.why.reason, found.runs) == ("inconclusive", ())


def test_a_run_that_somebody_ended_says_nothing() -> None:
    ended = runs(2, Exit.INTERRUPTED, since=0.2)
    assert why(*ended) == "few" or ruling(*ended).why is not None
    assert why(*ended, *runs(3)) == ""


def test_over_budget_by_the_upper_end_of_the_interval() -> None:
    asked = (entry(budget=Budget(rto=Rto(total=10.0))),)
    cheap, dear = runs(3, figures={"rto.total": 4.0}), run(2, figures={"rto.total": 10.5})
    assert why(*cheap, entries=asked) == ""
    found = ruling(*cheap, dear, entries=asked)
    assert found.why is not None
    assert found.why.reason == "over-budget"
    assert found.why.detail.startswith("rto.total: p95 ")
    assert found.why.detail.endswith("ends at 10.5; 10 s allowed")  # though the p95 of the four is below
    assert found.figures["rto.total"].p95 < 10.0
    assert why(*cheap, dear, entries=(entry(budget=Budget(rto=Rto(total=11.0))),)) == ""


def test_a_figure_that_is_not_known_is_not_met() -> None:
    asked = (entry(budget=Budget(rpo=Rpo(steps=20))),)
    known = runs(3, figures={"rpo.steps": 5.0})
    found = ruling(*known[:2], run(3), entries=asked)
    assert found.why is not None
    assert (found.why.reason, found.why.detail) == ("over-budget", "rpo.steps is not known of 1 of 3 runs")
    assert why(*known, entries=asked) == ""


def test_a_loss_below_nothing_is_no_gain() -> None:
    asked = (entry(budget=Budget(rpo=Rpo(steps=5))),)
    assert why(*runs(3, figures={"rpo.steps": 2.0}), entries=asked) == ""
    assert why(*runs(3, figures={"rpo.steps": -2.0}), entries=asked) == "over-budget"


def test_edited_blocks_and_does_not_count() -> None:
    found = ruling(*runs(4), edited=frozenset({"r1"}))
    assert found.why is not None
    assert (found.why.reason, found.against) == ("edited", ("r1",))
    assert "r1" not in found.runs
    assert "/runs/r1" in found.advice
    assert why(*runs(4), edited=frozenset()) == ""


def test_an_edited_failure_is_not_lost() -> None:
    for failed in (run(0.5, Exit.FAIL), run(0.5, Exit.FAIL, paths=())):
        assert why(*runs(3), failed, edited=frozenset({failed.run})) == "edited"
    idle = run(0.5, paths=())  # neither for nor against
    assert why(*runs(3), idle, edited=frozenset({idle.run})) == ""


def test_experiment_changed() -> None:
    before = runs(3, recipe="r0")
    found = ruling(*before)
    assert found.why is not None
    assert (found.why.reason, found.why.detail) == ("experiment-changed", "3 runs from before cut was changed")
    assert found.commands == ("chaos run experiments/cut.yaml --repeat 3",)
    assert why(*before, *runs(3, since=0.5)) == ""


def test_overridden() -> None:
    other = runs(3, overrides={"nodes": "2"})
    found = ruling(*other)
    assert found.why is not None
    assert found.why.reason == "overridden"
    assert "nodes=2" in found.why.detail
    assert why(*other, *runs(3, since=0.5)) == ""


def test_no_lab() -> None:
    bare = runs(3, lab=False)
    assert why(*bare, entries=(entry(lab="required"),)) == "no-lab"
    assert why(*bare) == ""


def test_unkept() -> None:
    listed = msgspec.structs.replace(PATH, declared=())
    other = Path(name="link.other", declared=(Spot("app/link.py", 2),))
    for entries in ((), (entry(),)):
        decision = decided(*runs(3), inventories=(with_paths(listed, other),), entries=entries)
        unkept = next(r for r in decision.rulings if r.name == "link.retry")
        assert (unkept.why and unkept.why.reason, str(unkept.where)) == ("unkept", "app/target.yaml:3")
    assert why(*runs(3), inventories=(with_paths(PATH),)) == ""


def test_undeclared_blocks_where_the_policy_says_so() -> None:
    inventory = with_paths(PATH, undeclared=(HANDLER,))
    warned = decided(*runs(3), inventories=(inventory,))
    assert warned.verdict is Verdict.OPEN
    assert [str(r.where) for r in warned.rulings if r.state is State.WARNED] == ["app/link.py:40"]
    blocked = decided(*runs(3), inventories=(inventory,), policy=Policy(undeclared="block"))
    assert blocked.verdict is Verdict.BLOCKED
    assert [r.why.reason for r in blocked.blocked if r.why] == ["undeclared"]
    assert decided(*runs(3), policy=Policy(undeclared="block")).verdict is Verdict.OPEN


def test_a_source_that_cannot_be_read_hides_paths() -> None:
    inventory = with_paths(PATH, problems=("app/broken.py:3: not Python",))
    decision = decided(*runs(3), inventories=(inventory,))
    assert [r.why.reason for r in decision.blocked if r.why] == ["unreadable"]
    assert decided(*runs(3)).verdict is Verdict.OPEN


def test_a_waiver_covers_until_its_last_day() -> None:
    other = Path(name="link.other", declared=(Spot("app/link.py", 2),))
    proved = msgspec.structs.replace(entry(), path="link.other")
    scene = {"inventories": (with_paths(PATH, other),), "entries": (entry(), proved)}
    good = runs(3, paths=("link.other",))
    decision = decided(*good, waivers=(waiver(1),), **scene)
    assert (decision.verdict, decision.headline) == (Verdict.OPEN, "1 of 2 recovery paths proved, 1 waived")
    assert (decision.waivers[0].use, decision.waivers[0].days) == ("used", 1)
    expired = decided(*good, waivers=(waiver(0),), **scene)
    assert expired.verdict is Verdict.BLOCKED
    (late,) = expired.blocked
    assert late.why is not None
    assert late.why.reason == "waiver-expired"
    assert "ana" in late.why.detail
    assert [note.reason for note in late.notes] == ["not-exercised"]
    assert expired.waivers[0].use == "expired"


def test_waivers_that_are_not_needed_are_told_and_block_nothing() -> None:
    decision = decided(*runs(3), waivers=(waiver(), waiver(path="app:link.retri"), waiver(-3, "app:x")))
    assert decision.verdict is Verdict.OPEN
    assert [use.use for use in decision.waivers] == ["unused", "unused", "unused"]
    assert decision.waivers[1].detail == "there is no such path; did you mean app:link.retry?"
    assert decided(*runs(3), waivers=(waiver(0),)).waivers[0].detail == "not needed any more"


def test_no_waiver_covers_an_edited_record() -> None:
    decision = decided(*runs(3), waivers=(waiver(),), edited=frozenset({"r1"}))
    assert decision.verdict is Verdict.BLOCKED
    assert decision.waivers[0].use == "unused"


def test_zero_is_never_open() -> None:
    assert decided().verdict is Verdict.NO_DATA
    assert decided(waivers=(waiver(),)).verdict is Verdict.NO_DATA
    assert decided(*runs(3), inventories=()).verdict is Verdict.NO_DATA
    assert decided(*runs(3), inventories=(with_paths(),), entries=()).verdict is Verdict.NO_DATA
    assert decided(*runs(3), inventories=(with_paths(),)).verdict is Verdict.NO_DATA  # and one in the catalogue is gone
    assert decided(*runs(3, paths=()), waivers=(waiver(),)).verdict is Verdict.NO_DATA  # nothing is proved


def test_runs_of_another_target_prove_nothing() -> None:
    assert why(*runs(3, target="other")) == "untested"


def test_the_nearest_miss_is_the_reason_and_the_others_are_notes() -> None:
    far = run(30, recipe="r0", build=Build(sources="old"))
    near = run(2, build=Build(sources="old"))
    for recorded in ((far, near), (msgspec.structs.replace(far, started=NOW - 20 * DAY), near)):
        found = ruling(*recorded)
        assert found.why is not None
        assert (found.why.reason, found.why.detail) == ("other-build", "2 runs of another build: old, today new")
        assert [note.reason for note in found.notes] == ["stale", "experiment-changed"]


def test_what_appeared_and_vanished_since_the_last_release() -> None:
    old = Path(name="link.old", declared=(Spot("app/link.py", 2),))
    decision = decided(*runs(3), entries=(), before=(with_paths(old),))
    assert (decision.appeared, decision.vanished) == (("app:link.retry",), ("app:link.old",))
    (found,) = decision.paths
    assert found.why is not None
    assert "appeared since the last release" in found.why.detail
    gone = msgspec.structs.replace(INVENTORY, target="other")
    assert decided(*runs(3), before=(INVENTORY, gone)).vanished == ("other:link.retry",)
    same = decided(*runs(3), entries=(), before=(INVENTORY,))
    assert (same.appeared, same.vanished) == ((), ())
    assert same.paths[0].why is not None
    assert "appeared" not in same.paths[0].why.detail


def test_the_experiment_that_shows_a_bug_must_still_show_it() -> None:
    asked = (entry(verdict="fail"),)
    assert why(*runs(3, Exit.FAIL), entries=asked) == ""
    assert why(*runs(3, Exit.FAIL, since=2), run(1), entries=asked) == "failing"


def test_the_same_question_has_the_same_answer() -> None:
    asked = question(*runs(2), run(3, Exit.FAIL))
    assert decide(asked) == decide(asked)
    assert asked.now == NOW


def test_a_path_that_only_a_run_knows_of_is_told() -> None:
    hidden = runs(3, paths=("link.retry", "link.hidden"))
    decision = decided(*hidden)
    assert decision.verdict is Verdict.BLOCKED
    (found,) = decision.blocked
    assert (found.title, found.why and found.why.reason) == ("app:link.hidden", "new")
    assert found.why is not None
    assert "recorded by r1.08333 on this build" in found.why.detail
    entered = runs(3, entered=("link.hidden",))
    assert decided(*entered).verdict is Verdict.BLOCKED
    elsewhere = run(5, build=Build(sources="old"), paths=("link.hidden",))  # it was taken out since
    assert decided(*runs(3), elsewhere).verdict is Verdict.OPEN


def test_a_commit_does_not_tell_of_files_that_git_does_not_know() -> None:
    generated = runs(3, build=Build(sources="other", commit="c1"))
    found = ruling(*generated, entries=(entry(build="commit"),))
    assert found.why is not None
    assert found.why.reason == "other-build"
    assert "git" in found.why.detail


def test_a_failure_of_today_is_not_hidden_by_a_later_run_of_an_older_build() -> None:
    asked = (entry(build="any"),)
    older = runs(3, since=0.1, build=Build(sources="old"))
    assert why(run(1, Exit.FAIL), *older, entries=asked) != ""
    assert why(*older, entries=asked) == ""


def test_a_failure_whose_record_does_not_end_shows_no_known_bug() -> None:
    asked = (entry(verdict="fail"),)
    assert why(*runs(3, Exit.FAIL), entries=asked) == ""
    assert why(*runs(3, Exit.FAIL, journal=""), entries=asked) != ""
    assert why(*runs(3), run(0.5, Exit.FAIL, journal="")) == "failing"
