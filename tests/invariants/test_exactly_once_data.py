"""T8: sample accounting over the lineage that lasted."""

from __future__ import annotations

from typing import Any

from judge.histories import Tape, killed_and_restarted, order, shifted

from chaos.invariants.exactly_once_data import ExactlyOnceData
from chaos.verdict import Outcome, Verdict

ONCE = ExactlyOnceData()


def check(tape: Tape) -> Verdict:
    return ONCE.check(tape.history)


def test_work_that_a_restore_discarded_may_be_done_again() -> None:
    verdict = check(killed_and_restarted())
    assert verdict.outcome is Outcome.PASS
    assert "720 samples of 60 lasting steps" in verdict.reason
    assert "(3 passes ended)" in verdict.reason


def test_samples_that_a_restart_skipped_are_missed_when_the_pass_ends() -> None:
    # The state is that of step 10, but the data went on from step 15.
    tape = Tape().start().train(1, 10)
    tape.save(1, 10)
    tape.train(11, 15).reform(2, 4, 1, 10)
    for step in range(11, 20):
        tape.step(step, epoch=2, tamper=shifted(step + 5))
    verdict = check(tape)
    assert verdict.outcome is Outcome.FAIL
    assert "data epoch 1 began at step 16 though 60 of 240 samples" in verdict.reason


def test_a_cursor_that_starts_at_zero_consumes_samples_twice() -> None:
    tape = Tape().start().train(1, 10)
    tape.save(1, 10)
    tape.reform(2, 4, 1, 10)
    tape.step(11, epoch=2, tamper=shifted(1))
    verdict = check(tape)
    assert verdict.outcome is Outcome.FAIL
    assert "step 11 (epoch 2) consumed samples a second time in data epoch 0" in verdict.reason
    assert "(first in step 1)" in verdict.reason


def test_a_slice_counted_twice_after_a_resize_fails() -> None:
    tape = Tape().start().train(1, 10)
    tape.save(1, 10)
    tape.reform(2, 3, 1, 10, was=4, action="shrink")
    tape.step(11, epoch=2, world=3, tamper=lambda r: {"samples": [*order(11)[1][r::4], order(11)[1][r]]})
    verdict = check(tape)
    assert verdict.outcome is Outcome.FAIL


def test_a_step_of_the_wrong_size_fails() -> None:
    tape = Tape().start().train(1, 5, tamper=lambda r: {"samples": []} if r == 3 else {})
    verdict = check(tape)
    assert verdict.outcome is Outcome.FAIL
    assert "consumed 9 samples instead of the global batch of 12" in verdict.reason


def test_a_step_that_lasted_without_a_rank_fails() -> None:
    tape = Tape().start().train(1, 4)
    tape.step(5, ranks=[0, 1, 3])
    tape.train(6, 8)
    verdict = check(tape)
    assert "step 5 (epoch 1) lasted without the slice of rank 2 of 4" in verdict.reason


def test_the_last_step_on_record_may_be_incomplete() -> None:
    tape = Tape().start().train(1, 4)
    tape.step(5, ranks=[0, 1])
    tape.step(6, ranks=[0])  # a rank may be a step ahead when the record is cut off
    assert check(tape).outcome is Outcome.PASS
    assert check(tape.done(6)).outcome is Outcome.FAIL


def test_a_step_that_nobody_executed_fails() -> None:
    tape = Tape().start().train(1, 4)
    tape.save(1, 6)
    tape.reform(2, 4, 1, 6).train(7, 9, epoch=2)
    verdict = check(tape)
    assert verdict.outcome is Outcome.FAIL
    assert "steps 5–6 left no trace" in verdict.reason


def test_a_data_epoch_that_ends_early_fails() -> None:
    tape = Tape().start().train(1, 15)
    for step in range(16, 19):
        tape.step(step, tamper=shifted(step + 5))
    verdict = check(tape)
    assert verdict.outcome is Outcome.FAIL
    assert "data epoch 1 began at step 16 though 60 of 240 samples" in verdict.reason


