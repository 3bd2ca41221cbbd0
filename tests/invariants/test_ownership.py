"""T9 and T12: who may write, and who may live on."""

from __future__ import annotations

from typing import Any

from judge.histories import Tape, killed_and_restarted

from chaos.invariants.fenced_writer import FencedWriter
from chaos.invariants.no_orphan import NoOrphan
from chaos.verdict import Outcome

FENCE, ORPHAN = FencedWriter(), NoOrphan()


class TestFencedWriter:
    def write(self, tape: Tape, kind: str, token: int, highest: int | None = 2, **more: Any) -> int:
        facts: dict[str, Any] = {
            "resource": "generation/3/commit",
            "op": "generation.commit",
            "token": token,
            "member": "coordinator-0",
        }
        return tape.add(kind, "store", **facts | ({"highest": highest} if highest else {}) | more)

    def test_a_stale_write_that_is_refused_passes(self) -> None:
        tape = killed_and_restarted()
        seq = self.write(tape, "write.rejected", 1, reason="stale-epoch")
        verdict = FENCE.check(tape.history)
        assert verdict.outcome is Outcome.PASS
        assert "1 stale write and" in verdict.reason
        assert seq in verdict.evidence

    def test_a_refused_write_that_does_not_tell_how_old_it_was_proves_no_fence(self) -> None:
        tape = killed_and_restarted()
        self.write(tape, "write.rejected", 1, highest=None, reason="stale-epoch")
        verdict = FENCE.check(tape.history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "nobody with an old epoch tried to write" in verdict.reason

    def test_a_stale_write_that_is_accepted_fails(self) -> None:
        tape = killed_and_restarted()
        seq = self.write(tape, "write.accepted", 1)
        verdict = FENCE.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "coordinator-0 wrote generation/3/commit with the token of epoch 1 though epoch 2" in verdict.reason
        assert seq in verdict.evidence

    def test_a_store_that_forgot_its_highest_epoch_is_found_by_what_was_issued(self) -> None:
        for highest in (1, None):
            tape = killed_and_restarted().wait(1.0)
            self.write(tape, "write.accepted", 1, highest=highest)
            assert FENCE.check(tape.history).outcome is Outcome.FAIL

    def test_an_epoch_that_a_store_forgot_and_issued_again_fails(self) -> None:
        tape = Tape()
        first = tape.add("epoch.issued", "store", epoch=2, holder="coordinator-0", reason="worker lost")
        self.write(tape, "write.accepted", 2)
        again = tape.add("epoch.issued", "store", epoch=2, holder="coordinator-1", reason="acquired")
        verdict = FENCE.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "epoch 2 was issued to coordinator-1 although epoch 2 had been issued to coordinator-0" in verdict.reason
        assert verdict.evidence == (first, again)

    def test_a_write_checked_just_before_the_epoch_was_issued_is_no_stale_write(self) -> None:
        tape = killed_and_restarted()
        tape.add("epoch.issued", "store", epoch=3, holder="x", reason="")
        self.write(tape, "write.accepted", 2, highest=2)
        self.write(tape, "write.rejected", 2, highest=3, reason="stale-epoch")
        assert FENCE.check(tape.history).outcome is Outcome.PASS

    def test_commits_without_an_accepted_write_leave_the_fence_unknown(self) -> None:
        tape = killed_and_restarted().drop(lambda e: e.kind == "write.accepted")
        self.write(tape, "write.rejected", 1, reason="stale-epoch")
        assert FENCE.check(tape.history).outcome is Outcome.UNKNOWN

    def test_a_refusal_of_the_newest_epoch_is_no_proof_of_a_fence(self) -> None:
        tape = killed_and_restarted()
        self.write(tape, "write.rejected", 2, highest=2, reason="stale-epoch")
        assert FENCE.check(tape.history).outcome is Outcome.UNKNOWN

    def test_a_write_without_a_token_fails(self) -> None:
        tape = killed_and_restarted()
        tape.add("write.accepted", "store", resource="x", op="put", member="m")
        assert "without any token" in FENCE.check(tape.history).reason

    def test_an_epoch_that_nobody_issued_fails(self) -> None:
        tape = killed_and_restarted()
        late = self.write(tape, "write.accepted", 9, highest=9)
        verdict = FENCE.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "under epoch 9, which nobody had issued" in verdict.reason
        assert late in verdict.evidence
        tape = killed_and_restarted().drop(lambda e: e.kind == "epoch.issued" and e.get("epoch") == 2)
        assert FENCE.check(tape.history).outcome is Outcome.FAIL

    def test_without_an_epoch_that_was_issued_or_known_nothing_can_be_held_against_a_token(self) -> None:
        tape = killed_and_restarted().drop(lambda e: e.kind in ("epoch.issued", "write.accepted"))
        self.write(tape, "write.accepted", 2, highest=None)
        self.write(tape, "write.rejected", 1, reason="stale-epoch")
        verdict = FENCE.check(tape.history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "nobody tells which epochs were issued" in verdict.reason

    def test_without_a_stale_write_the_fence_was_not_tested(self) -> None:
        tape = killed_and_restarted()
        assert FENCE.check(tape.history).outcome is Outcome.UNKNOWN
        assert FencedWriter(attempt="optional").check(tape.history).outcome is Outcome.PASS

    def test_a_refused_heartbeat_is_enough_only_where_any_attempt_is(self) -> None:
        tape = killed_and_restarted()
        tape.add("epoch.rejected", "store", member="worker-n1", token=1, highest=2, what="heartbeat")
        verdict = FENCE.check(tape.history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "1 stale join or heartbeat was refused" in verdict.reason
        assert FencedWriter(attempt="any").check(tape.history).outcome is Outcome.PASS

    def test_a_write_refused_for_its_digest_is_no_stale_write(self) -> None:
        tape = killed_and_restarted()
        self.write(tape, "write.rejected", 2, reason="digest")
        assert FENCE.check(tape.history).outcome is Outcome.UNKNOWN

    def test_an_epoch_that_is_not_raised_fails(self) -> None:
        tape = Tape().start().train(1, 5)
        formed = tape.form(1, 4)
        verdict = FENCE.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "the epoch was not raised: the group was formed again under epoch 1" in verdict.reason
        assert formed in verdict.evidence

    def test_steps_of_a_superseded_epoch_are_lost_work_and_no_write(self) -> None:
        tape = killed_and_restarted()
        tape.step(31, epoch=1, ranks=[1])
        self.write(tape, "write.rejected", 1, reason="stale-epoch")
        verdict = FENCE.check(tape.history)
        assert verdict.outcome is Outcome.PASS
        assert "1 step of superseded epochs was lost work" in verdict.reason


class TestNoOrphan:
    def agent_dies(self) -> Tape:
        tape = Tape().start().train(1, 3)
        tape.add("member.exited", "agent-n1", member="agent-n1", role="agent", node="n1", rank=None, pid=101, code=-9)
        return tape

    def worker_exits(self, tape: Tape, after: float, pid: int = 201) -> int:
        facts: dict[str, Any] = {"member": "worker-n1", "role": "worker", "node": "n1", "rank": 1, "code": 3}
        return tape.wait(after).add("member.exited", "worker-n1", **facts, pid=pid)

    def test_a_worker_that_goes_a_moment_before_its_agent_s_exit_is_told_did_not_outlive_it(self) -> None:
        for whom, outcome in ((("agent-n1",), Outcome.PASS), (("agent-n1", "worker-n1"), Outcome.UNKNOWN)):
            tape = Tape().start().train(1, 3)
            tape.fault("process.kill-agent", *whom)
            seq = self.worker_exits(tape, 0.001)
            tape.add(
                "member.exited", "agent-n1", member="agent-n1", role="agent", node="n1", rank=None, pid=101, code=-9
            )
            verdict = ORPHAN.check(tape.history)
            assert verdict.outcome is outcome
            if outcome is Outcome.PASS:
                assert verdict.evidence == (seq, seq + 1)
                assert "1 worker had gone when their agents had, up to 0.001 s before" in verdict.reason

    def test_a_worker_that_ends_within_the_lease_passes(self) -> None:
        tape = self.agent_dies()
        seq = self.worker_exits(tape, 1.0)
        verdict = ORPHAN.check(tape.history)
        assert verdict.outcome is Outcome.PASS
        assert "1 worker was gone at most 1.00 s" in verdict.reason
        assert seq in verdict.evidence

    def test_a_worker_that_ends_later_fails(self) -> None:
        tape = self.agent_dies()
        self.worker_exits(tape, 4.0)
        verdict = ORPHAN.check(tape.history)
        assert verdict.outcome is Outcome.FAIL
        assert "worker-n1 (rank 1) outlived its agent agent-n1 by 4.0 s; the lease is 3 s" in verdict.reason
        assert NoOrphan(lease=5.0).check(tape.history).outcome is Outcome.PASS

    def test_a_worker_that_never_ends_fails(self) -> None:
        tape = self.agent_dies().wait(10).train(4, 5)
        assert "was never seen to exit" in ORPHAN.check(tape.history).reason

    def test_a_record_that_ends_within_the_lease_is_unknown(self) -> None:
        assert ORPHAN.check(self.agent_dies().wait(1).train(4, 5).history).outcome is Outcome.UNKNOWN

    def test_the_exit_of_another_process_of_that_name_does_not_count(self) -> None:
        tape = self.agent_dies()
        tape.add("member.started", "worker-n1", member="worker-n1", role="worker", node="n1", rank=1, pid=999)
        self.worker_exits(tape, 1.0, pid=999)
        tape.wait(5.0).train(4, 5)
        assert ORPHAN.check(tape.history).outcome is Outcome.FAIL

    def test_agents_that_end_with_the_job_are_not_judged(self) -> None:
        tape = Tape().start().train(1, 3).done(3)
        tape.add("member.exited", "agent-n1", member="agent-n1", role="agent", node="n1", pid=101, code=0)
        verdict = ORPHAN.check(tape.history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert verdict.reason == "no agent died"

    def test_an_agent_that_was_stopped_on_purpose_is_not_judged(self) -> None:
        tape = Tape().start().train(1, 3)
        tape.add(
            "member.exited", "agent-n1", member="agent-n1", role="agent", node="n1", pid=101, code=0, expected=True
        )
        assert ORPHAN.check(tape.history).reason == "no agent died"

    def test_a_worker_that_died_before_its_agent_is_no_orphan(self) -> None:
        tape = Tape().start().train(1, 3)
        self.worker_exits(tape, 0)
        tape.add("member.exited", "agent-n1", member="agent-n1", role="agent", node="n1", rank=None, pid=101, code=-9)
        assert ORPHAN.check(tape.history).reason == "no worker was alive when an agent died"

    def test_a_worker_that_is_heard_of_only_after_its_agent_died_is_judged_too(self) -> None:
        tape = Tape().start()
        tape.add("member.exited", member="agent-n1", role="agent", node="n1", pid=101, code=-9)
        tape.add("member.started", "worker-n1", member="worker-n1", role="worker", node="n1", rank=1, pid=299)
        tape.add("member.exited", member="worker-n1", role="worker", node="n1", rank=1, pid=201, code=70)
        verdict = ORPHAN.check(tape.wait(10).done(5).history)
        assert verdict.outcome is Outcome.FAIL
        assert "worker-n1 (rank 1) outlived its agent agent-n1" in verdict.reason
