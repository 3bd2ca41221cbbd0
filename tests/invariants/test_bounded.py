"""T10 and T11: noticed in time, recovered in time."""

from __future__ import annotations

from typing import Any

import pytest
from judge.histories import Tape, killed_and_restarted

from chaos.invariants.bounded_detection import BoundedDetection
from chaos.invariants.bounded_recovery import BoundedRecovery
from chaos.verdict import Outcome

DETECT, RECOVER = BoundedDetection(), BoundedRecovery()


def running(last: int = 30) -> Tape:
    tape = Tape().start().train(1, 20)
    tape.save(1, 20)
    return tape.train(21, last)


class TestBoundedDetection:
    def test_a_kill_that_is_noticed_passes_with_the_time_it_took(self) -> None:
        verdict = DETECT.check(killed_and_restarted().history)
        assert verdict.outcome is Outcome.PASS
        assert "process.kill noticed after 0.30 s" in verdict.reason

    def test_a_kill_that_is_noticed_too_late_fails(self) -> None:
        verdict = BoundedDetection(within=0.2).check(killed_and_restarted().history)
        assert verdict.outcome is Outcome.FAIL
        assert "process.kill of worker-n1 was noticed only after 0.3 s; 0.2 s are allowed" in verdict.reason

    def test_a_rank_that_is_left_out_of_the_next_group_was_noticed(self) -> None:
        tape = running()
        tape.fault("first", "worker-n1")
        tape.detect("worker-n1")
        tape.add("group.forming", "coordinator-0", epoch=2, world=4)
        tape.fault("second", "agent-n2", "worker-n2")
        tape.wait(1).reform(2, 3, 1, 20, was=4, action="shrink").train(21, 60, epoch=2, world=3).done(60)
        verdict = DETECT.check(tape.history)
        assert verdict.outcome is Outcome.PASS
        assert "second noticed after 1.5 s" in verdict.reason.replace("1.50", "1.5")

    def test_a_group_that_is_formed_again_without_a_word_of_why_fails(self) -> None:
        tape = running()
        seq = tape.fault("process.kill", "worker-n1")
        tape.reform(2, 4, 1, 20).train(21, 60, epoch=2).done(60)
        verdict = DETECT.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "after process.kill of worker-n1 (epoch 2), and nobody declared any failure" in verdict.reason
        assert verdict.evidence[0] == seq

    def test_a_later_failure_that_is_declared_is_not_that_of_a_group_that_was_formed_without_a_word(self) -> None:
        tape = running()
        tape.fault("first", "worker-n1")
        tape.reform(2, 4, 1, 20).train(21, 30, epoch=2)
        tape.fault("second", "worker-n2")
        tape.detect("worker-n2")
        tape.reform(3, 4, 1, 20).train(21, 60, epoch=3).done(60)
        assert "after first of worker-n1 (epoch 2)" in DETECT.check(tape.history).reason

    def test_a_short_cut_that_cost_a_restart_of_which_nobody_tells_did_harm(self) -> None:
        tape = running()
        tape.fault("network.isolate", "worker-n1", instant=False)
        tape.wait(2).heal("network.isolate")
        tape.reform(2, 4, 1, 20).train(21, 60, epoch=2).done(60)
        assert DETECT.check(tape.history).outcome is Outcome.FAIL

    @pytest.mark.parametrize("steps", [2, 6], ids=["at once", "later"])
    def test_a_group_that_takes_in_more_ranks_needs_no_failure_unless_one_had_died(self, steps: int) -> None:
        for kind, instant, outcome in (("network.isolate", False, Outcome.PASS), ("process.kill", True, Outcome.FAIL)):
            tape = running()
            tape.fault(kind, "worker-n1", instant=instant)
            if not instant:
                tape.wait(1).heal(kind)
                tape.train(31, 30 + steps)
            tape.reform(2, 5, 1, 20, was=4, action="grow").train(21, 60, epoch=2, world=5).done(60)
            assert DETECT.check(tape.history).outcome is outcome

    def test_a_kill_that_nobody_notices_fails(self) -> None:
        tape = running()
        seq = tape.fault("process.kill", "worker-n1")
        tape.wait(20).add("run.ended", reason="limit")
        verdict = DETECT.check(tape.history)
        assert "was noticed never" in verdict.reason
        assert verdict.evidence == (seq,)

    def test_a_record_that_ends_too_early_is_unknown(self) -> None:
        tape = running()
        tape.fault("process.kill", "worker-n1")
        assert DETECT.check(tape.wait(1).done(30).history).outcome is Outcome.UNKNOWN

    def test_a_failure_declared_without_any_fault_is_a_false_alarm(self) -> None:
        tape = running()
        seq = tape.detect("worker-n2", "hang")
        verdict = DETECT.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert verdict.reason.startswith("false alarm: worker-n2 was declared failed (hang: ")
        assert verdict.evidence == (seq,)

    def test_a_restart_for_a_cut_that_was_soon_over_is_a_false_alarm_where_it_had_to_be_waited_out(self) -> None:
        tape = running()
        cut = tape.fault("network.isolate", "agent-n1", "worker-n1", instant=False, nodes=("n1",))
        declared = tape.detect("agent-n1", "partition")
        tape.wait(2).heal("network.isolate")
        tape.reform(2, 4, 1, 20).train(21, 60, epoch=2).done(60)
        verdict = BoundedDetection(transient=3.0).check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "a transient fault cost a restart: agent-n1 was declared failed (partition: " in verdict.reason
        assert verdict.evidence == (cut, declared)
        assert BoundedDetection(transient=1.0).check(tape.history).outcome is Outcome.PASS
        assert DETECT.check(tape.history).outcome is Outcome.PASS

    def test_a_cut_that_is_waited_out_passes(self) -> None:
        tape = running()
        tape.fault("network.isolate", "agent-n1", "worker-n1", instant=False, nodes=("n1",))
        tape.wait(2).heal("network.isolate")
        tape.train(31, 60).done(60)
        assert BoundedDetection(transient=3.0).check(tape.history).outcome is Outcome.PASS

    def test_a_member_that_really_died_of_a_passing_fault_may_be_declared(self) -> None:
        tape = running()
        tape.fault("network.isolate", "agent-n1", "worker-n1", instant=False, nodes=("n1",))
        tape.add("member.exited", member="worker-n1", code=-9)
        tape.detect("worker-n1")
        tape.wait(2).heal("network.isolate")
        tape.reform(2, 4, 1, 20).train(21, 60, epoch=2).done(60)
        assert BoundedDetection(transient=3.0).check(tape.history).outcome is Outcome.PASS

    def test_a_failure_declared_before_the_fault_is_a_false_alarm(self) -> None:
        tape = running()
        tape.detect("worker-n1")
        tape.fault("process.kill", "worker-n1")
        assert DETECT.check(tape.history).reason.startswith("false alarm")

    def test_a_healthy_member_declared_dead_after_the_recovery_is_a_false_alarm(self) -> None:
        tape = killed_and_restarted()
        tape.detect("worker-n3")
        assert DETECT.check(tape.history).reason.startswith("false alarm: worker-n3")

    def test_the_peers_of_the_one_that_was_hit_may_be_declared_during_the_recovery(self) -> None:
        tape = running()
        tape.fault("process.kill", "worker-n1")
        tape.detect("worker-n1")
        tape.detect("worker-n3", "hang")
        tape.reform(2, 4, 1, 20).train(21, 40, epoch=2)
        assert DETECT.check(tape.history).outcome is Outcome.PASS

    def test_a_healthy_member_declared_dead_long_after_a_harmless_kill_is_a_false_alarm(self) -> None:
        tape = running()
        tape.fault("process.kill", "coordinator-1")
        tape.train(31, 40).detect("worker-n2", "hang")
        tape.reform(2, 4, 1, 20).train(21, 50, epoch=2)
        assert DETECT.check(tape.history).reason.startswith("false alarm: worker-n2")

    def test_a_member_that_really_died_is_no_false_alarm(self) -> None:
        for code, outcome in ((13, Outcome.PASS), (0, Outcome.FAIL)):
            tape = running()
            facts: dict[str, Any] = {"member": "worker-n2", "role": "worker", "node": "n2", "pid": 202, "code": code}
            tape.add("member.exited", "worker-n2", **facts)
            tape.detect("worker-n2")
            assert DETECT.check(tape.history).outcome is outcome

    def test_a_member_that_ended_with_the_last_group_is_not_dead_in_this_one(self) -> None:
        tape = running()
        facts: dict[str, Any] = {"member": "worker-n2", "role": "worker", "node": "n2", "pid": 202, "code": -9}
        tape.add("member.exited", "worker-n2", **facts)
        tape.reform(2, 4, 1, 20).train(21, 25, epoch=2).detect("worker-n2")
        assert DETECT.check(tape.history).outcome is Outcome.FAIL

    def test_a_suspicion_is_no_alarm(self) -> None:
        tape = running()
        tape.add("failure.suspected", "coordinator-0", member="worker-n2", reason="silent", silent=1.0)
        assert DETECT.check(tape.history).outcome is Outcome.PASS

    def test_a_short_freeze_that_nobody_notices_did_no_harm(self) -> None:
        tape = running()
        tape.fault("process.freeze", "worker-n1", instant=False)
        tape.wait(0.5).heal("process.freeze")
        tape.train(31, 60).done(60)
        verdict = DETECT.check(tape.history)
        assert verdict.outcome is Outcome.PASS
        assert "did no harm" in verdict.reason

    def test_a_long_freeze_that_nobody_notices_fails(self) -> None:
        tape = running()
        tape.fault("process.freeze", "worker-n1", instant=False)
        tape.wait(15).heal("process.freeze")
        tape.train(31, 60).done(60)
        assert DETECT.check(tape.history).outcome is Outcome.FAIL

    def test_a_freeze_that_the_end_of_the_job_cut_short_is_unknown_however_long_the_record_goes_on(self) -> None:
        tape = running()
        tape.fault("process.freeze", "agent-n1", instant=False, hold=8.0)
        tape.wait(1).add("job.completed", "coordinator-0", step=30)
        tape.heal("process.freeze")
        tape.wait(20).add("run.ended", reason="finished")
        verdict = DETECT.check(tape.history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "the job ends 1.0 s after process.freeze" in verdict.reason

    def test_a_notice_of_preemption_counts_although_it_comes_before_the_kill(self) -> None:
        tape = running()
        tape.add("fault.injecting", "fault:process.preempt", members=["agent-n2"], nodes=["n2"])
        tape.detect("agent-n2", "preempted")
        facts: dict[str, Any] = {"members": ["agent-n2"], "nodes": ["n2"], "instant": True, "evidence": {"x": 1}}
        tape.wait(1).add("fault.landed", "fault:process.preempt", **facts)
        tape.reform(2, 3, 1, 20, was=4).train(21, 60, epoch=2, world=3).done(60)
        verdict = DETECT.check(tape.history)
        assert verdict.outcome is Outcome.PASS
        assert "after 0.00 s" in verdict.reason

    def test_damage_on_record_explains_a_corruption(self) -> None:
        tape = running()
        tape.detect("worker-n0", "corruption")
        assert DETECT.check(tape.history).outcome is Outcome.FAIL
        tape.add("checkpoint.damaged", "store", generation=1, name="shard-0", reason="digest")
        assert DETECT.check(tape.history).outcome is Outcome.PASS

    def test_a_control_run_passes_for_want_of_alarms(self) -> None:
        verdict = DETECT.check(running().done(30).history)
        assert verdict.outcome is Outcome.PASS
        assert verdict.reason == "no false alarm up to step 30"

    def test_a_fault_that_hits_files_only_is_none_to_be_noticed(self) -> None:
        tape = running()
        tape.fault("checkpoint.corrupt")
        tape.wait(20).train(31, 32)
        assert DETECT.check(tape.history).outcome is Outcome.UNKNOWN
        tape.fault("process.kill", "worker-n1")
        tape.wait(0.1).detect("worker-n1")
        tape.reform(2, 4, 1, 20).train(21, 40, epoch=2)
        verdict = DETECT.check(tape.history)
        assert verdict.outcome is Outcome.PASS
        assert "checkpoint.corrupt" not in verdict.reason

    def test_a_fault_that_did_not_land_is_unknown(self) -> None:
        tape = running()
        tape.add("fault.armed", "fault:process.kill")
        assert DETECT.check(tape.history).outcome is Outcome.UNKNOWN

    def test_a_run_without_a_step_is_unknown(self) -> None:
        assert DETECT.check(Tape().start().history).outcome is Outcome.UNKNOWN

    def test_a_leader_that_lost_its_lease_while_the_store_stood_still_is_no_false_alarm(self) -> None:
        for calm, outcome in ((2, Outcome.PASS), (5, Outcome.FAIL)):
            tape = running()
            tape.add("member.started", "store", member="store", role="store", node="s0", rank=None, pid=99)
            tape.fault("process.freeze", "store", instant=False)
            tape.train(31, 40).wait(4.0).heal("process.freeze")
            tape.train(41, 40 + calm)
            tape.detect("coordinator-0", "hang")
            tape.reform(2, 4, 1, 20, action="failover").train(21, 60, epoch=2)
            assert DETECT.check(tape.done(60).history).outcome is outcome


class TestBoundedRecovery:
    def test_a_few_attempts_before_the_job_gives_up_are_no_loop(self) -> None:
        tape = running()
        tape.fault("process.restart-loop", "worker-n1")
        for epoch in range(2, 5):
            tape.wait(0.2).add("group.forming", "coordinator-0", epoch=epoch, world=4)
        tape.add("target.finished", code=1, member="coordinator-0")
        assert RECOVER.check(tape.history).outcome is Outcome.PASS

    def test_a_recovery_in_time_passes(self) -> None:
        assert RECOVER.check(killed_and_restarted().history).outcome is Outcome.PASS

    def test_who_allows_no_restart_allows_the_one_that_the_fault_asks_for(self) -> None:
        none = BoundedRecovery(restarts=0)
        assert none.check(killed_and_restarted().history).outcome is Outcome.PASS
        tape = running()
        tape.fault("process.kill", "worker-n1")
        for epoch in (2, 3):
            tape.wait(0.2).add("group.forming", "coordinator-0", epoch=epoch, world=4)
        assert none.check(tape.history).reason.startswith("restart loop: a group was to be formed 2 times")
        tape = running()
        tape.fault("process.kill", "worker-n1")
        tape.reform(2, 4, 1, 20).reform(3, 4, 1, 20)
        assert none.check(tape.history).reason.startswith("restart loop: the group was formed 2 times")

    def test_a_recovery_that_takes_too_long_fails(self) -> None:
        verdict = BoundedRecovery(within=1.5).check(killed_and_restarted().history)
        assert verdict.outcome is Outcome.FAIL
        assert "passed after process.kill at step 30" in verdict.reason

    def test_to_work_again_is_not_enough_it_must_get_beyond_the_frontier(self) -> None:
        tape = running()
        tape.fault("process.kill", "worker-n1")
        tape.detect("worker-n1")
        tape.reform(2, 4, 1, 20).train(21, 30, epoch=2).wait(90)
        tape.add("run.ended", reason="limit")
        verdict = RECOVER.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert verdict.reason.startswith("half-dead job")

    def test_a_limit_that_ends_the_run_soon_after_the_fault_proves_nothing(self) -> None:
        tape = running()
        tape.fault("process.kill", "worker-n1")
        tape.wait(1).add("limit.reached", name="wall", value=60.0)
        assert RECOVER.check(tape.history).outcome is Outcome.UNKNOWN

    def test_a_last_step_of_the_survivors_is_no_progress(self) -> None:
        tape = running()
        tape.fault("process.kill", "worker-n1")
        tape.step(31, ranks=[0, 2, 3])
        tape.wait(90).add("run.ended", reason="limit")
        assert RECOVER.check(tape.history).reason.startswith("half-dead job")

    def test_a_hang_is_a_verdict_of_its_own(self) -> None:
        tape = running()
        fault = tape.fault("process.freeze", "worker-n1", instant=False)
        hung = tape.wait(30).add("target.hung", seconds=30.0, alive=["worker-n0", "worker-n2"])
        verdict = RECOVER.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert verdict.reason.startswith("hang of survivors: no progress for 30.0 s while worker-n0, worker-n2")
        assert verdict.evidence == (fault, hung)

    def test_a_single_survivor_was_alive(self) -> None:
        tape = running()
        tape.fault("process.freeze", "worker-n1", instant=False)
        tape.wait(30).add("target.hung", seconds=30.0, alive=["supervisor"])
        assert "while supervisor was alive" in RECOVER.check(tape.history).reason

    @pytest.mark.parametrize("kind", ["member.exited", "failure.detected"])
    def test_a_member_that_dies_again_and_again_before_any_group_is_formed_is_a_restart_loop(self, kind: str) -> None:
        tape = running()
        fault = tape.fault("process.kill", "worker-n1")
        for _ in range(4):  # the first is the kill itself
            tape.add(kind, member="worker-n1", code=1)
        early = Tape()
        early.events, early.t, early.count = [*tape.events], tape.t, tape.count
        early.wait(30).add("target.hung", seconds=30.0, alive=["supervisor"])
        assert RECOVER.check(early.history).reason.startswith("hang of survivors")
        last = tape.add(kind, member="worker-n1", code=1)
        hung = tape.wait(30).add("target.hung", seconds=30.0, alive=["supervisor"])
        verdict = RECOVER.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert verdict.reason == "restart loop: worker-n1 failed 5 times in a row without a step in between"
        assert verdict.evidence[0] == fault
        assert verdict.evidence[-2:] == (last, hung)

    def test_deaths_by_a_fault_that_stands_or_with_steps_in_between_are_no_loop(self) -> None:
        for stands in (True, False):
            tape = running()
            tape.fault("process.restart-loop", "worker-n1", instant=not stands)
            for step in range(31, 37):
                tape.add("member.exited", member="worker-n1", code=-9)
                if not stands:
                    tape.step(step)
            tape.wait(30).add("target.hung", seconds=30.0, alive=["supervisor"])
            assert RECOVER.check(tape.history).reason.startswith("hang of survivors")

    def test_a_job_that_ends_with_an_error_in_time_passes(self) -> None:
        tape = running()
        tape.fault("process.kill", "worker-n1")
        tape.wait(5).add("job.failed", "coordinator-0", reason="too few nodes")
        tape.add("target.finished", code=1, member="coordinator-0")
        assert RECOVER.check(tape.history).outcome is Outcome.PASS

    def test_a_target_that_the_fault_itself_ends_fails(self) -> None:
        tape = running()
        fault = tape.fault("process.kill", "worker-n1")
        ended = tape.add("target.finished", code=-9, member="worker-n1")
        verdict = RECOVER.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "a fault ended worker-n1, and with it the target" in verdict.reason
        assert verdict.evidence == (fault, ended)

    def test_a_job_that_ends_with_exit_code_0_without_being_done_fails(self) -> None:
        tape = running()
        tape.fault("process.kill", "worker-n1")
        tape.wait(5).add("target.finished", code=0, member="coordinator-0")
        assert "exit code 0 without being done" in RECOVER.check(tape.history).reason

    def test_re_formations_without_progress_are_a_restart_loop(self) -> None:
        tape = running()
        tape.fault("process.kill", "worker-n1")
        for epoch in range(2, 7):
            tape.detect("worker-n1")
            tape.reform(epoch, 4, 1, 20)
        verdict = RECOVER.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        hung = tape.wait(30).add("target.hung", seconds=30.0, alive=["worker-n0"])
        assert RECOVER.check(tape.history) == verdict, f"a loop is more than the hang at {hung}"
        assert verdict.reason.startswith("restart loop: the group was formed 5 times in a row (epochs 2, 3, 4, 5, 6)")

    def test_a_group_that_is_to_be_formed_again_and_again_and_never_is_is_a_restart_loop(self) -> None:
        tape = running()
        tape.fault("network.blackhole", "agent-n1")
        for epoch in range(2, 5):
            tape.add("group.forming", "coordinator-0", epoch=epoch, world=4)
        assert RECOVER.check(tape.history).outcome is not Outcome.FAIL
        last = tape.add("group.forming", "coordinator-0", epoch=5, world=4)
        verdict = RECOVER.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert verdict.reason == (
            "restart loop: a group was to be formed 4 times in a row (epochs 2, 3, 4, 5) and never was"
        )
        assert verdict.evidence[-1] == last
        for epoch in range(6, 8):
            tape.fault(f"kill-{epoch}", "worker-n1")
        assert RECOVER.check(tape.history).outcome is Outcome.FAIL, "what came before new faults was a loop by itself"

    def test_a_group_that_is_formed_at_the_third_attempt_is_none(self) -> None:
        tape = running()
        tape.fault("network.blackhole", "agent-n1")
        for epoch in (2, 3):
            tape.add("group.forming", "coordinator-0", epoch=epoch, world=4)
        tape.reform(4, 4, 1, 20).train(21, 60, epoch=4).done(60)
        assert RECOVER.check(tape.history).outcome is Outcome.PASS

    def test_re_formations_that_new_faults_explain_are_no_loop(self) -> None:
        tape = running()
        for epoch in range(2, 8):
            tape.fault(f"kill-{epoch}", "worker-n1")
            tape.detect("worker-n1")
            tape.reform(epoch, 4, 1, 20)
        tape.train(21, 60, epoch=7).done(60)
        assert RECOVER.check(tape.history).outcome is Outcome.PASS

    def test_a_record_that_ends_early_is_unknown(self) -> None:
        tape = running()
        tape.fault("process.kill", "worker-n1")
        assert RECOVER.check(tape.wait(1).train(0, -1).history).outcome is Outcome.UNKNOWN

    def test_a_run_without_a_fault_has_nothing_to_recover_from(self) -> None:
        assert RECOVER.check(running().done(30).history).outcome is Outcome.UNKNOWN


def test_a_fault_that_lands_when_the_job_is_over_shows_nothing() -> None:
    tape = running(60)
    tape.add("job.completed", "coordinator-0", step=60)
    tape.fault("process.kill", "worker-n1")
    tape.wait(20).add("target.finished", code=0, member="coordinator-0")
    for invariant in (DETECT, RECOVER):
        verdict = invariant.check(tape.history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "the job was over when process.kill landed" in verdict.reason
