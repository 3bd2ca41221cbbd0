"""T7: what comes back, and whether the resumed run equals the uninterrupted one."""

from __future__ import annotations

from typing import Any

import pytest
from judge.histories import Tamper, Tape, killed_and_restarted

from chaos.invariants.state_complete import StateComplete
from chaos.verdict import Outcome, Verdict

STATE = StateComplete()


def loaded(**parts: Any) -> Verdict:
    """The verdict when rank 2 holds other digests than were saved."""

    def tamper(rank: int) -> dict[str, Any]:
        right = Tape().state(20, rank)
        return {"state": {k: v for k, v in (right | parts).items() if v is not None}} if rank == 2 else {}

    return STATE.check(killed_and_restarted(load=tamper).history)


def resized(tamper: Any = None) -> Tape:
    """Node n3 is lost at step 30; three ranks go on from generation 1 to step 40, then grow back to four."""
    tape = Tape().start().train(1, 20)
    tape.save(1, 20)
    tape.train(21, 30)
    tape.fault("process.kill", "agent-n3", "worker-n3")
    tape.detect("agent-n3")
    tape.reform(2, 3, 1, 20, was=4, action="shrink").train(21, 40, epoch=2, world=3, tamper=tamper or (lambda r: {}))
    tape.save(2, 40, epoch=2, world=3)
    tape.reform(3, 4, 2, 40, was=3, action="grow").train(41, 60, epoch=3)
    tape.save(3, 60, epoch=3)
    return tape.done(60)


def test_a_right_restart_passes_and_says_that_it_was_bit_for_bit() -> None:
    verdict = STATE.check(killed_and_restarted().history)
    assert verdict.outcome is Outcome.PASS
    assert verdict.reason == "4 loads hold the saved state; 10 steps done again equal the first time bit for bit"


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("model", "model"),
        ("optimizer", "optimizer"),
        ("rng", "RNG"),
        ("schedule", "schedule"),
        ("data", "data position"),
    ],
)
@pytest.mark.parametrize("value", ["fresh", None])
def test_a_part_that_did_not_come_back_is_named(part: str, name: str, value: str | None) -> None:
    verdict = loaded(**{part: value})
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith(f"lost: {name}: rank 2 (epoch 2")
    assert len(verdict.evidence) == 2


def test_several_lost_parts_are_all_named() -> None:
    assert loaded(rng="x", schedule="x").reason.startswith("lost: RNG, schedule: ")


def test_an_optimizer_that_came_back_empty_is_named_with_its_entries() -> None:
    verdict = STATE.check(killed_and_restarted(load=lambda rank: {"optimizer_entries": 0}).history)
    assert verdict.outcome is Outcome.FAIL
    assert "lost: optimizer (0 of 30 entries)" in verdict.reason


def test_a_loss_that_differs_in_the_last_digit_fails_at_the_same_world_size() -> None:
    def drift(rank: int) -> dict[str, Any]:
        return {"loss": "0.22727272727272729"}

    verdict = STATE.check(killed_and_restarted(resume=drift).history)
    assert verdict.outcome is Outcome.FAIL
    assert "step 21 done again by rank 0 in epoch 2 differs from epoch 1 at the same world size 4" in verdict.reason


def test_other_samples_at_the_same_world_size_are_a_lost_data_position() -> None:
    verdict = STATE.check(killed_and_restarted(resume=lambda rank: {"samples": [rank]}).history)
    assert verdict.outcome is Outcome.FAIL
    assert "data position (other samples)" in verdict.reason


def test_a_lost_part_and_the_divergence_it_causes_are_told_together() -> None:
    tape = killed_and_restarted(load=lambda rank: {"optimizer_entries": 0}, resume=lambda rank: {"loss": "7"})
    verdict = STATE.check(tape.history)
    assert "lost: optimizer" in verdict.reason
    assert "step 21 done again" in verdict.reason


def test_after_a_resize_the_loss_is_compared_within_a_tolerance_and_it_says_so() -> None:
    tape = resized()
    verdict = STATE.check(tape.history)
    assert verdict.outcome is Outcome.PASS
    assert "10 steps done again on another way (world size, resize, fresh start) had a loss within 5%" in verdict.reason
    assert "not compared bit for bit" in verdict.reason


