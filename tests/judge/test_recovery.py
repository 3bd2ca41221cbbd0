"""What a recovery is measured to have cost."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.judge import measure
from chaos.judge.efficiency import efficiency
from chaos.result import Need, Recovery
from judge.histories import Tape, killed_and_restarted


def near(expected: Any) -> Any:
    return pytest.approx(expected, abs=0.05)


def only(tape: Tape, warm: float | None = None) -> Recovery:
    (found,) = measure(tape.history, warm)
    return found


def running(last: int = 30) -> Tape:
    tape = Tape().start().train(1, 20)
    tape.save(1, 20)
    return tape.train(21, last)


def test_the_terms_share_their_borders_and_add_up_to_the_total() -> None:
    found = only(killed_and_restarted())
    terms = (found.detect, found.restart, found.load, found.warmup)
    assert terms == near((0.3, 0.5, 0.25, 0.1))
    assert sum(t for t in terms if t is not None) == pytest.approx(found.total)
    assert found.need is Need.FAILURE
    assert found.complete
    assert (found.epoch, found.world, found.formations) == (2, (4, 4), 1)


def test_the_loss_counts_from_the_last_step_of_any_rank_at_the_fault() -> None:
    tape = running()
    tape.wait(0.05).step(31, ranks=[2])
    tape.fault("process.kill", "worker-n1")
    tape.detect("worker-n1")
    tape.reform(2, 4, 1, 20).train(21, 40, epoch=2)
    found = only(tape)
    assert (found.frontier, found.restored, found.lost_steps, found.lost_samples) == (31, 20, 11, 132)
    assert found.lost_seconds == near(1.1)
    assert found.catch_up is not None
    assert found.resume is not None
    assert found.catch_up - found.resume == near(1.1)


def test_what_happened_before_the_fault_counts_even_if_it_was_recorded_after() -> None:
    tape = running()
    happened = tape.t
    tape.fault("process.kill", "worker-n1")
    tape.add("step.completed", "worker-n2", at=happened, step=31, rank=2, world=4, epoch=1, loss="1", samples=[])
    tape.detect("worker-n1")
    tape.reform(2, 4, 1, 20).train(21, 40, epoch=2)
    assert only(tape).frontier == 31


def test_a_restored_step_that_was_never_completed_is_a_negative_loss() -> None:
    tape = running()
    tape.fault("process.kill", "worker-n1")
    tape.detect("worker-n1")
    tape.reform(2, 4, 2, 40).train(41, 45, epoch=2)
    assert only(tape).lost_steps == -10


def test_a_fault_with_a_delayed_effect_is_measured_from_where_the_work_really_stopped() -> None:
    # The agent dies at step 30; its worker goes on past the commit at step 40 until it notices.
    tape = running()
    tape.fault("process.kill-agent", "agent-n1")
    tape.train(31, 40)
    tape.save(2, 40)
    tape.train(41, 43).detect("agent-n1")
    tape.reform(2, 3, 2, 40, was=4).train(41, 60, epoch=2, world=3)
    found = only(tape)
    assert (found.frontier, found.restored, found.lost_steps) == (43, 40, 3)
    assert "went on from step 30 to 43" in found.note


def test_a_fault_during_the_recovery_extends_the_episode() -> None:
    tape = running()
    first = tape.fault("first", "worker-n1")
    tape.detect("worker-n1")
    tape.reform(2, 4, 1, 20)
    tape.wait(1).fault("second", "worker-n2")
    tape.detect("worker-n2")
    tape.reform(3, 4, 1, 20).train(21, 40, epoch=3)
    found = only(tape)
    assert found.faults == ("first", "second")
    assert found.formations == 2
    assert found.evidence["began"] == first
    assert (found.epoch, found.frontier, found.lost_steps) == (3, 30, 10)
    assert found.total == pytest.approx(2.7, abs=0.2)


def test_a_fault_after_the_recovery_is_an_episode_of_its_own() -> None:
    tape = running()
    for epoch, name in ((2, "first"), (3, "second")):
        tape.fault(name, "worker-n1")
        tape.detect("worker-n1")
        tape.reform(epoch, 4, 1, 20).train(21, 25, epoch=epoch)
    one, two = measure(tape.history)
    assert (one.faults, one.lost_steps) == (("first",), 10)
    # The second counts from the lineage that it struck, not from what had been discarded before.
    assert (two.faults, two.frontier, two.lost_steps) == (("second",), 25, 5)


def test_growth_back_is_planned_and_loses_nothing() -> None:
    tape = running()
    tape.fault("network.isolate", nodes=("n3",), instant=False)
    tape.wait(2).detect("agent-n3", "partition")
    tape.reform(2, 3, 1, 20, was=4, action="shrink").train(21, 30, epoch=2, world=3)
    tape.heal("network.isolate")
    tape.train(31, 40, epoch=2, world=3)
    tape.save(2, 40, epoch=2, world=3)
    tape.reform(3, 4, 2, 40, was=3, action="grow").train(41, 60, epoch=3).done(60)
    shrunk, grown = measure(tape.history)
    assert (shrunk.need, shrunk.world, shrunk.lost_steps) == (Need.FAILURE, (4, 3), 10)
    assert (grown.need, grown.world, grown.lost_steps, grown.faults) == (Need.PLANNED, (3, 4), 0, ())


def test_a_re_formation_that_no_fault_explains_is_unprovoked() -> None:
    tape = running()
    tape.detect("worker-n2", "hang")
    tape.reform(2, 4, 1, 20).train(21, 60, epoch=2)
    found = only(tape)
    assert (found.need, found.lost_steps, found.detect) == (Need.UNPROVOKED, 10, 0.0)


@pytest.mark.parametrize("action", ["cold-restart", "grow"])
def test_to_throw_work_away_without_a_word_is_no_plan_whatever_it_is_called(action: str) -> None:
    tape = running()
    tape.reform(2, 4, 1, 20, action=action).train(21, 60, epoch=2).done(60)
    found = only(tape)
    assert (found.need, found.lost_steps) == (Need.UNPROVOKED, 10)


def test_a_re_formation_that_loses_nothing_and_of_which_nobody_says_that_anything_failed_is_planned() -> None:
    tape = running()
    tape.save(2, 30)
    tape.reform(2, 3, 2, 30, was=4, action="shrink").train(31, 60, epoch=2, world=3).done(60)
    assert only(tape).need is Need.PLANNED


def test_a_fault_that_costs_nothing_needed_no_recovery() -> None:
    tape = running()
    tape.fault("process.kill", "coordinator-1")
    tape.train(31, 60).done(60)
    found = only(tape)
    assert (found.need, found.lost_steps, found.total) == (Need.NONE, 0, None)
    assert "no recovery was needed" in found.note


@pytest.mark.parametrize("code", [-9, 1])
def test_a_fault_that_ended_the_target_was_not_harmless_whatever_its_orphans_still_did(code: int) -> None:
    tape = running()
    tape.fault("process.kill", "supervisor")
    end = tape.add("target.finished", code=code, member="supervisor")
    tape.train(31, 40).add("run.ended", reason="finished")
    found = only(tape)
    if code > 0:  # it ended by itself
        assert found.need is Need.NONE
        return
    assert (found.need, found.complete, found.restored, found.lost_steps) == (Need.FAILURE, False, None, None)
    assert (found.note, found.evidence["ended"]) == ("it ended the target", end)


def test_a_target_that_is_killed_when_its_job_is_done_has_nothing_to_recover() -> None:
    tape = running()
    tape.fault("process.kill", "supervisor")
    tape.add("job.completed", step=30)
    tape.add("target.finished", code=-9, member="supervisor")
    assert only(tape).need is Need.NONE


def test_a_harmless_fault_long_before_is_not_taken_for_the_cause_of_the_next_recovery() -> None:
    tape = running()
    tape.fault("harmless", "coordinator-1")
    tape.train(31, 40)
    tape.fault("process.kill", "worker-n1")
    tape.detect("worker-n1")
    tape.reform(2, 4, 1, 20).train(21, 60, epoch=2)
    first, second = measure(tape.history)
    assert (first.need, first.faults) == (Need.NONE, ("harmless",))
    assert (second.need, second.faults) == (Need.FAILURE, ("process.kill",))
    assert second.detect == near(0.0)


def test_a_freeze_that_was_sat_out_is_not_taken_for_the_cause_of_the_next_recovery() -> None:
    tape = running()
    tape.fault("process.freeze", "worker-n1", instant=False)
    tape.wait(0.5).heal("process.freeze")
    tape.train(31, 40)
    tape.fault("process.kill", "worker-n1")
    tape.detect("worker-n1")
    tape.reform(2, 4, 1, 20).train(21, 60, epoch=2)
    first, second = measure(tape.history)
    assert (first.need, second.faults) == (Need.NONE, ("process.kill",))


def full_disk(*, hits: Any = None, second: str = "worker-n1", healed: float = 5.0) -> tuple[Recovery, ...]:
    """A fault that stands for `healed` seconds; the next group does three steps and one of its members fails, too."""
    tape = running()
    tape.fault("storage.full", "worker-n1", instant=False)
    tape.detect("worker-n1")
    tape.reform(2, 4, 1, 20).train(21, 23, epoch=2)
    if healed < 1.5:
        tape.heal("storage.full")
        tape.train(24, 34, epoch=2)
    tape.wait(0.1).add("member.exited", second, member=second, code=1)
    tape.wait(0.2).detect(second)
    if healed >= 1.5:
        tape.add("fault.healed", "fault:storage.full", kind="storage.full", evidence={"hits": hits} if hits else {})
    tape.reform(3, 4, 1, 20).train(21, 60, epoch=3).done(60)
    return measure(tape.history)


@pytest.mark.parametrize("hits", [None, 2, 7])
def test_a_fault_that_stands_and_strikes_again_explains_the_next_failure_too(hits: int | None) -> None:
    first, again = full_disk(hits=hits)
    assert (first.need, first.lost_steps) == (Need.FAILURE, 10)
    assert (again.need, again.faults, again.frontier) == (Need.FAILURE, ("storage.full",), 23)
    assert again.detect == near(0.2), "the second strike is dated from the death"


def test_a_second_strike_that_shows_only_in_a_declaration_is_dated_from_it() -> None:
    tape = running()
    tape.fault("storage.full", "worker-n1", instant=False)
    tape.detect("worker-n1")
    tape.reform(2, 4, 1, 20).train(21, 23, epoch=2)
    seq = tape.detect("worker-n1", "hang")
    tape.add("member.exited", "worker-n1", member="worker-n1", code=1)
    tape.reform(3, 4, 1, 20).train(21, 60, epoch=3)
    _, again = measure(tape.history)
    assert (again.need, again.evidence["began"], again.detect) == (Need.FAILURE, seq, 0.0)


@pytest.mark.parametrize(
    "other",
    [
        {"second": "worker-n2"},  # whom the fault did not touch
        {"hits": 1},  # it took effect once only
        {"healed": 1.0},  # work went on after the heal
    ],
)
def test_a_failure_that_the_standing_fault_has_no_part_in_stays_unprovoked(other: dict[str, Any]) -> None:
    _, second = full_disk(**other)
    assert (second.need, second.faults) == (Need.UNPROVOKED, ())


def test_the_larger_side_of_a_partition_that_stands_is_not_touched_by_it() -> None:
    for second, need in (("worker-n1", Need.UNPROVOKED), ("agent-n3", Need.FAILURE)):
        tape = running()
        sides = [["n0", "n1", "n2"], ["n3"]]
        tape.add("fault.injecting", "fault:cut", members=[], nodes=["n0", "n1", "n2", "n3"])
        tape.add(
            "fault.landed", "fault:cut", members=[], nodes=["n0", "n1", "n2", "n3"], sides=sides, evidence={"x": 1}
        )
        tape.detect("agent-n3")
        tape.reform(2, 3, 1, 20, was=4).train(21, 30, epoch=2, world=3)
        tape.detect(second)
        tape.reform(3, 3, 1, 20).train(21, 60, epoch=3, world=3)
        assert measure(tape.history)[1].need is need


def test_a_warned_preemption_is_measured_from_its_injection() -> None:
    tape = running()
    injected = tape.add("fault.injecting", "fault:preempt", members=["agent-n2"], nodes=["n2"])
    tape.wait(0.1).detect("agent-n2", "preempted")
    tape.wait(2).add(
        "fault.landed", "fault:preempt", members=["agent-n2"], nodes=["n2"], instant=True, evidence={"x": 1}
    )
    tape.reform(2, 3, 1, 20, was=4).train(21, 60, epoch=2, world=3)
    found = only(tape)
    assert found.evidence["began"] == injected
    assert found.detect == near(0.1)


def test_a_target_that_loads_before_it_calls_the_group_formed_has_its_load_counted_once() -> None:
    tape = running()
    tape.fault("process.kill", "worker-n1")
    tape.detect("worker-n1")
    tape.add("group.forming", "coordinator-0", epoch=2, world=4)
    tape.wait(0.5).load(1, 20, epoch=2)
    tape.wait(0.3).add("group.formed", "coordinator-0", epoch=2, world=4, generation=1, step=20)
    tape.train(21, 40, epoch=2)
    found = only(tape)
    assert found.restart == near(0.5)
    assert found.load == near(0.03)
    assert found.warmup == near(0.4)


def test_warm_up_lasts_until_the_speed_is_back() -> None:
    tape = running()
    tape.fault("process.kill", "worker-n1")
    tape.detect("worker-n1")
    tape.reform(2, 4, 1, 20)
    for step in range(21, 26):
        tape.wait(0.4).step(step, epoch=2)
    tape.train(26, 40, epoch=2)
    assert only(tape).warmup == pytest.approx(0.5, abs=0.1)
    warm = only(tape, warm=0.7)
    # Steps of 0.4 s do not count; then the mean of three is 0.1 s.
    assert warm.warmup == pytest.approx(2.3, abs=0.15)
    assert warm.complete
    assert not only(tape, warm=1.5).complete


def test_a_job_that_never_recovers_has_no_total() -> None:
    tape = running()
    tape.fault("process.kill", "worker-n1")
    tape.wait(30)
    tape.add("target.hung", seconds=30.0, alive=["worker-n0"])
    found = only(tape)
    assert (found.need, found.complete, found.total, found.lost_steps) == (Need.FAILURE, False, None, None)


def test_a_failover_without_a_declaration_is_detected_when_the_re_formation_is_declared() -> None:
    tape = running()
    tape.fault("process.kill", "coordinator-0")
    tape.wait(2).reform(2, 4, 1, 20, action="failover").train(21, 40, epoch=2)
    assert only(tape).detect == near(2.5)


def test_the_lost_member_seconds_are_all_that_did_not_last() -> None:
    found = only(killed_and_restarted())
    assert found.resume is not None
    assert found.lost_seconds is not None
    assert found.lost_member_seconds == pytest.approx(4 * (found.resume + found.lost_seconds))


def test_a_run_without_faults_or_re_formations_has_no_recovery() -> None:
    assert measure(running().done(30).history) == ()
    assert measure(Tape().history) == ()


def test_goodput_is_the_share_of_the_time_that_became_lasting_steps() -> None:
    healthy = efficiency(Tape().start().train(1, 60).history)
    assert healthy.goodput == near(1.0)
    assert healthy.ettr == near(1.0)
    broken = efficiency(killed_and_restarted().history)
    assert (broken.lasting_steps, broken.repeated_steps) == (60, 10)
    # 60 steps of 0.1 s in the 8.3 s that 70 steps and a recovery took.
    assert broken.goodput == pytest.approx(60 * 0.104 / broken.wall if broken.wall else 0, abs=0.02)
    assert broken.ettr == pytest.approx(broken.goodput, abs=0.05)
