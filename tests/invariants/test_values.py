"""T14, T15, and what T7 and T8 say where values are wrong: each side of every promise."""

from __future__ import annotations

from typing import Any

import pytest
from judge.histories import Tape, killed_and_restarted, order

from chaos.invariants.clean_commit import CleanCommit
from chaos.invariants.exactly_once_data import ExactlyOnceData
from chaos.invariants.fitting_answer import FittingAnswer
from chaos.invariants.state_complete import StateComplete
from chaos.verdict import Outcome

CLEAN, FITTING, ONCE, COMPLETE = CleanCommit(), FittingAnswer(), ExactlyOnceData(), StateComplete()


def hit(tape: Tape, site: str, step: int, *, rank: int = 2, epoch: int = 1, **more: Any) -> int:
    where = {"step": step, "rank": rank, "epoch": epoch, "attempt": 0} | more
    return tape.add("hook.hit", f"worker-n{rank}", member=f"worker-n{rank}", site=site, do="flip", where=where)


def only(rank: int, **fields: Any) -> Any:
    return lambda number: fields if number == rank else {}


class TestCleanCommit:
    def test_without_a_commit_there_is_nothing_to_judge(self) -> None:
        assert CLEAN.check(Tape().start().train(1, 5).history).outcome is Outcome.UNKNOWN

    def test_a_right_run_passes(self) -> None:
        assert CLEAN.check(killed_and_restarted().history).outcome is Outcome.PASS

    def test_steps_that_tell_no_loss_are_not_known_to_be_finite(self) -> None:
        tape = Tape().start().train(1, 20, tamper=lambda rank: {"loss": None})
        tape.save(1, 20)
        verdict = CLEAN.check(tape.history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert verdict.reason == "no step tells its loss"

    @pytest.mark.parametrize("loss", ["nan", "NaN", float("inf")])
    def test_a_loss_that_is_no_number_must_not_be_committed(self, loss: Any) -> None:
        tape = Tape().start().train(1, 9)
        tape.step(10, tamper=only(0, loss=loss))
        assert CLEAN.check(tape.history).outcome is Outcome.UNKNOWN
        tape.train(11, 20).save(1, 20)
        verdict = CLEAN.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "the loss of step 10" in verdict.reason

    @pytest.mark.parametrize("site", ["gradient", "activation", "batch", "weight", "moment"])
    def test_a_result_that_was_hit_and_taken_must_not_be_committed(self, site: str) -> None:
        tape = Tape().start().train(1, 9)
        struck = hit(tape, site, 10)
        tape.train(10, 20).save(1, 20)
        verdict = CLEAN.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert struck in verdict.evidence

    def test_a_step_that_was_computed_again_is_clean(self) -> None:
        tape = Tape().start().train(1, 9)
        hit(tape, "gradient", 10)
        tape.step(10, tamper=lambda rank: {"attempt": 1})
        tape.train(11, 20).save(1, 20)
        verdict = CLEAN.check(tape.history)
        assert verdict.outcome is Outcome.PASS
        assert "1 wrong value was kept out" in verdict.reason

    def test_so_is_a_batch_that_was_read_again_or_left_out(self) -> None:
        tape = Tape().start().train(1, 9)
        hit(tape, "batch", 10, read=1)
        tape.step(10, tamper=only(2, read=2))
        hit(tape, "batch", 11, read=1)
        hit(tape, "batch", 11, read=2)
        tape.step(11, tamper=lambda rank: {"loss": None, "quarantined": [rank], "read": 2})
        tape.train(12, 20).save(1, 20)
        assert CLEAN.check(tape.history).outcome is Outcome.PASS

    def test_a_repetition_does_not_help_where_the_state_itself_was_hit(self) -> None:
        tape = Tape().start().train(1, 9)
        hit(tape, "weight", 10)
        tape.step(10, tamper=lambda rank: {"attempt": 1})
        tape.train(11, 20).save(1, 20)
        assert CLEAN.check(tape.history).outcome is Outcome.FAIL

    def test_a_step_that_another_incarnation_did_over_is_clean(self) -> None:
        tape = Tape().start().train(1, 20)
        tape.save(1, 20)
        tape.train(21, 24)
        hit(tape, "weight", 25)
        tape.detect("worker-n2", "corruption")
        tape.reform(2, 4, 1, 20).train(21, 40, epoch=2).save(2, 40, epoch=2)
        assert CLEAN.check(tape.history).outcome is Outcome.PASS

    def test_what_hit_no_step_is_not_judged_here(self) -> None:
        tape = Tape().start().train(1, 20)
        hit(tape, "activation", 20, phase="canary")
        tape.save(1, 20)
        assert CLEAN.check(tape.history).outcome is Outcome.PASS


class TestFittingAnswer:
    def test_without_a_device_a_slow_rank_or_exhausted_memory_there_is_nothing_to_judge(self) -> None:
        assert FITTING.check(killed_and_restarted().history).outcome is Outcome.UNKNOWN

    def named(self, times: int, *, site: str = "gradient", on: int = 2) -> Tape:
        tape = Tape().start().train(1, 9)
        for step in range(10, 10 + times):
            hit(tape, site, step, rank=on)
            tape.detect("worker-n2", "corruption")
            tape.step(step)
        tape.add("device.excluded", "coordinator-0", node="n2", member="worker-n2", epoch=1, steps=[10])
        return tape.train(10 + times, 20)

    def test_a_device_that_was_named_twice_and_hit_is_excluded_with_evidence(self) -> None:
        verdict = FITTING.check(self.named(2).history)
        assert verdict.outcome is Outcome.PASS
        assert "1 device excluded with evidence" in verdict.reason

    def test_once_is_not_enough(self) -> None:
        verdict = FITTING.check(self.named(1).history)
        assert verdict.outcome is Outcome.FAIL
        assert "named only 1 time" in verdict.reason

    @pytest.mark.parametrize("wrong", [{"on": 1}, {"site": "batch"}])
    def test_a_device_that_nothing_was_wrong_with_must_stay(self, wrong: dict[str, Any]) -> None:
        verdict = FITTING.check(self.named(2, **wrong).history)
        assert verdict.outcome is Outcome.FAIL
        assert "nothing was wrong with it" in verdict.reason

    def slow(self, *others: str) -> Tape:
        tape = Tape().start().train(1, 20)
        tape.save(1, 20)
        tape.detect("worker-n2", "straggler")
        for member in others:
            tape.detect(member)
        return tape

    def test_a_slow_rank_that_is_left_alone_passes(self) -> None:
        assert FITTING.check(self.slow().train(21, 40).history).outcome is Outcome.PASS

    def test_a_slow_rank_must_not_be_restarted(self) -> None:
        verdict = FITTING.check(self.slow().reform(2, 4, 1, 20).train(21, 40, epoch=2).history)
        assert verdict.outcome is Outcome.FAIL
        assert "a straggler is no failure" in verdict.reason

    def test_another_failure_beside_it_explains_a_restart(self) -> None:
        assert FITTING.check(self.slow("worker-n1").reform(2, 4, 1, 20).history).outcome is Outcome.PASS

    @pytest.mark.parametrize(("gain", "outcome"), [(9.0, Outcome.PASS), (3.0, Outcome.FAIL)])
    def test_an_eviction_must_pay(self, gain: float, outcome: Outcome) -> None:
        tape = self.slow()
        tape.add("straggler.evicted", "coordinator-0", node="n2", member="worker-n2", gain=gain, cost=5.0)
        assert FITTING.check(tape.reform(2, 3, 1, 20, was=4, action="shrink").history).outcome is outcome

    @pytest.mark.parametrize(("changed", "outcome"), [(True, Outcome.PASS), (False, Outcome.FAIL)])
    def test_memory_that_ran_out_is_not_tried_again_as_it_was(self, changed: bool, outcome: Outcome) -> None:
        tape = Tape().start().train(1, 20)
        tape.save(1, 20)
        tape.detect("worker-n2", "out-of-memory")
        if changed:
            tape.add("memory.reconfigured", "coordinator-0", micro_batch=2)
        assert FITTING.check(tape.reform(2, 4, 1, 20).history).outcome is outcome


class TestOthers:
    def test_samples_that_a_step_says_it_left_out_are_not_lost(self) -> None:
        def left_out(rank: int) -> dict[str, Any]:
            return {"loss": None, "samples": [], "quarantined": order(21)[1][rank::4]}

        tape = Tape().start().train(1, 20)
        tape.step(21, tamper=left_out)
        assert ONCE.check(tape.train(22, 30).history).outcome is Outcome.PASS
        silent = Tape().start().train(1, 20)
        silent.step(21, tamper=lambda rank: {"loss": None, "samples": []})
        assert ONCE.check(silent.train(22, 30).history).outcome is Outcome.FAIL

    def poisoned(self, *, rejected: bool) -> Tape:
        tape = Tape().start().train(1, 20)
        tape.save(1, 20)
        tape.train(21, 40).save(2, 40)
        tape.detect("worker-n1")
        tape.reform(2, 4, 2, 40, tamper=lambda rank: {"state": {**tape.state(40, rank), "model": "poisoned"}})
        if rejected:
            tape.add("checkpoint.damaged", "store", generation=2, name="canary", reason="validation")
            tape.reform(3, 4, 1, 20).train(21, 40, epoch=3)
        else:
            tape.train(41, 50, epoch=2)
        return tape

    def test_a_poisoned_restore_must_not_be_trained_on(self) -> None:
        assert COMPLETE.check(self.poisoned(rejected=False).history).outcome is Outcome.FAIL

    def test_one_that_the_target_rejected_before_a_step_is_no_loss(self) -> None:
        assert COMPLETE.check(self.poisoned(rejected=True).history).outcome is Outcome.PASS
