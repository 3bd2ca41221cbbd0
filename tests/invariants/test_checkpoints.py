"""T1, T2, T4: what a commit means, and what retention may do."""

from __future__ import annotations

from judge.histories import Tape, killed_and_restarted

from chaos.invariants.commit_implies_complete import CommitImpliesComplete
from chaos.invariants.last_good_kept import LastGoodKept
from chaos.invariants.no_uncommitted_restore import NoUncommittedRestore
from chaos.verdict import Outcome

COMPLETE, RESTORE, KEPT = CommitImpliesComplete(), NoUncommittedRestore(), LastGoodKept()


def round_until(shards: int) -> Tape:
    tape = Tape().start().begin(1, 20)
    for rank in range(shards):
        tape.write(1, rank)
    return tape


class TestCommitImpliesComplete:
    def test_a_commit_after_all_of_its_shards_passes(self) -> None:
        verdict = COMPLETE.check(killed_and_restarted().history)
        assert verdict.outcome is Outcome.PASS
        assert "3 commits" in verdict.reason

    def test_a_commit_before_its_shards_fails_and_names_them(self) -> None:
        tape = round_until(2)
        commit = tape.commit(1, 20)
        late = tape.write(1, 2) - 1
        tape.write(1, 3)
        verdict = COMPLETE.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "generation 1 (step 20)" in verdict.reason
        assert "shard-2, shard-3, 2 of them written later" in verdict.reason
        assert {commit, late} <= set(verdict.evidence)

    def test_a_shard_that_never_came_fails(self) -> None:
        tape = round_until(3)
        tape.commit(1, 20)
        assert "shard-3, never written" in COMPLETE.check(tape.history).reason

    def test_a_commit_that_names_no_shard_of_a_rank_fails(self) -> None:
        tape = round_until(4)
        tape.commit(1, 20, shards=["shard-0", "shard-1", "shard-3"])
        verdict = COMPLETE.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "without a shard of rank 2 of 4" in verdict.reason

    def test_two_commits_of_one_generation_must_be_the_same(self) -> None:
        tape = round_until(4)
        tape.commit(1, 20)
        tape.commit(1, 20)
        assert COMPLETE.check(tape.history).outcome is Outcome.PASS
        again = tape.commit(1, 20, digest="other")
        verdict = COMPLETE.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "generation 1 was committed twice with a different digest" in verdict.reason
        assert again in verdict.evidence

    def test_a_commit_that_names_nothing_fails(self) -> None:
        tape = round_until(4)
        tape.commit(1, 20, shards=[])
        assert "names no shard" in COMPLETE.check(tape.history).reason

    def test_shards_of_an_aborted_try_do_not_count_for_the_next(self) -> None:
        tape = round_until(4)
        tape.add("checkpoint.aborted", "store", generation=1, reason="")
        tape.begin(1, 20)
        tape.write(1, 0)
        tape.commit(1, 20)
        verdict = COMPLETE.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "3 of 4 shards" in verdict.reason

    def test_an_abort_that_is_recorded_late_takes_nothing_from_the_next_try(self) -> None:
        tape = Tape().start()
        happened = tape.t
        tape.wait(0.01).begin(1, 20)
        for rank in range(4):
            tape.write(1, rank)
        tape.add("checkpoint.aborted", "coordinator-0", at=happened, generation=1, reason="")
        tape.commit(1, 20)
        assert COMPLETE.check(tape.history).outcome is Outcome.PASS

    def test_a_digest_in_the_commit_that_was_not_written_fails(self) -> None:
        tape = round_until(4)
        named = [{"name": f"shard-{r}", "digest": f"bytes-1-{r}"} for r in range(3)]
        tape.commit(1, 20, shards=[*named, {"name": "shard-3", "digest": "other"}])
        assert "digests" in COMPLETE.check(tape.history).reason

    def test_a_round_without_a_commit_is_unknown(self) -> None:
        assert COMPLETE.check(round_until(4).history).outcome is Outcome.UNKNOWN

    def test_what_a_power_cut_takes_from_a_commit_had_not_been_durable(self) -> None:
        tape = round_until(4)
        commit = tape.commit(1, 20)
        cut = tape.fault("storage.power-cut", "store")
        assert COMPLETE.check(tape.history).outcome is Outcome.PASS
        damage = tape.add("checkpoint.damaged", "store", generation=1, name="shard-2", reason="length")
        verdict = COMPLETE.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "after storage.power-cut its shard-2 was found damaged (length)" in verdict.reason
        assert verdict.evidence == (commit, cut, damage)

    def test_a_torn_write_that_was_committed_had_not_been_durable(self) -> None:
        tape = round_until(4)
        torn = tape.fault("storage.torn-write", "store")
        commit = tape.commit(1, 20)
        damage = tape.add("checkpoint.damaged", "store", generation=1, name="shard-2", reason="format")
        verdict = COMPLETE.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert verdict.evidence == (torn, commit, damage)

    def test_what_was_committed_after_a_failed_sync_and_is_gone_had_not_been_durable(self) -> None:
        tape = round_until(4)
        failed = tape.fault("storage.failed-fsync", "store")
        commit = tape.commit(1, 20)
        damage = tape.add("checkpoint.damaged", "store", generation=1, name="shard-2", reason="length")
        verdict = COMPLETE.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert verdict.evidence == (failed, commit, damage)

    def test_a_sync_that_fails_after_the_commit_breaks_no_promise(self) -> None:
        tape = round_until(4)
        tape.commit(1, 20)
        tape.fault("storage.failed-fsync", "store")
        tape.add("checkpoint.damaged", "store", generation=1, name="shard-2", reason="length")
        assert COMPLETE.check(tape.history).outcome is Outcome.PASS

    def test_damage_by_another_fault_or_before_the_power_went_is_no_broken_promise(self) -> None:
        tape = round_until(4)
        tape.commit(1, 20)
        tape.fault("checkpoint.corrupt")
        tape.fault("storage.power-cut", "store")
        tape.add("checkpoint.damaged", "store", generation=1, name="shard-2", reason="digest")
        assert COMPLETE.check(tape.history).outcome is Outcome.PASS
        tape = round_until(4)
        tape.commit(1, 20)
        tape.add("checkpoint.damaged", "store", generation=1, name="shard-2", reason="digest")
        tape.fault("storage.power-cut", "store")
        assert COMPLETE.check(tape.history).outcome is Outcome.PASS


