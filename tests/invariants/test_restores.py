"""T3, T5, T6, T13: what a group restores."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from judge.histories import Tape, killed_and_restarted

from chaos.history import Event
from chaos.invariants.content_integrity import ContentIntegrity
from chaos.invariants.newest_good_restored import NewestGoodRestored
from chaos.invariants.one_generation import OneGeneration
from chaos.invariants.rank_agreement import RankAgreement
from chaos.verdict import Outcome

ONE, NEWEST, CONTENT, AGREE = OneGeneration(), NewestGoodRestored(), ContentIntegrity(), RankAgreement()


def two_generations() -> Tape:
    tape = Tape().start().train(1, 20)
    tape.save(1, 20)
    tape.train(21, 40)
    tape.save(2, 40)
    return tape.train(41, 45)


def rank_three(**fields: Any) -> Any:
    return lambda rank: fields if rank == 3 else {}


@pytest.mark.parametrize("invariant", [ONE, NEWEST, CONTENT, AGREE])
def test_a_right_restart_passes(invariant: Any) -> None:
    verdict = invariant.check(killed_and_restarted().history)
    assert verdict.outcome is Outcome.PASS
    assert verdict.evidence


@pytest.mark.parametrize("invariant", [ONE, NEWEST, CONTENT])
def test_without_a_restore_there_is_nothing_to_judge(invariant: Any) -> None:
    assert invariant.check(Tape().start().train(1, 5).history).outcome is Outcome.UNKNOWN


class TestOneGeneration:
    def test_ranks_that_restore_different_generations_and_go_on_fail(self) -> None:
        tape = two_generations()
        before = tape.count
        tape.reform(2, 4, 2, 40).drop(lambda e: e.source == "worker-n3" and e.seq > before)
        tape.add("checkpoint.loaded", "worker-n3", generation=1, step=20, rank=3, world=4, epoch=2)
        tape.step(41, epoch=2)
        verdict = ONE.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "ranks [3] generation 1 (step 20)" in verdict.reason

    def test_ranks_that_disagree_and_refuse_to_go_on_pass(self) -> None:
        tape = two_generations()
        tape.reform(2, 4, 2, 40, tamper=rank_three(generation=1, step=20))
        tape.drop(lambda e: e.kind == "checkpoint.shard_read" and e.source == "worker-n3")
        tape.reform(3, 4, 1, 20).step(21, epoch=3)
        assert ONE.check(tape.history).outcome is Outcome.PASS

    def test_bytes_of_another_generation_fail(self) -> None:
        tape = two_generations()
        tape.add("checkpoint.loading", "worker-n0", generation=2, rank=0, epoch=2)
        read = tape.add("checkpoint.shard_read", "worker-n0", generation=1, name="shard-0", bytes=9, digest="bytes-1-0")
        tape.add("checkpoint.loaded", "worker-n0", generation=2, step=40, rank=0, epoch=2)
        verdict = ONE.check(tape.history)
        assert "with bytes of generation 1 (shard-0)" in verdict.reason
        assert read in verdict.evidence

    def test_ranks_with_different_models_of_one_generation_fail(self) -> None:
        tape = two_generations().reform(2, 4, 2, 40, tamper=rank_three(state={"model": "other"}))
        tape.step(41, epoch=2)
        assert "2 different models" in ONE.check(tape.history).reason

    def test_a_rank_that_went_on_without_saying_what_it_restored_leaves_it_open(self) -> None:
        tape = two_generations().reform(2, 4, 2, 40)
        tape.drop(lambda e: e.source == "worker-n3" and e.kind.startswith("checkpoint.load"))
        tape.step(41, epoch=2)
        verdict = ONE.check(tape.history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "rank 3 (epoch 2)" in verdict.reason

    def test_a_second_round_one_generation_further_back_passes(self) -> None:
        tape = two_generations().reform(2, 4, 2, 40)
        tape.load(1, 20, epoch=2).step(21, epoch=2)
        assert ONE.check(tape.history).outcome is Outcome.PASS

    def test_incarnations_that_share_an_epoch_are_not_mixed_up(self) -> None:
        tape = two_generations().reform(2, 4, 2, 40)
        tape.form(2, 3, 1, 20)
        tape.load(1, 20, epoch=2, world=3, was=4).step(21, epoch=2, world=3)
        assert ONE.check(tape.history).outcome is Outcome.PASS


class TestNewestGoodRestored:
    def test_an_older_generation_without_cause_fails(self) -> None:
        verdict = NEWEST.check(two_generations().reform(2, 4, 1, 20).history)
        assert verdict.outcome is Outcome.FAIL
        assert "restored generation 1 (step 20) though generation 2 (step 40)" in verdict.reason
        assert len(verdict.evidence) == 2

    def test_a_silent_start_from_step_0_fails(self) -> None:
        assert "began afresh at step 0" in NEWEST.check(two_generations().reform(2, 4, 0, 0).history).reason

    def test_damage_that_was_reported_before_excuses_an_older_one(self) -> None:
        tape = two_generations().reform(2, 4, 2, 40)
        tape.add("checkpoint.damaged", "store", generation=2, name="shard-0", reason="digest")
        tape.reform(3, 4, 1, 20, action="rollback")
        assert NEWEST.check(tape.history).outcome is Outcome.PASS

    def test_damage_that_is_reported_only_afterwards_does_not(self) -> None:
        tape = two_generations().reform(2, 4, 1, 20)
        tape.add("checkpoint.damaged", "store", generation=2, name="shard-0", reason="digest")
        assert NEWEST.check(tape.history).outcome is Outcome.FAIL

    def test_what_a_rank_says_it_loaded_counts_beside_what_the_group_says(self) -> None:
        tape = two_generations().reform(2, 4, 2, 40, tamper=rank_three(generation=1, step=20))
        verdict = NEWEST.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "rank 3 of epoch 2 restored generation 1" in verdict.reason

    def test_a_second_load_after_damage_was_reported_may_be_older(self) -> None:
        tape = two_generations().reform(2, 4, 2, 40)
        tape.add("checkpoint.damaged", "store", generation=2, name="shard-0", reason="digest")
        assert NEWEST.check(tape.load(1, 20, epoch=2).history).outcome is Outcome.PASS

    def test_a_detected_corruption_excuses_an_older_one(self) -> None:
        tape = two_generations()
        tape.detect("group", "corruption")
        assert NEWEST.check(tape.reform(2, 4, 1, 20, action="rollback").history).outcome is Outcome.PASS

    def test_a_detected_corruption_excuses_no_start_from_nothing(self) -> None:
        tape = two_generations()
        tape.detect("group", "corruption")
        verdict = NEWEST.check(tape.reform(2, 4, 0, 0, action="rollback").history)
        assert "began afresh at step 0 though generation 2" in verdict.reason

    def test_a_commit_while_the_group_is_being_formed_may_be_used_or_not(self) -> None:
        for generation, step in ((2, 40), (3, 60)):
            tape = two_generations()
            tape.add("group.forming", "coordinator-1", epoch=2, world=4)
            tape.commit(3, 60)
            tape.add("group.formed", "coordinator-1", epoch=2, world=4, generation=generation, step=step)
            assert NEWEST.check(tape.history).outcome is Outcome.PASS

    def test_a_generation_at_another_step_than_committed_fails(self) -> None:
        assert "committed at step 40" in NEWEST.check(two_generations().reform(2, 4, 2, 45).history).reason

    def test_before_any_commit_there_is_nothing_to_pick(self) -> None:
        tape = Tape().start().train(1, 5).reform(2, 4, 0, 0)
        assert NEWEST.check(tape.history).outcome is Outcome.UNKNOWN


class TestContentIntegrity:
    def corrupted(self) -> Tape:
        tape = two_generations()
        tape.add("checkpoint.loading", "worker-n0", generation=2, rank=0, epoch=2)
        tape.add("checkpoint.shard_read", "worker-n0", generation=2, name="shard-0", bytes=9, digest="flipped")
        return tape

    def test_flipped_bytes_that_are_loaded_fail(self) -> None:
        tape = self.corrupted()
        loaded = tape.add("checkpoint.loaded", "worker-n0", generation=2, step=40, rank=0, epoch=2)
        verdict = CONTENT.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "rank 0 (epoch 2) loaded generation 2" in verdict.reason
        assert loaded in verdict.evidence

    @pytest.mark.parametrize("kind", ["checkpoint.shard_read", "checkpoint.shard_written"])
    def test_shards_without_digests_prove_nothing_though_as_many_bytes_came_back(self, kind: str) -> None:
        def without(event: Event, name: str) -> Event:
            return msgspec.structs.replace(event, data={k: v for k, v in event.data.items() if k != name})

        tape = killed_and_restarted()
        tape.events = [without(e, "digest") if e.kind == kind else e for e in tape.events]
        assert CONTENT.check(tape.history).outcome is Outcome.PASS  # by the digests of the state
        tape.events = [without(e, "state") if e.kind == "checkpoint.loaded" else e for e in tape.events]
        verdict = CONTENT.check(tape.history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert verdict.reason == "nobody said what was written and what was read"

    def test_flipped_bytes_that_are_refused_pass_and_say_so(self) -> None:
        tape = self.corrupted()
        seq = tape.add("checkpoint.damaged", "store", generation=2, name="shard-0", reason="digest")
        tape.reform(3, 4, 1, 20)
        verdict = CONTENT.check(tape.history)
        assert verdict.outcome is Outcome.PASS
        assert "refused as damaged: generation 2 (shard-0)" in verdict.reason
        assert seq in verdict.evidence

    def test_a_load_begun_anew_forgets_the_bytes_of_the_one_before(self) -> None:
        tape = self.corrupted()
        tape.load(2, 40, epoch=3)
        assert CONTENT.check(tape.history).outcome is Outcome.PASS

    def test_a_truncated_shard_fails(self) -> None:
        tape = two_generations()
        tape.add("checkpoint.loading", "worker-n0", generation=2, rank=0, epoch=2)
        tape.add("checkpoint.shard_read", "worker-n0", generation=2, name="shard-0", bytes=4, digest="bytes-2-0")
        tape.add("checkpoint.loaded", "worker-n0", generation=2, step=40, rank=0, epoch=2)
        assert CONTENT.check(tape.history).outcome is Outcome.FAIL

    def test_bytes_that_were_written_over_a_shard_are_not_what_was_saved(self) -> None:
        tape = two_generations()
        tape.add("checkpoint.shard_written", "store", generation=2, name="shard-0", rank=0, bytes=9, digest="over")
        tape.add("checkpoint.loading", "worker-n0", generation=2, rank=0, epoch=2)
        tape.add("checkpoint.shard_read", "worker-n0", generation=2, name="shard-0", bytes=9, digest="over")
        tape.add("checkpoint.loaded", "worker-n0", generation=2, step=40, rank=0, epoch=2)
        assert CONTENT.check(tape.history).outcome is Outcome.FAIL

    def test_a_shard_that_nobody_wrote_makes_a_load_unknown(self) -> None:
        tape = two_generations()
        tape.load(2, 40, epoch=2)
        tape.add("checkpoint.loading", "worker-n0", generation=2, rank=0, epoch=3)
        for name in ("shard-0", "planted"):
            tape.add("checkpoint.shard_read", "worker-n0", generation=2, name=name, bytes=9, digest="bytes-2-0")
        tape.add("checkpoint.loaded", "worker-n0", generation=2, step=40, rank=0, epoch=3)
        assert CONTENT.check(tape.history).outcome is Outcome.UNKNOWN

    def test_without_reads_the_digests_of_the_state_are_compared(self) -> None:
        for model, outcome in (("model@40", Outcome.PASS), ("other", Outcome.FAIL)):
            tape = two_generations()
            tape.add("checkpoint.loaded", "worker-n0", generation=2, step=40, rank=0, epoch=2, state={"model": model})
            assert CONTENT.check(tape.history).outcome is outcome

    def test_a_load_that_nobody_can_compare_is_unknown(self) -> None:
        tape = Tape().start()
        tape.add("checkpoint.loaded", "worker-n0", generation=2, step=40, rank=0, epoch=2)
        assert CONTENT.check(tape.history).outcome is Outcome.UNKNOWN


class TestRankAgreement:
    def test_ranks_that_see_different_losses_fail(self) -> None:
        tape = Tape().start().train(1, 3, tamper=rank_three(loss="9.0"))
        verdict = AGREE.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "loss of step 1" in verdict.reason

    def test_ranks_with_different_schedules_after_a_load_fail(self) -> None:
        tape = two_generations()
        tape.reform(2, 4, 2, 40, tamper=rank_three(state={"schedule": "stale", "model": "model@40"}))
        assert "different schedule" in AGREE.check(tape.history).reason

    def test_a_loss_that_only_one_rank_tells_is_no_disagreement_and_no_agreement(self) -> None:
        tape = Tape().start().train(1, 3, tamper=lambda rank: {"loss": None} if rank else {})
        assert AGREE.check(tape.history).outcome is Outcome.UNKNOWN

    def test_one_rank_alone_agrees_with_nobody(self) -> None:
        tape = Tape()
        tape.form(1, 1)
        tape.train(1, 3, world=1)
        assert AGREE.check(tape.history).outcome is Outcome.UNKNOWN