def passes_of(dataset: int, batch: int, steps: int, *, label_first: bool, drop: bool = False) -> Tape:
    """A job whose passes do not end at the border of a step."""
    tape = Tape()
    tape.add("job.started", steps=steps, dataset=dataset, batch=batch)
    tape.form(1, 1)
    usable = dataset - dataset % batch if drop else dataset
    for step in range(1, steps + 1):
        at = range((step - 1) * batch, step * batch)
        samples = [(i % usable) * 7 % dataset for i in at]
        label = (at[0] if label_first else at[-1]) // usable
        facts: dict[str, Any] = {"samples": samples, "data_epoch": label, "loss": "1"}
        tape.add("step.completed", "w", step=step, rank=0, world=1, epoch=1, **facts)
    return tape


def test_a_step_may_lie_across_two_passes_whichever_label_it_has() -> None:
    for label_first in (True, False):
        verdict = check(passes_of(100, 12, 50, label_first=label_first))
        assert verdict.outcome is Outcome.PASS, verdict.reason
        assert "(6 passes ended)" in verdict.reason


def test_a_rest_smaller_than_a_batch_may_be_dropped() -> None:
    verdict = check(passes_of(100, 12, 50, label_first=True, drop=True))
    assert verdict.outcome is Outcome.PASS, verdict.reason


def test_a_duplicate_in_the_step_across_two_passes_is_found() -> None:
    tape = passes_of(100, 12, 9, label_first=True)
    crossing = tape.events[-1]
    assert crossing.get("step") == 9
    samples = list(crossing.get("samples"))
    samples[0] = samples[11]
    tape.events[-1] = type(crossing)(
        crossing.seq, crossing.t, crossing.wall, crossing.source, crossing.kind, {**crossing.data, "samples": samples}
    )
    assert check(tape).outcome is Outcome.FAIL


def test_without_the_size_of_the_data_duplicates_within_an_epoch_are_still_found() -> None:
    tape = Tape().start().drop(lambda e: e.kind == "job.started").train(1, 30)
    verdict = check(tape)
    assert verdict.outcome is Outcome.PASS
    assert "gaps were judged by counts only" in verdict.reason
    tape.step(31, tamper=lambda r: {"samples": order(30)[1][r::4], "data_epoch": 1})
    assert check(tape).outcome is Outcome.FAIL


def test_steps_that_name_no_samples_are_unknown() -> None:
    assert check(Tape().start().train(1, 5, tamper=lambda r: {"samples": None})).outcome is Outcome.UNKNOWN


def test_no_step_at_all_is_unknown() -> None:
    assert check(Tape().start()).outcome is Outcome.UNKNOWN


def test_a_job_that_says_it_went_further_than_its_steps_fails() -> None:
    verdict = check(Tape().start().train(1, 57).done(60))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason == "the job was completed at step 60, but step 57 is the last that left a trace"


def test_a_step_done_twice_by_a_rank_of_one_group_fails() -> None:
    tape = Tape().start().train(1, 5)
    tape.step(5, ranks=[2], tamper=shifted(6))
    tape.train(6, 10)
    verdict = check(tape)
    assert verdict.outcome is Outcome.FAIL
    assert "step 5 (epoch 1) was done twice by rank 2" in verdict.reason


def test_a_step_whose_ranks_all_name_no_sample_fails_where_others_do() -> None:
    tape = Tape().start().train(1, 5).train(6, 6, tamper=lambda r: {"samples": []}).train(7, 9)
    verdict = check(tape)
    assert verdict.outcome is Outcome.FAIL
    assert "consumed 0 samples instead of the global batch of 12" in verdict.reason


def test_a_rank_that_the_group_does_not_have_stands_in_for_nobody() -> None:
    tape = Tape().start().train(1, 4)
    tape.step(5, ranks=[0, 1, 2], tamper=lambda r: {"samples": order(5)[1][r::3]})
    tape.add("step.completed", "worker-n9", step=5, rank=9, world=4, epoch=1, loss="1", samples=[], data_epoch=0)
    verdict = check(tape.train(6, 8))
    assert "step 5 (epoch 1) lasted without the slice of rank 3 of 4" in verdict.reason