def test_a_loss_beyond_the_tolerance_is_put_down_to_the_world_size() -> None:
    verdict = STATE.check(resized(lambda rank: {"loss": "3.0"}).history)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith("world size: step 21 done again at world 3")
    assert StateComplete(tolerance=20.0).check(resized(lambda rank: {"loss": "3.0"}).history).outcome is Outcome.PASS


def test_a_loss_that_is_not_a_number_is_never_near() -> None:
    assert STATE.check(resized(lambda rank: {"loss": "nan"}).history).outcome is Outcome.FAIL


def test_the_rng_of_a_resized_group_is_not_compared() -> None:
    assert "7 loads hold the saved state" in STATE.check(resized().history).reason


def test_the_model_is_compared_after_a_resize_too() -> None:
    tape = resized()
    tape.reform(4, 3, 3, 60, was=4, tamper=lambda rank: {"state": {"model": "other"}})
    assert STATE.check(tape.history).reason.startswith("lost: model")


def test_two_resizes_to_one_size_are_not_compared_bit_for_bit() -> None:
    # Each draws other random numbers, so only the tolerance can be asked for.
    tape = Tape().start().train(1, 20)
    tape.save(1, 20)
    tape.train(21, 22)
    losses: dict[int, Tamper] = {2: lambda rank: {"loss": "0.222"}, 3: lambda rank: {"loss": "0.223"}}
    for epoch in (2, 3):
        tape.reform(epoch, 3, 1, 20, was=4, action="shrink")
        tape.train(21, 22, epoch=epoch, world=3, tamper=losses[epoch])
    verdict = STATE.check(tape.history)
    assert verdict.outcome is Outcome.PASS
    assert "bit for bit" in verdict.reason
    assert "6 steps done again on another way" in verdict.reason


def test_a_restart_of_the_resized_group_is_bit_for_bit_again() -> None:
    tape = Tape().start().train(1, 20)
    tape.save(1, 20)
    tape.reform(2, 3, 1, 20, was=4, action="shrink").train(21, 40, epoch=2, world=3)
    tape.save(2, 40, epoch=2, world=3)
    tape.train(41, 43, epoch=2, world=3)
    tape.reform(3, 3, 2, 40).train(41, 43, epoch=3, world=3, tamper=lambda rank: {"loss": "0.1"})
    verdict = STATE.check(tape.history)
    assert verdict.outcome is Outcome.FAIL
    assert "at the same world size 3" in verdict.reason


def test_a_run_without_a_restore_is_unknown() -> None:
    assert STATE.check(Tape().start().train(1, 10).history).outcome is Outcome.UNKNOWN


def test_a_save_that_one_rank_did_not_tell_of_leaves_its_load_unknown() -> None:
    tape = killed_and_restarted().drop(lambda e: e.kind == "checkpoint.saved" and e.get("rank") == 2)
    verdict = STATE.check(tape.history)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "1 load could not be compared" in verdict.reason


def test_a_part_that_is_each_ranks_own_is_compared_though_another_rank_did_not_tell_of_its_save() -> None:
    tape = killed_and_restarted(load=lambda rank: {"state": Tape().state(20, rank) | {"rng": "fresh"}})
    tape.drop(lambda e: e.kind == "checkpoint.saved" and e.get("rank") == 2)
    assert "lost: RNG" in STATE.check(tape.history).reason


def test_a_load_that_tells_no_state_is_not_taken_for_a_complete_one() -> None:
    verdict = STATE.check(killed_and_restarted(load=lambda rank: {"state": {}} if rank == 1 else {}).history)
    assert verdict.outcome is Outcome.UNKNOWN


def test_steps_without_a_loss_are_not_equal_bit_for_bit() -> None:
    tape = killed_and_restarted(resume=lambda rank: {"loss": None})
    tape.drop(lambda e: e.kind.startswith("checkpoint.load"))
    assert "bit for bit" not in STATE.check(tape.history).reason