class TestNoUncommittedRestore:
    def test_loads_of_committed_generations_pass(self) -> None:
        assert RESTORE.check(killed_and_restarted().history).outcome is Outcome.PASS

    def test_a_load_of_a_generation_that_was_never_committed_fails(self) -> None:
        tape = round_until(4)
        tape.reform(2, 4, 1, 20)
        verdict = RESTORE.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "generation 1, which was never committed (epoch 2)" in verdict.reason

    def test_to_begin_to_load_it_is_enough(self) -> None:
        tape = round_until(4)
        seq = tape.add("checkpoint.loading", "worker-n2", generation=1, rank=2, epoch=2)
        verdict = RESTORE.check(tape.history)
        assert verdict.reason.startswith("rank 2 began to load")
        assert verdict.evidence == (seq,)

    def test_a_commit_that_comes_after_the_load_fails(self) -> None:
        tape = round_until(4)
        tape.load(1, 20, epoch=2)
        commit = tape.commit(1, 20)
        verdict = RESTORE.check(tape.history)
        assert "committed only later" in verdict.reason
        assert commit in verdict.evidence

    def test_a_commit_that_happened_before_but_was_recorded_after_passes(self) -> None:
        tape = round_until(4)
        happened = tape.t
        tape.wait(0.1).load(1, 20, epoch=2)
        tape.add("checkpoint.committed", "store", at=happened, generation=1, step=20, shards=tape.shards(4))
        assert RESTORE.check(tape.history).outcome is Outcome.PASS

    def test_a_removed_generation_is_not_committed_any_more(self) -> None:
        tape = Tape().start()
        tape.save(1, 20)
        tape.add("checkpoint.removed", "store", generation=1)
        tape.reform(2, 4, 1, 20)
        assert "which had been removed" in RESTORE.check(tape.history).reason

    def test_a_fresh_start_is_no_restore(self) -> None:
        assert RESTORE.check(Tape().start().train(1, 5).history).outcome is Outcome.UNKNOWN


class TestLastGoodKept:
    def kept(self, *generations: int) -> Tape:
        tape = Tape().start()
        for generation in generations:
            tape.save(generation, 20 * generation)
        return tape

    def remove(self, tape: Tape, generation: int) -> int:
        return tape.add("checkpoint.removed", "store", generation=generation)

    def test_to_remove_old_generations_passes(self) -> None:
        tape = self.kept(1, 2, 3)
        self.remove(tape, 1)
        self.remove(tape, 2)
        assert KEPT.check(tape.history).outcome is Outcome.PASS

    def test_to_remove_the_newest_fails_even_with_others_left(self) -> None:
        tape = self.kept(1, 2)
        seq = self.remove(tape, 2)
        verdict = KEPT.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "generation 1 is the newest left" in verdict.reason
        assert seq in verdict.evidence

    def test_to_remove_the_last_one_fails(self) -> None:
        tape = self.kept(1)
        self.remove(tape, 1)
        assert "none is left" in KEPT.check(tape.history).reason

    def test_the_newest_good_one_counts_not_the_newest(self) -> None:
        tape = self.kept(1, 2)
        tape.add("checkpoint.damaged", "store", generation=2, name="shard-0", reason="digest")
        assert KEPT.check(tape.history).outcome is Outcome.PASS
        self.remove(tape, 1)
        verdict = KEPT.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "newest good generation, 1" in verdict.reason

    def test_an_uncommitted_generation_may_be_removed(self) -> None:
        tape = self.kept(1).begin(2, 40)
        self.remove(tape, 2)
        assert KEPT.check(tape.history).outcome is Outcome.PASS

    def test_damage_to_the_only_generation_that_ever_was_is_unknown(self) -> None:
        tape = self.kept(1)
        tape.add("checkpoint.damaged", "store", generation=1, name="shard-0", reason="digest")
        assert KEPT.check(tape.history).outcome is Outcome.UNKNOWN

    def test_damage_that_leaves_none_because_retention_kept_one_fails(self) -> None:
        tape = self.kept(1, 2)
        self.remove(tape, 1)
        tape.add("checkpoint.damaged", "store", generation=2, name="shard-0", reason="digest")
        verdict = KEPT.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "retention had removed generation 1" in verdict.reason

    def test_without_a_commit_nothing_can_be_kept(self) -> None:
        assert KEPT.check(Tape().start().history).outcome is Outcome.UNKNOWN
