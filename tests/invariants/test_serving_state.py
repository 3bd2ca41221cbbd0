"""S9, S10, S11: which weights answer, streams that go on elsewhere, and quality that goes and comes back."""

from __future__ import annotations

from typing import Any

import pytest
from judge.serving_histories import LIVE, Stack, control, killed_and_back

from chaos.invariants.served_generation import ServedGeneration
from chaos.invariants.steady_degradation import SteadyDegradation
from chaos.invariants.unbroken_stream import UnbrokenStream
from chaos.verdict import Outcome

SERVED, STREAM, STEADY = ServedGeneration(), UnbrokenStream(), SteadyDegradation()


class TestServedGeneration:
    def newer(self) -> Stack:
        """Generation 2 is published, and every replica goes over to it."""
        stack = Stack().open().serve(30)
        stack.publish(2)
        for name in stack.pids:
            stack.ready(name, 2)
        return stack.serve(30, generation=2)

    def test_a_switch_to_a_committed_generation_passes(self) -> None:
        verdict = ServedGeneration(newer="required").check(self.newer().close().history)
        assert verdict.outcome is Outcome.PASS
        assert "60 answers of generations [1, 2]" in verdict.reason

    def test_one_generation_alone_passes_unless_a_newer_one_is_required(self) -> None:
        verdict = SERVED.check(control().history)
        assert verdict.outcome is Outcome.PASS
        assert "nothing could go back" in verdict.reason
        assert ServedGeneration(newer="required").check(control().history).outcome is Outcome.UNKNOWN

    @pytest.mark.parametrize("later", [False, True])
    def test_an_uncommitted_generation_fails(self, later: bool) -> None:
        stack = Stack().open().serve(30)
        stack.serve(9, generation=2).wait(1.0)
        if later:
            stack.publish(2)
        verdict = SERVED.check(stack.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "was answered from generation 2, which was" in verdict.reason

    def test_to_be_ready_with_one_is_enough(self) -> None:
        stack = Stack().open().serve(30)
        stack.ready("replica-1", 2)
        assert "replica-1 was ready with generation 2, which was never" in SERVED.check(stack.close().history).reason

    def test_a_replica_that_comes_back_with_an_older_one_fails(self) -> None:
        stack = self.newer()
        stack.kill("replica-1")
        stack.boot("replica-1", 1)
        verdict = SERVED.check(stack.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "replica-1 went back from generation 2 to 1" in verdict.reason

    @pytest.mark.parametrize(("damaged", "outcome"), [(False, Outcome.FAIL), (True, Outcome.PASS)])
    def test_a_process_starts_with_the_newest_one_that_is_whole(self, damaged: bool, outcome: Outcome) -> None:
        stack = Stack().open().serve(30)
        stack.publish(2)
        stack.kill("replica-1")
        stack.wait(1.0)
        if damaged:
            stack.add("checkpoint.damaged", "replica-1", generation=2, name="replica-1", reason="digest")
        stack.boot("replica-1", 1)
        verdict = SERVED.check(stack.serve(30).close().history)
        assert verdict.outcome is outcome
        assert damaged or "replica-1 started with generation 1, though 2 had been committed" in verdict.reason

    def test_one_that_is_committed_while_it_loads_may_wait(self) -> None:
        stack = Stack().open().serve(30)
        stack.kill("replica-1")
        stack.add("member.started", "replica-1", member="replica-1", role="replica", node="r1", pid=999)
        stack.add("replica.loading", "replica-1", replica="replica-1", generation=1)
        stack.publish(2)
        stack.wait(1.0).add("replica.ready", "replica-1", replica="replica-1", generation=1, digest="m1", address="a")
        assert SERVED.check(stack.serve(30).close().history).outcome is Outcome.PASS

    def test_an_old_answer_of_a_replica_that_was_ready_with_a_newer_one_fails(self) -> None:
        stack = self.newer()
        stack.ask(("replica-1", 200), generation=1)
        verdict = SERVED.check(stack.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "replica-1 answered request" in verdict.reason

    def test_what_began_before_the_switch_may_end_after_it(self) -> None:
        stack = Stack().open().serve(30)
        began = stack.t
        stack.publish(2)
        for name in stack.pids:
            stack.ready(name, 2)
        stack.serve(9, generation=2).stream(("replica-1", 200), began=began, seconds=2.0)
        assert SERVED.check(stack.close().history).outcome is Outcome.PASS

    def test_a_session_stays_with_the_weights_that_it_began_with(self) -> None:
        stack = Stack().open()
        stack.stream(("replica-1", 200))
        stack.publish(2)
        for name in stack.pids:
            stack.ready(name, 2)
        stack.serve(9, generation=2).wait(11).stream(("replica-1", 200), turn=1)
        assert SERVED.check(stack.copy().close().history).outcome is Outcome.PASS
        stack.stream(("replica-1", 200), session="s2")
        assert SERVED.check(stack.close().history).outcome is Outcome.FAIL

    def test_a_stream_that_goes_on_elsewhere_keeps_its_weights(self) -> None:
        stack = Stack().open().serve(9)
        began = stack.t
        stack.publish(2)
        for name in stack.pids:
            stack.ready(name, 2)
        stack.stream(("replica-1", 0), ("replica-2", 200), began=began, seconds=1.0, streamed=9)
        assert SERVED.check(stack.close().history).outcome is Outcome.PASS

    def test_a_replica_that_stays_behind_for_long_fails(self) -> None:
        stack = Stack().open().serve(30)
        stack.publish(2)
        stack.ready("replica-0", 2)
        stack.serve(9, "replica-0", generation=2)
        stack.serve(9, "replica-1")
        assert SERVED.check(stack.copy().close().history).outcome is Outcome.PASS
        stack.wait(11).serve(1, "replica-1")
        verdict = SERVED.check(stack.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "by replica-1 from generation 1" in verdict.reason

    def test_other_weights_under_one_number_fail(self) -> None:
        stack = Stack().open().serve(30)
        stack.ready("replica-1", 1, digest="other")
        verdict = SERVED.check(stack.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "replica-1 serves other weights as generation 1 than were committed" in verdict.reason
        answered = Stack().open().serve(30)
        answered.ask(("replica-2", 200), digest="other")
        assert "replica-2 serves other weights" in SERVED.check(answered.close().history).reason

    def test_answers_without_a_generation_are_unknown(self) -> None:
        stack = Stack().open().serve(9, generation=None)
        assert SERVED.check(stack.close().history).outcome is Outcome.UNKNOWN


class TestUnbrokenStream:
    def moved(self, **more: Any) -> Stack:
        """A stream whose replica dies in its middle."""
        stack = Stack().open().serve(9)
        facts: dict[str, Any] = {"streamed": 9, "resumed": "replica", "gap": 0.4}
        stack.stream(("replica-1", 0), ("replica-2", 200), **facts | more)
        return stack

    def kept(self, **more: Any) -> Stack:
        """One that was kept before, and comes back from there."""
        stack = Stack().open().serve(9)
        stack.add("kv.written", "replica-1", replica="replica-1", session="s1", tokens=40, to="replica-2", token=1,
                  highest=1)  # fmt: skip
        facts: dict[str, Any] = {"session": "s1", "turn": 0, "way": "replica", "recomputed": 0, "computed": 1}
        stack.add("session.resumed", "replica-2", replica="replica-2", seconds=0.02, **facts | more)
        stack.stream(("replica-1", 0), ("replica-2", 200), streamed=9, resumed="replica", gap=0.4)
        return stack

    def test_a_stream_that_never_comes_to_its_end_is_broken(self) -> None:
        stack = self.moved()
        stack.stream(("replica-1", 200), tokens=12, deadline=1.0)
        stack.events.pop()
        verdict = STREAM.check(stack.serve(40).close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "had begun, and never came to its end" in verdict.reason

    def test_a_stream_that_goes_on_elsewhere_passes(self) -> None:
        verdict = STREAM.check(self.moved().close().history)
        assert verdict.outcome is Outcome.PASS
        assert "1 stream went on elsewhere in the middle, after at most 0.40 s" in verdict.reason

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            ({"repeated": [0, 1, 2]}, "repeated the tokens 0, 1, 2"),
            ({"missing": [9]}, "lost the tokens 9"),
            ({"tokens": 20}, "ended after 20 of 24 tokens as if it were whole"),
            ({"gap": 2.5}, "stood still for 2.50 s between two tokens"),
            ({"status": 503, "missing": [3], "tokens": 9}, "lost the tokens 3"),
        ],
    )
    def test_a_token_lost_or_repeated_or_a_long_silence_fails(self, more: dict[str, Any], said: str) -> None:
        verdict = STREAM.check(self.moved(**more).close().history)
        assert verdict.outcome is Outcome.FAIL
        assert said in verdict.reason
        assert more.get("gap") or "(replica-1 → replica-2)" in verdict.reason

    def test_a_lost_token_fails_also_without_a_failover(self) -> None:
        stack = Stack().open()
        stack.stream(("replica-1", 200), missing=[4], tokens=23)
        assert STREAM.check(stack.close().history).outcome is Outcome.FAIL

    def test_a_stream_that_breaks_off_has_lost_what_it_did_not_send(self) -> None:
        stack = self.moved()
        stack.stream(("replica-1", 0), tokens=9, error="cut", missing=list(range(9, 24)))
        verdict = STREAM.check(stack.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "1 stream broke off" in verdict.reason
        assert "after 9 of 24 tokens (status 0, cut)" in verdict.reason
        assert UnbrokenStream(broken=1).check(stack.history).outcome is Outcome.PASS

    def test_one_that_never_began_has_lost_nothing(self) -> None:
        stack = self.moved()
        stack.stream(("replica-1", 503), tokens=0)
        assert STREAM.check(stack.close().history).outcome is Outcome.PASS

    def test_a_session_that_moves_between_two_turns_counts_unless_a_stream_is_asked_for(self) -> None:
        stack = Stack().open()
        stack.stream(("replica-1", 200))
        stack.stream(("replica-2", 200), turn=1, resumed="external", first=0.3)
        history = stack.close().history
        verdict = STREAM.check(history)
        assert verdict.outcome is Outcome.PASS
        assert "1 session between two turns (external)" in verdict.reason
        assert UnbrokenStream(failover="stream").check(history).outcome is Outcome.UNKNOWN
        assert "before its first token" in UnbrokenStream(within=0.2).check(history).reason

    def test_tokens_that_are_computed_again_are_bounded(self) -> None:
        stack = self.moved(resumed="recompute")
        stack.add("session.resumed", "replica-2", replica="replica-2", session="s1", turn=0, way="recompute",
                  recomputed=40, computed=41, seconds=0.1)  # fmt: skip
        history = stack.close().history
        assert STREAM.check(history).outcome is Outcome.PASS
        verdict = UnbrokenStream(recomputed=8).check(history)
        assert verdict.outcome is Outcome.FAIL
        assert "40 tokens of session s1 had to be computed again (recompute)" in verdict.reason

    def test_the_way_that_is_asked_for_must_be_among_those_seen(self) -> None:
        history = self.moved().close().history
        claimed = UnbrokenStream(way="replica").check(history)
        assert claimed.outcome is Outcome.UNKNOWN
        assert "nobody told that any was kept" in claimed.reason
        kept = self.kept()
        assert UnbrokenStream(way="replica").check(kept.close().history).outcome is Outcome.PASS
        verdict = UnbrokenStream(way="external").check(history)
        assert verdict.outcome is Outcome.FAIL
        assert "no session came back by external, but by replica" in verdict.reason

    def test_who_says_that_it_took_a_copy_and_computes_everything_again_fails(self) -> None:
        for computed, said in ((41, "computed 41, where its client had asked 6 new ones"), (7, None)):
            verdict = STREAM.check(self.kept(computed=computed).close().history)
            assert verdict.outcome is (Outcome.FAIL if said else Outcome.PASS)
            assert said is None or said in verdict.reason

    def test_who_says_that_it_computed_again_what_it_did_not_fails(self) -> None:
        verdict = STREAM.check(self.kept(way="recompute", recomputed=40).close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "40 tokens of session s1 are said to have been computed again" in verdict.reason

    def test_an_answer_that_names_another_way_than_its_replica_fails(self) -> None:
        verdict = STREAM.check(self.kept(way="external").close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "says that its session came back by replica, its replica says by external" in verdict.reason

    def test_a_way_or_a_bound_that_nobody_counted_is_unknown(self) -> None:
        history = self.kept(computed=None).close().history
        assert STREAM.check(history).outcome is Outcome.PASS
        for asked in (UnbrokenStream(way="replica"), UnbrokenStream(recomputed=8)):
            verdict = asked.check(history)
            assert verdict.outcome is Outcome.UNKNOWN
            assert "nobody counted what was computed again when 1 session came back" in verdict.reason

    def test_without_a_failover_or_a_stream_nothing_is_known(self) -> None:
        verdict = STREAM.check(control().history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "none that had to go on elsewhere" in verdict.reason
        assert STREAM.check(Stack().open().serve(9).close().history).outcome is Outcome.UNKNOWN

    def test_streams_that_do_not_tell_their_tokens_are_unknown(self) -> None:
        verdict = STREAM.check(self.moved(tokens=None).close().history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "1 stream does not tell its tokens" in verdict.reason

    def test_a_repetition_at_the_same_replica_or_before_the_first_token_is_no_failover(self) -> None:
        stack = Stack().open()
        stack.stream(("replica-1", 0), ("replica-2", 200), streamed=0)
        stack.stream(("replica-1", 0), ("replica-1", 200), streamed=9)
        assert STREAM.check(stack.close().history).outcome is Outcome.UNKNOWN


class TestSteadyDegradation:
    def moves(self, *rungs: str, every: float = 2.0, tier: str = "secondary", at: str = "primary") -> Stack:
        stack = Stack().open().serve(30)
        stack.fault("process.freeze", "store", instant=False)
        for rung in rungs:
            stack.add("ladder.moved", "router", before=at, after=rung, reason="p99", p99=0.3, errors=0.0, queue=0)
            at = rung
            stack.serve(int(every / 0.06), tier=rung if rung != "primary" else "primary")
        return stack

    def test_down_and_back_step_by_step_passes(self) -> None:
        stack = self.moves("secondary", "tertiary", "secondary", "primary")
        stack.heal("process.freeze")
        verdict = STEADY.check(stack.serve(30).close().history)
        assert verdict.outcome is Outcome.PASS
        assert "4 moves of the ladder" in verdict.reason
        assert STEADY.check(killed_and_back().history).outcome is Outcome.PASS

    def test_a_jump_fails(self) -> None:
        verdict = STEADY.check(self.moves("tertiary").close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "the ladder jumped from primary to tertiary" in verdict.reason
        skipped = STEADY.check(self.moves("tertiary", at="secondary").close().history)
        assert "the ladder moved from secondary although it stood at primary" in skipped.reason

    def test_a_move_up_without_calm_is_flapping(self) -> None:
        verdict = STEADY.check(self.moves("secondary", "primary", every=0.5).close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "flapping: the ladder went up to primary only" in verdict.reason
        quick = self.moves("secondary", "tertiary", every=0.5)
        assert "flapping" not in STEADY.check(quick.close().history).reason

    def test_so_are_many_moves(self) -> None:
        stack = self.moves(*["secondary", "primary"] * 5)
        stack.heal("process.freeze")
        history = stack.serve(9).close().history
        verdict = STEADY.check(history)
        assert verdict.outcome is Outcome.FAIL
        assert "flapping: the ladder moved 10 times for 1 fault; 8 are allowed" in verdict.reason
        assert SteadyDegradation(moves=10).check(history).outcome is Outcome.PASS

    @pytest.mark.parametrize("features", [LIVE, {**LIVE, "important": "default"}, {**LIVE, "optional": "omitted"}])
    def test_quality_that_does_not_come_back_fails(self, features: dict[str, str]) -> None:
        stack = self.moves("secondary")
        stack.heal("process.freeze")
        tier = "primary"
        if features is LIVE:
            tier = "secondary"
        else:
            stack.add("ladder.moved", "router", before="secondary", after="primary", reason="calm")
        stack.serve(250, tier=tier, features=features)
        verdict = STEADY.check(stack.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "full quality is to be back within 10 s" in verdict.reason
        assert ("important default" in verdict.reason) is (features.get("important") == "default")

    def test_without_a_fault_the_last_move_down_counts(self) -> None:
        stack = Stack().open().serve(30)
        stack.add("ladder.moved", "router", before="primary", after="secondary", reason="queue")
        stack.serve(30, tier="secondary")
        stack.add("ladder.moved", "router", before="secondary", after="primary", reason="calm")
        assert STEADY.check(stack.copy().serve(30).close().history).outcome is Outcome.PASS
        late = stack.serve(200)
        for _ in range(3):
            late.ask(("replica-0", 200), tier="secondary")
        assert STEADY.check(late.serve(9).close().history).outcome is Outcome.FAIL

    def test_a_stray_answer_is_no_lasting_degradation(self) -> None:
        stack = self.moves("secondary", "primary")
        stack.heal("process.freeze")
        stack.serve(200).ask(("replica-0", 200), features={**LIVE, "important": "default"})
        history = stack.serve(60).close().history
        assert STEADY.check(history).outcome is Outcome.PASS
        assert SteadyDegradation(stray=0.0).check(history).outcome is Outcome.FAIL

    def test_features_alone_are_degradation_too(self) -> None:
        stack = Stack().open().serve(30)
        stack.fault("process.freeze", "store", instant=False)
        for name in stack.pids:
            stack.add("features.moved", name, replica=name, tier="important", before="live", after="default", reason="")
        stack.serve(30, features={**LIVE, "important": "default"})
        stack.heal("process.freeze")
        verdict = STEADY.check(stack.serve(30).close().history)
        assert verdict.outcome is Outcome.PASS
        assert "0 moves of the ladder and 3 of features" in verdict.reason

    def test_nothing_degraded_silent_degradation_and_an_early_end_are_unknown(self) -> None:
        assert STEADY.check(control().history).outcome is Outcome.UNKNOWN
        silent = STEADY.check(Stack().open().serve(30, tier="secondary").close().history)
        assert silent.outcome is Outcome.UNKNOWN
        assert "though nobody told of a move" in silent.reason
        early = STEADY.check(self.moves("secondary").close().history)
        assert early.outcome is Outcome.UNKNOWN
        assert "with quality down" in early.reason
        unseen = Stack().open().serve(9)
        unseen.add("ladder.moved", "router", before="primary", after="secondary", reason="queue")
        assert "no answer was degraded" in STEADY.check(unseen.close().history).reason
