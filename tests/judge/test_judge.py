"""From a record to a result: the rows of “When a chaos tool must not turn green” that the judge decides."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest

from chaos.api import Invariant
from chaos.errors import Exit
from chaos.experiment import Budget, Mode, Rpo, Rto
from chaos.history import History
from chaos.invariants.exactly_once_data import ExactlyOnceData
from chaos.judge import Contract, judge
from chaos.judge.contract import Promise
from chaos.result import Kind, Result
from chaos.verdict import Outcome, Verdict, failed, passed
from judge.asked import KILL, check, contract, promise
from judge.histories import Tape, killed_and_restarted


def sample(tape: Tape, *values: Any, **more: Any) -> Tape:
    for value in values:
        tape.wait(0.5).add("probe.sampled", "probe:speed", value=value, **more)
    return tape


def run(before: tuple[Any, ...], during: tuple[Any, ...] = (), after: tuple[Any, ...] = ()) -> Tape:
    """A kill that needed no recovery, with samples around it."""
    tape = sample(Tape().start().train(1, 5), *before)
    tape.fault("process.kill", "coordinator-1")
    sample(tape, *during).train(6, 10)
    return sample(tape, *after).done(10)


def speed(tape: Tape, asked: Promise) -> Verdict:
    return check(judge(contract(asked), tape.history), "speed").verdict


class TestHypotheses:
    GOOD = (100.0,) * 4

    def test_a_steady_state_before_and_after_passes(self) -> None:
        assert speed(run(self.GOOD, (0.0,), self.GOOD), promise()).outcome is Outcome.PASS

    def test_false_before_the_method_is_inconclusive(self) -> None:
        verdict = speed(run((10.0,) * 4, (), self.GOOD), promise())
        assert verdict.outcome is Outcome.UNKNOWN
        assert verdict.reason.startswith("baseline not met")

    def test_a_missed_baseline_is_inconclusive_whatever_the_samples_say(self) -> None:
        tape = sample(Tape().start(), *self.GOOD)
        tape.add("baseline.missed", speed="raised ValueError")
        tape.add("run.ended", reason="finished")
        result = judge(contract(promise()), tape.history)
        assert "raised ValueError" in check(result, "speed").verdict.reason
        assert result.exit is Exit.INCONCLUSIVE

    def test_not_met_after_the_fault_fails_and_shows_the_samples(self) -> None:
        verdict = speed(run(self.GOOD, (), (100.0, 20.0, 20.0, 20.0)), promise())
        assert verdict.outcome is Outcome.FAIL
        assert len(verdict.evidence) == 3

    def test_a_steady_state_that_comes_back_just_before_the_end_is_unknown(self) -> None:
        verdict = speed(run(self.GOOD, (), (20.0, 20.0, 20.0, 100.0, 100.0)), promise())
        assert verdict.outcome is Outcome.UNKNOWN
        assert "met at the end, but not for 3 samples in a row" in verdict.reason

    def test_a_target_that_collapses_soon_after_its_recovery_fails(self) -> None:
        assert speed(run(self.GOOD, (), (*self.GOOD, *(10.0,) * 5)), promise()).outcome is Outcome.FAIL

    def test_a_checkpoint_at_the_end_of_the_job_is_no_collapse(self) -> None:
        assert speed(run(self.GOOD, (), (*self.GOOD, 20.0, 20.0, 20.0)), promise()).outcome is Outcome.PASS

    def test_one_dent_after_the_recovery_is_no_failure(self) -> None:
        assert speed(run(self.GOOD, (), (*self.GOOD, 40.0, *self.GOOD)), promise()).outcome is Outcome.PASS

    def test_no_samples_after_the_fault_are_unknown(self) -> None:
        assert speed(run(self.GOOD, (), ()), promise()).outcome is Outcome.UNKNOWN

    def test_a_continuous_probe_that_deviates_for_a_while_fails_even_if_it_recovers(self) -> None:
        tape = run(self.GOOD, (20.0, 20.0, 20.0), self.GOOD)
        verdict = speed(tape, promise(Mode.CONTINUOUS))
        assert verdict.outcome is Outcome.FAIL
        assert "3 of 11 samples" in verdict.reason
        assert speed(tape, promise(Mode.EDGE)).outcome is Outcome.PASS

    def test_continuous_begins_when_the_steady_state_was_met_and_ends_with_the_job(self) -> None:
        tape = sample(Tape(), 0.0, 0.0)
        tape.start().train(1, 5)
        sample(tape, *self.GOOD)
        tape.add("job.completed", "coordinator-0", step=5, loss=1.0)
        sample(tape, 0.0).add("run.ended", reason="finished")
        assert speed(tape, promise(Mode.CONTINUOUS)).outcome is Outcome.PASS

    @pytest.mark.parametrize("late", [False, True])
    def test_continuous_needs_somebody_who_looks_all_the_time(self, late: bool) -> None:
        tape = sample(Tape().start().train(1, 5), *self.GOOD)
        tape.fault("process.kill", "coordinator-1")
        if late:  # to the end of the run
            sample(tape, *self.GOOD).wait(8.0)
        else:
            sample(tape.wait(8.0), *self.GOOD)
        verdict = speed(tape.done(10), promise(Mode.CONTINUOUS))
        assert verdict.outcome is Outcome.UNKNOWN
        assert "no sample was taken for 8." in verdict.reason

    @pytest.mark.parametrize("nothing", [None, float("nan"), float("inf")])
    def test_a_sample_without_data_never_passes(self, nothing: float | None) -> None:
        assert speed(run(self.GOOD, (nothing,), self.GOOD), promise(Mode.CONTINUOUS)).outcome is Outcome.UNKNOWN
        assert speed(run(self.GOOD, (), (nothing,) * 4), promise()).outcome is Outcome.UNKNOWN
        assert speed(run((nothing,) * 4, (), self.GOOD), promise()).outcome is Outcome.UNKNOWN

    def test_a_late_or_broken_sample_never_passes(self) -> None:
        for more in ({"late": True}, {"error": "TimeoutError"}):
            tape = sample(Tape().start().train(1, 5), *self.GOOD)
            sample(tape, 100.0, **more).done(5)
            assert speed(tape, promise(Mode.CONTINUOUS)).outcome is Outcome.UNKNOWN

    def test_a_probe_that_took_no_sample_is_unknown(self) -> None:
        assert speed(killed_and_restarted(), promise()).reason == "the probe took no sample"

    def test_during_judges_the_samples_while_a_fault_stands(self) -> None:
        for inside, outcome in ((100.0, Outcome.PASS), (20.0, Outcome.FAIL)):
            tape = sample(Tape().start().train(1, 5), 20.0)
            tape.fault("process.kill", "worker-n1", instant=False)
            sample(tape, inside, inside).heal("process.kill")
            sample(tape, 20.0).done(5)
            assert speed(tape, promise(Mode.DURING)).outcome is outcome

    @pytest.mark.parametrize("mode", [Mode.CONTINUOUS, Mode.DURING])
    def test_what_held_while_a_fault_stood_that_the_end_of_the_run_cut_short_is_not_known(self, mode: Mode) -> None:
        for hold, outcome in ((5.0, Outcome.UNKNOWN), (2.0, Outcome.PASS), (None, Outcome.PASS)):
            tape = sample(Tape().start().train(1, 5), *self.GOOD)
            tape.fault("process.kill", "worker-n1", instant=False, hold=hold)
            sample(tape, *self.GOOD).add("job.completed", step=5)
            tape.heal("process.kill")
            tape.add("run.ended", reason="finished")
            verdict = speed(tape, promise(mode))
            assert verdict.outcome is outcome
            assert ("was healed after 1.9 s of the 5 s that it was to stand" in verdict.reason) is (hold == 5.0)

    def test_a_fault_that_comes_again_and_again_is_cut_short_only_if_each_time(self) -> None:
        tape = sample(Tape().start().train(1, 5), *self.GOOD)
        for stood in (4, 2):
            tape.fault("process.kill", "worker-n1", instant=False, hold=2.0)
            sample(tape, *(100.0,) * stood).heal("process.kill")
        assert speed(tape.done(5), promise(Mode.DURING)).outcome is Outcome.PASS

    def test_a_bound_of_the_baseline_scales_with_the_samples_before_the_fault(self) -> None:
        asked = promise(of_baseline=True, at_least=0.7)
        assert speed(run(self.GOOD, (), (75.0,) * 4), asked).outcome is Outcome.PASS
        assert speed(run(self.GOOD, (), (65.0,) * 4), asked).outcome is Outcome.FAIL
        assert speed(run((None,) * 4, (), self.GOOD), asked).outcome is Outcome.UNKNOWN

    def test_types_are_compared_as_types(self) -> None:
        asked = promise(equals=1)
        assert speed(run((1,) * 4, (), (1,) * 4), asked).outcome is Outcome.PASS
        assert speed(run((1,) * 4, (), (True,) * 4), asked).outcome is Outcome.FAIL

    def test_before_asks_nothing_about_what_comes_after(self) -> None:
        assert speed(run(self.GOOD, (0.0,), (0.0,) * 4), promise(Mode.BEFORE)).outcome is Outcome.PASS

    def test_a_control_run_is_judged_over_all_of_it(self) -> None:
        tape = sample(Tape().start().train(1, 5), 0.0, *self.GOOD).done(5)
        assert speed(tape, promise()).outcome is Outcome.PASS


class TestBudget:
    def judged(self, tape: Tape, **budget: Any) -> dict[str, Verdict]:
        result = judge(contract(budget=Budget(**budget)), tape.history)
        return {c.name: c.verdict for c in result.of(Kind.BUDGET)}

    def test_what_is_within_the_budget_passes(self) -> None:
        found = self.judged(
            killed_and_restarted(),
            rpo=Rpo(steps=10, samples=120, seconds=2.0),
            rto=Rto(total=2.0, detect=0.5, restart=1.0, load=1.0, warmup=1.0),
        )
        assert {v.outcome for v in found.values()} == {Outcome.PASS}
        assert len(found) == 8

    def test_each_figure_beyond_its_bound_fails(self) -> None:
        found = self.judged(
            killed_and_restarted(),
            rpo=Rpo(steps=9, samples=119, seconds=0.5),
            rto=Rto(total=1.0, detect=0.2, restart=0.3, load=0.1, warmup=0.05),
        )
        assert {v.outcome for v in found.values()} == {Outcome.FAIL}
        assert found["rpo.steps"].reason == "process.kill: 10 steps lost (frontier 30, restored 20), 9 allowed"

    def test_a_negative_loss_is_a_failure(self) -> None:
        tape = Tape().start().train(1, 30)
        tape.fault("process.kill", "worker-n1")
        tape.detect("worker-n1")
        tape.reform(2, 4, 2, 40).train(41, 45, epoch=2).done(45)
        verdict = self.judged(tape, rpo=Rpo(steps=20))["rpo.steps"]
        assert verdict.outcome is Outcome.FAIL
        assert "a loss of -10 steps" in verdict.reason

    def test_an_unknown_loss_is_a_failure(self) -> None:
        tape = Tape().start().train(1, 30)
        tape.fault("process.kill", "worker-n1")
        tape.wait(30).add("target.hung", seconds=30.0, alive=["worker-n0"])
        tape.add("run.ended", reason="hung")
        found = self.judged(tape, rpo=Rpo(steps=20), rto=Rto(total=20.0))
        assert "the loss is unknown" in found["rpo.steps"].reason
        assert "not over in the 30.0 s on record" in found["rto.total"].reason
        assert {v.outcome for v in found.values()} == {Outcome.FAIL}

    def test_a_record_that_was_cut_short_proves_nothing(self) -> None:
        tape = Tape().start().train(1, 30)
        tape.fault("process.kill", "worker-n1")
        tape.wait(1).add("run.interrupted", signal="SIGINT")
        tape.add("run.ended", reason="interrupted")
        found = self.judged(tape, rpo=Rpo(steps=20), rto=Rto(total=20.0))
        assert {v.outcome for v in found.values()} == {Outcome.UNKNOWN}

    @pytest.mark.parametrize(("waited", "outcome"), [(0.1, Outcome.UNKNOWN), (3.0, Outcome.FAIL)])
    def test_a_term_is_counted_from_where_it_begins(self, waited: float, outcome: Outcome) -> None:
        tape = Tape().start().train(1, 20)
        tape.save(1, 20)
        tape.fault("process.kill", "worker-n1")
        tape.wait(5).detect("worker-n1")
        tape.reform(2, 4, 1, 20)
        tape.wait(waited).add("probe.sampled", "probe:x", value=1.0)  # killed here, before the first step
        assert self.judged(tape, rto=Rto(warmup=2.0))["rto.warmup"].outcome is outcome

    def test_no_recovery_to_measure_is_unknown(self) -> None:
        found = self.judged(Tape().start().train(1, 5).done(5), rpo=Rpo(steps=20), rto=Rto(total=20.0))
        assert {v.outcome for v in found.values()} == {Outcome.UNKNOWN}

    def test_a_fault_that_needed_no_recovery_says_so(self) -> None:
        found = self.judged(run(()), rpo=Rpo(steps=0), rto=Rto(total=1.0, detect=1.0))
        assert {v.outcome for v in found.values()} == {Outcome.PASS}
        assert "no recovery was needed" in found["rto.detect"].reason

    def test_work_that_stood_still_unnoticed_for_longer_than_the_budget_fails_although_nothing_was_lost(self) -> None:
        tape = Tape().start().train(1, 5)
        tape.fault("process.kill", "worker-n1", instant=False)
        tape.wait(8).heal("process.kill")
        tape.train(6, 10).done(10)
        found = self.judged(tape, rpo=Rpo(steps=0), rto=Rto(total=20.0, detect=6.0, load=1.0))
        assert found["rto.detect"].outcome is Outcome.FAIL
        assert "work stood still for 8.1" in found["rto.detect"].reason
        assert {found[name].outcome for name in ("rpo.steps", "rto.total", "rto.load")} == {Outcome.PASS}
        assert self.judged(tape, rto=Rto(total=5.0))["rto.total"].outcome is Outcome.FAIL

    def test_planned_growth_must_lose_no_more_than_the_budget(self) -> None:
        tape = Tape().start().train(1, 20)
        tape.save(1, 20)
        tape.train(21, 30).reform(2, 5, 1, 20, was=4, action="grow").train(21, 40, epoch=2, world=5).done(40)
        assert self.judged(tape, rpo=Rpo(steps=5))["rpo.steps"].outcome is Outcome.FAIL


class TestRun:
    def test_the_result_names_what_broke_first_of_all_an_invariant(self) -> None:
        result = judge(
            contract(budget=Budget(rpo=Rpo(steps=1))), killed_and_restarted().history, [("always-broken", Broken())]
        )
        assert result.outcome is Outcome.FAIL
        assert result.exit is Exit.FAIL
        assert result.headline == "always-broken: it is so (and 1 more)"
        assert check(result, "always-broken").id == "X1"

    def test_a_pass_says_what_it_cost(self) -> None:
        result = judge(contract(budget=Budget(rpo=Rpo(steps=20))), killed_and_restarted().history)
        assert result.exit is Exit.PASS
        assert result.headline == "all 5 checks passed; recovered in 1.1 s, 10 steps lost"
        assert result.worst is not None
        assert result.worst.lost_steps == 10

    def test_an_invariant_that_raises_is_unknown_with_its_error(self) -> None:
        result = judge(contract(), killed_and_restarted().history, [("raises", Raises())])
        verdict = check(result, "raises").verdict
        assert verdict.outcome is Outcome.UNKNOWN
        assert "KeyError: 'nothing'" in verdict.reason
        assert result.exit is Exit.INCONCLUSIVE

    @pytest.mark.parametrize("nonsense", [{"step": "7"}, {"step": []}, {"epoch": {}}, {"rank": []}, {"samples": 3}])
    def test_a_record_of_nonsense_is_inconclusive(self, nonsense: dict[str, Any]) -> None:
        tape = killed_and_restarted(resume=lambda rank: nonsense if rank == 2 else {})
        result = judge(contract(budget=Budget(rpo=Rpo(steps=20))), tape.history, [("exactly-once", ExactlyOnceData())])
        assert result.exit in (Exit.INCONCLUSIVE, Exit.FAIL)
        assert msgspec.json.decode(msgspec.json.encode(result), type=Result) == result

    def test_a_vacuous_pass_is_no_pass(self) -> None:
        result = judge(contract(), killed_and_restarted().history, [("vacuous", Vacuous())])
        assert check(result, "vacuous").verdict.outcome is Outcome.UNKNOWN

    def test_a_run_that_asked_nothing_is_inconclusive(self) -> None:
        result = judge(contract(steps=()), Tape().start(steps=5).train(1, 5).done(5).history)
        assert result.outcome is Outcome.UNKNOWN
        assert result.exit is Exit.INCONCLUSIVE
        assert result.headline.startswith("nothing was asked")

    def test_a_fault_that_does_not_matter_to_any_promise_is_inconclusive(self) -> None:
        tape = killed_and_restarted()
        assert judge(contract(ends=False), tape.history).outcome is Outcome.UNKNOWN
        assert judge(contract(), tape.history).outcome is Outcome.PASS  # the job must be done in spite of it

    def test_a_fault_after_the_end_of_the_job_is_inconclusive(self) -> None:
        tape = sample(Tape().start(steps=5).train(1, 5), *(100.0,) * 4)
        tape.add("job.completed", "coordinator-0", step=5)
        tape.fault("process.kill", "worker-n1")
        tape.wait(1).add("target.finished", code=0, member="coordinator-0")
        tape.add("run.ended", reason="finished")
        asked = contract(budget=Budget(rpo=Rpo(steps=0), rto=Rto(total=0.5, load=0.5)))
        result = judge(asked, tape.history)
        assert result.exit is Exit.INCONCLUSIVE
        assert "when the job was over" in check(result, "process.kill").verdict.reason

    @pytest.mark.parametrize(
        ("landed", "endless", "outcome"),
        [(2, True, Outcome.PASS), (0, True, Outcome.UNKNOWN), (2, False, Outcome.UNKNOWN)],
    )
    def test_a_fault_that_is_repeated_to_the_end_may_miss_its_last_turn(
        self, landed: int, endless: bool, outcome: Outcome
    ) -> None:
        tape = Tape().start(steps=20)
        for number in range(landed):
            tape.train(5 * number + 1, 5 * number + 5)
            tape.fault("process.kill", "coordinator-1")
        tape.train(5 * landed + 1, 20)
        tape.add("fault.missed", "fault:process.kill", reason="the run ended before its trigger fired")
        asked = contract(steps=(msgspec.structs.replace(KILL, endless=endless),))
        assert check(judge(asked, tape.done(20).history), "process.kill").verdict.outcome is outcome

    def test_a_failure_that_no_fault_explains_is_not_green(self) -> None:
        tape = Tape().start().train(1, 20)
        tape.save(1, 20)
        tape.train(21, 30)
        tape.add("member.exited", "worker-n1", member="worker-n1", role="worker", node="n1", rank=1, pid=201, code=-11)
        tape.detect("worker-n1")
        tape.reform(2, 4, 1, 20).train(21, 60, epoch=2).done(60)
        result = judge(contract(steps=(), budget=Budget(rpo=Rpo(steps=20))), tape.history)
        assert result.exit is Exit.INCONCLUSIVE
        assert "(epoch 2); the target broke by itself" in check(result, "no other failure").verdict.reason
        assert "no other failure" not in [c.name for c in judge(contract(), killed_and_restarted().history).checks]

    def test_an_abort_condition_that_never_had_data_watched_over_nothing(self) -> None:
        for value, outcome in ((None, Outcome.UNKNOWN), (0.5, Outcome.PASS)):
            tape = killed_and_restarted()
            tape.add("probe.sampled", "probe:host.memory", value=None, error="PermissionError")
            tape.add("probe.sampled", "probe:host.memory", value=value)
            result = judge(contract(), tape.history)
            assert result.outcome is outcome
            assert ("abort host.memory" in [c.name for c in result.checks]) is (value is None)

    def test_a_job_completed_before_its_last_step_fails(self) -> None:
        result = judge(contract(), Tape().start(steps=60).train(1, 5).done(5).history)
        assert check(result, "job done").verdict.reason == "the job was completed at step 5 of 60"

    @pytest.mark.parametrize(
        ("said", "code", "outcome"),
        [
            (True, 1, Outcome.PASS),
            (False, 1, Outcome.FAIL),
            (True, 0, Outcome.FAIL),
            (False, 0, Outcome.FAIL),
            (True, None, Outcome.FAIL),
        ],
    )
    def test_a_job_that_is_to_fail_must_say_so_and_end_with_an_error(
        self, said: bool, code: int | None, outcome: Outcome
    ) -> None:
        tape = Tape().start().train(1, 30)
        tape.fault("process.kill", "worker-n1")
        if said:
            tape.wait(1).add("job.failed", "coordinator-0", reason="3 incarnations without a commit")
        if code is not None:
            tape.add("target.finished", code=code, member="coordinator-0")
        tape.add("run.ended", reason="finished")
        result = judge(contract(job="fails"), tape.history)
        assert check(result, "job fails").verdict.outcome is outcome
        assert "job done" not in [c.name for c in result.checks]

    def test_what_a_member_said_and_nobody_understood_is_missing(self) -> None:
        tape = killed_and_restarted().drop(lambda e: e.kind == "run.ended")
        tape.add("target.malformed", "worker-n1", line="{", reason="no JSON")
        tape.add("run.ended", reason="finished")
        verdict = check(judge(contract(), tape.history), "run complete").verdict
        assert verdict.outcome is Outcome.UNKNOWN
        assert "facts are missing: 1 time a" in verdict.reason

    def test_a_hang_fails(self) -> None:
        tape = Tape().start().train(1, 30)
        tape.fault("process.kill", "worker-n1")
        tape.wait(30).add("target.hung", seconds=30.0, alive=["worker-n0"])
        tape.add("run.ended", reason="hung")
        result = judge(contract(), tape.history)
        assert check(result, "progress").verdict.reason.startswith("hang of survivors")
        assert result.exit is Exit.FAIL

    def test_a_member_that_dies_again_and_again_is_no_hang(self) -> None:
        tape = Tape().start().train(1, 30)
        for _ in range(4):
            tape.add("member.exited", member="worker-n1", code=1)
        tape.wait(30).add("target.hung", seconds=30.0, alive=["supervisor"])
        tape.add("run.ended", reason="hung")
        verdict = check(judge(contract(), tape.history), "progress").verdict
        assert verdict.reason == "restart loop: worker-n1 failed 4 times in a row without a step in between"

    @pytest.mark.parametrize(("signal", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 130)])
    def test_an_interrupted_run_keeps_the_exit_code_of_the_shell(self, signal: str, code: int) -> None:
        tape = Tape().start().train(1, 5)
        tape.add("run.interrupted", signal=signal)
        tape.add("run.ended", reason="interrupted")
        result = judge(contract(), tape.history)
        assert result.exit == code
        assert check(result, "run complete").verdict.outcome is Outcome.UNKNOWN

    @pytest.mark.parametrize(("code", "outcome"), [(0, None), (3, Outcome.FAIL), (-9, Outcome.FAIL)])
    def test_a_target_that_is_not_said_to_end_may_not_end_with_an_error(
        self, code: int, outcome: Outcome | None
    ) -> None:
        tape = killed_and_restarted().drop(lambda e: e.kind in ("target.finished", "run.ended"))
        tape.add("target.finished", code=code, member="worker-n0")
        tape.add("run.ended", reason="finished")
        found = judge(contract(ends=False), tape.history).checks
        assert next((c.verdict.outcome for c in found if c.name == "job done"), None) is outcome

    def test_a_run_without_its_steady_state_says_why_it_was_not_met(self) -> None:
        tape = Tape().start().train(1, 5)
        tape.add("baseline.missed", speed="last value 9, 2 of 3 in a row met the bound")
        tape.add("run.ended", reason="finished", detail="the target finished before its steady state was met")
        result = judge(contract(), tape.history)
        assert result.headline.startswith("run complete: nothing was injected: the target finished before its steady")

    def test_a_limit_makes_the_run_inconclusive(self) -> None:
        tape = killed_and_restarted().drop(lambda e: e.kind == "run.ended")
        tape.add("limit.reached", name="wall", value=60.0)
        tape.add("run.ended", reason="limit")
        result = judge(contract(), tape.history, [("vacuous", Vacuous())])
        assert result.headline.startswith("run complete: ")
        verdict = check(result, "run complete").verdict
        assert verdict.outcome is Outcome.UNKNOWN
        assert "limit.reached wall" in verdict.reason

    def test_a_run_that_was_cut_short_says_why(self) -> None:
        tape = killed_and_restarted().drop(lambda e: e.kind == "run.ended")
        tape.add("run.ended", reason="error", detail="the store did not become ready")
        verdict = check(judge(contract(), tape.history), "run complete").verdict
        assert verdict.reason == "the run was cut short: error: the store did not become ready"

    def test_a_journal_that_ends_before_the_run_is_inconclusive(self) -> None:
        tape = killed_and_restarted().drop(lambda e: e.kind == "run.ended")
        assert judge(contract(), tape.history).exit is Exit.INCONCLUSIVE

    @pytest.mark.parametrize(
        ("events", "outcome"),
        [
            ([("job.completed", {"step": 60}), ("target.finished", {"code": 0})], Outcome.PASS),
            ([("job.completed", {}), ("target.finished", {"code": 0})], Outcome.UNKNOWN),
            ([("target.finished", {"code": 0})], Outcome.FAIL),
            ([("job.failed", {"reason": "too few nodes"}), ("target.finished", {"code": 1})], Outcome.FAIL),
            ([("target.finished", {"code": -9})], Outcome.FAIL),
            ([], Outcome.UNKNOWN),
        ],
    )
    def test_the_target_must_end_with_its_job_done(self, events: list[Any], outcome: Outcome) -> None:
        tape = Tape().start().train(1, 5)
        for kind, facts in events:
            tape.add(kind, **facts)
        tape.add("run.ended", reason="finished")
        assert check(judge(contract(), tape.history), "job done").verdict.outcome is outcome

    def test_a_target_that_does_not_end_is_not_asked_to(self) -> None:
        result = judge(contract(ends=False), killed_and_restarted().history)
        assert "job done" not in [c.name for c in result.checks]

    def test_an_empty_record_is_inconclusive(self) -> None:
        result = judge(contract(promise(), budget=Budget(rpo=Rpo(steps=1), rto=Rto(total=1.0))), History())
        assert result.outcome is Outcome.UNKNOWN

    def test_contract_and_result_survive_the_disk(self) -> None:
        asked = contract(promise(of_baseline=True, at_least=0.7), budget=Budget(rpo=Rpo(steps=20)))
        assert msgspec.json.decode(msgspec.json.encode(asked), type=Contract) == asked
        result = judge(asked, killed_and_restarted().history)
        assert msgspec.json.decode(msgspec.json.encode(result), type=Result) == result

    def test_the_same_record_gives_the_same_result(self) -> None:
        asked = contract(promise(), budget=Budget(rpo=Rpo(steps=20)))
        assert judge(asked, killed_and_restarted().history) == judge(asked, killed_and_restarted().history)


class Broken(Invariant, frozen=True, kw_only=True):
    """Always broken."""

    id: ClassVar[str] = "X1"

    def check(self, history: History) -> Verdict:
        return failed("it is so", (0,))


class Raises(Invariant, frozen=True, kw_only=True):
    """Never gets to an answer."""

    id: ClassVar[str] = "X2"

    def check(self, history: History) -> Verdict:
        raise KeyError("nothing")


class Vacuous(Invariant, frozen=True, kw_only=True):
    """Passes without evidence."""

    id: ClassVar[str] = "X3"

    def check(self, history: History) -> Verdict:
        return passed("nothing was seen", ())
