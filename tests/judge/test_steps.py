"""The record of the steps against that of the groups."""

from __future__ import annotations

from chaos.judge import judge
from chaos.result import Check
from judge.asked import contract
from judge.histories import Tape, killed_and_restarted


def doubts(tape: Tape) -> list[Check]:
    return [c for c in judge(contract(), tape.history).checks if c.name == "steps on record"]


def test_a_record_at_one_with_itself_is_no_matter() -> None:
    assert not doubts(killed_and_restarted())


def test_a_group_of_which_nobody_tells_is_a_doubt() -> None:
    tape = killed_and_restarted().drop(lambda e: e.kind == "group.formed" and e.get("epoch") == 2)
    (check,) = doubts(tape)
    assert "steps of epoch 2 are on record, and nobody tells that its group was formed" in check.verdict.reason


def test_a_target_that_never_tells_of_groups_is_none() -> None:
    assert not doubts(killed_and_restarted().drop(lambda e: e.kind == "group.formed"))


def test_steps_of_a_larger_group_than_was_formed_are_a_doubt() -> None:
    tape = Tape().start().train(1, 5).train(6, 6, world=3)
    (check,) = doubts(tape)
    assert "rank 0 did step 6 in a group of 3, and that of epoch 1 was formed of 4" in check.verdict.reason


def test_a_job_that_is_done_at_a_step_that_nobody_did_is_a_doubt() -> None:
    (check,) = doubts(Tape().start().train(1, 30).done(60))
    assert "completed at step 60, and the last one on record is 30" in check.verdict.reason
    sparse = Tape().start()
    for step in range(10, 60, 10):  # it tells of every tenth
        sparse.step(step)
    assert not doubts(sparse.done(59))
