"""S3, S4, S6: requests end, with right answers or errors, and those that are too many are refused."""

from __future__ import annotations

from typing import Any

import pytest
from judge.serving_histories import Stack, control, killed_and_back

from chaos.invariants.no_wrong_answer import NoWrongAnswer
from chaos.invariants.request_terminates import RequestTerminates
from chaos.invariants.shed_not_amplify import ShedNotAmplify
from chaos.verdict import Outcome

ENDS, ANSWERS, SHEDS = RequestTerminates(), NoWrongAnswer(), ShedNotAmplify()


class TestRequestTerminates:
    def test_requests_that_end_pass_with_and_without_a_fault(self) -> None:
        verdict = ENDS.check(killed_and_back().history)
        assert verdict.outcome is Outcome.PASS
        assert "were sent after the fault, 0 of these with an error" in verdict.reason
        assert "nothing was broken" in ENDS.check(control().history).reason

    def test_an_error_is_an_end(self) -> None:
        stack = Stack().open().serve(9)
        stack.kill("replica-1")
        stack.ask(("replica-0", 503))
        stack.ask(("replica-0", 0), error="refused")
        verdict = ENDS.check(stack.close().history)
        assert verdict.outcome is Outcome.PASS
        assert "2 were sent after the fault" in verdict.reason.replace("2 of them", "2")

    def test_one_that_never_ends_fails_once_its_deadline_is_over(self) -> None:
        stack = Stack().open().serve(9)
        stack.ask(("replica-0", -1))
        early = stack.copy().serve(9).close()
        assert ENDS.check(early.history).outcome is Outcome.PASS
        verdict = ENDS.check(stack.serve(40).close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "never ended" in verdict.reason

    @pytest.mark.parametrize(("seconds", "outcome"), [(1.7, Outcome.PASS), (1.9, Outcome.FAIL)])
    def test_an_end_after_the_deadline_and_grace_fails(self, seconds: float, outcome: Outcome) -> None:
        stack = Stack().open().serve(9)
        stack.ask(("replica-0", 504), seconds=seconds)
        assert ENDS.check(stack.close().history).outcome is outcome

    def test_a_client_that_gave_up_was_left_alone(self) -> None:
        stack = Stack().open().serve(9)
        stack.ask(("replica-0", 0), seconds=1.0, error="timeout")
        verdict = ENDS.check(stack.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "its client gave up after 1.00 s" in verdict.reason

    def test_what_was_never_sent_is_not_the_service_s_fault(self) -> None:
        stack = Stack().open().serve(9)
        stack.ask(("replica-0", 0), seconds=3.0, error="unsent")
        assert ENDS.check(stack.close().history).outcome is Outcome.PASS

    def test_nobody_asking_after_the_fault_is_unknown(self) -> None:
        stack = Stack().open().serve(9)
        stack.kill("replica-1")
        assert "nobody asked for anything after the fault" in ENDS.check(stack.close().history).reason
        armed = Stack().open().serve(9)
        armed.add("fault.armed", "fault:x", kind="x")
        assert ENDS.check(armed.close().history).outcome is Outcome.UNKNOWN
        assert ENDS.check(Stack().open().close().history).outcome is Outcome.UNKNOWN


class TestNoWrongAnswer:
    def spoilt(self) -> Stack:
        stack = Stack().open().serve(30)
        stack.fault("compute.corrupt", "replica-1", instant=False)
        return stack

    def test_right_answers_pass_and_the_reason_says_how_many_were_compared(self) -> None:
        verdict = ANSWERS.check(self.spoilt().serve(30).close().history)
        assert verdict.outcome is Outcome.PASS
        assert "30 of 30 answers after the first fault were compared, all right" in verdict.reason
        assert "in a run without a fault" in ANSWERS.check(control().history).reason

    def test_it_is_wrong_to_call_a_right_question_a_mistake(self) -> None:
        stack = self.spoilt().serve(9)
        stack.ask(("replica-1", 404), right=None)
        verdict = ANSWERS.check(stack.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "1 right request was called a mistake of its client" in verdict.reason
        for status, more in ((400, {"wrong": True}), (429, {}), (503, {})):
            stack = self.spoilt().serve(9)
            stack.ask(("replica-1", status), right=None, **more)
            assert ANSWERS.check(stack.close().history).outcome is Outcome.PASS

    def test_an_error_is_no_wrong_answer(self) -> None:
        stack = self.spoilt()
        stack.ask(("replica-1", 500), right=None)
        assert ANSWERS.check(stack.serve(9).close().history).outcome is Outcome.PASS

    def test_a_wrong_answer_fails_also_where_nothing_was_broken(self) -> None:
        for stack in (self.spoilt(), Stack().open()):
            stack.ask(("replica-1", 200), right=False)
            verdict = ANSWERS.check(stack.serve(9).close().history)
            assert verdict.outcome is Outcome.FAIL
            assert "1 answer with status 200 was wrong; request q" in verdict.reason
            assert "replica-1, generation 1, primary" in verdict.reason

    def test_some_are_excused_until_they_could_be_found_out(self) -> None:
        gentle = NoWrongAnswer(most=2, within=1.0)
        stack = self.spoilt()
        stack.ask(("replica-1", 200), right=False)
        assert gentle.check(stack.copy().serve(9).close().history).outcome is Outcome.PASS
        many = stack.copy()
        for _ in range(2):
            many.ask(("replica-1", 200), right=False)
        assert gentle.check(many.serve(9).close().history).outcome is Outcome.FAIL
        stack.serve(30).ask(("replica-1", 200), right=False)
        verdict = gentle.check(stack.serve(9).close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "2 are allowed, within 1 s of a fault" in verdict.reason

    def test_without_a_comparison_after_the_fault_nothing_is_known(self) -> None:
        verdict = ANSWERS.check(self.spoilt().serve(30, right=None).close().history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "no answer was compared after the first fault" in verdict.reason
        few = self.spoilt().serve(30, right=None).serve(5)
        assert "only 5 of 35 answers" in ANSWERS.check(few.close().history).reason
        armed = Stack().open().serve(9)
        armed.add("fault.armed", "fault:x", kind="x")
        assert ANSWERS.check(armed.close().history).outcome is Outcome.UNKNOWN


class TestShedNotAmplify:
    def overload(self, served: int = 40, shed: int = 20, **more: Any) -> Stack:
        stack = Stack().open().serve(9)
        for i in range(served):
            stack.wait(0.02).ask((f"replica-{i % 3}", 200))
            if i < shed:
                stack.shed(**more)
        return stack

    def test_an_overload_that_is_refused_early_passes(self) -> None:
        verdict = SHEDS.check(self.overload().close().history)
        assert verdict.outcome is Outcome.PASS
        assert "20 of" in verdict.reason
        assert "were shed early (20 low)" in verdict.reason

    def test_requests_that_all_run_out_of_time_were_not_refused(self) -> None:
        stack = self.overload(shed=0)
        for _ in range(10):
            stack.ask(("replica-0", 504), seconds=0.9)
        verdict = SHEDS.check(stack.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "requests were not refused and ended by their deadlines" in verdict.reason

    def test_what_runs_out_of_time_since_something_is_broken_is_no_overload(self) -> None:
        stack = Stack().open().serve(30)
        stack.fault("process.freeze", "store", instant=False)
        for _ in range(20):
            stack.ask(("replica-0", 0), status=504, seconds=0.9)
        stack.heal("process.freeze")
        assert SHEDS.check(stack.serve(9).close().history).outcome is Outcome.UNKNOWN

    def test_what_a_client_kept_back_could_not_be_refused_early(self) -> None:
        stack = self.overload()
        for _ in range(10):
            stack.ask(("replica-0", 504), seconds=0.3, began=stack.t, queued=0.0, late=0.7)
        assert SHEDS.check(stack.close().history).outcome is Outcome.PASS

    def test_a_refusal_that_comes_late_fails(self) -> None:
        verdict = SHEDS.check(self.overload(waited=0.7).close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "20 of 20 refusals came late, among" in verdict.reason

    def waiting(self, priority: str, other: str, **more: Any) -> Stack:
        """One is shed while another one waits that is served."""
        stack = self.overload()
        began = stack.t
        stack.ask(("replica-0", 200), queued=0.4, priority=other, began=began)
        stack.shed(priority=priority, began=began + 0.2, **more)
        return stack.close()

    @pytest.mark.parametrize(
        ("priority", "other", "outcome"),
        [
            ("high", "low", Outcome.FAIL),
            ("high", "normal", Outcome.FAIL),
            ("normal", "low", Outcome.FAIL),
            ("high", "high", Outcome.PASS),
            ("low", "normal", Outcome.PASS),
        ],
    )
    def test_the_least_important_leaves_first(self, priority: str, other: str, outcome: Outcome) -> None:
        verdict = SHEDS.check(self.waiting(priority, other).history)
        assert verdict.outcome is outcome
        if outcome is Outcome.FAIL:
            assert "1 request was shed while less important ones waited and were served" in verdict.reason

    def test_one_that_can_wait_longer_may_be_served_all_the_same(self) -> None:
        assert SHEDS.check(self.waiting("high", "low", deadline=0.5, reason="deadline").history).outcome is Outcome.PASS
        assert SHEDS.check(self.waiting("high", "low", deadline=0.5, reason="queue").history).outcome is Outcome.FAIL

    def test_one_that_came_later_or_had_its_turn_before_is_no_inversion(self) -> None:
        stack = self.overload()
        began = stack.t
        stack.ask(("replica-0", 200), queued=0.1, priority="low", began=began)
        stack.ask(("replica-0", 200), queued=0.1, priority="low", began=began + 0.3)
        stack.shed(priority="high", began=began + 0.2)
        assert SHEDS.check(stack.close().history).outcome is Outcome.PASS

    def test_refusals_and_waits_that_nobody_told_leave_the_order_unknown(self) -> None:
        stack = self.overload()
        unseen = stack.copy().drop(lambda e: e.kind == "request.shed").close()
        verdict = SHEDS.check(unseen.history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "20 of 20 refusals are not on record" in verdict.reason
        for event in stack.events:
            event.data.pop("queued", None)  # type: ignore[attr-defined]
        assert "nobody tells how long requests waited" in SHEDS.check(stack.close().history).reason

    def test_a_request_that_is_tried_too_often_fails(self) -> None:
        stack = Stack().open().serve(30)
        stack.ask(*[("replica-1", 500)] * 4, status=500)
        verdict = SHEDS.check(stack.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "was tried 4 times" in verdict.reason
        assert "3 are allowed" in verdict.reason
        quiet = Stack().open().serve(30)
        quiet.ask(("replica-1", 200), attempts=5)
        assert "was tried 5 times, as its answer says" in SHEDS.check(quiet.close().history).reason

    def test_too_many_attempts_in_all_fail_even_for_a_short_time(self) -> None:
        stack = Stack().open().serve(200)
        for _ in range(40):
            stack.wait(0.02).ask(("replica-1", 500), ("replica-0", 500), status=500)
        verdict = SHEDS.check(stack.serve(200).close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "attempts for each request within 2 s" in verdict.reason

    def test_a_retry_here_and_there_passes_and_a_refusal_while_draining_is_none(self) -> None:
        stack = Stack().open().serve(30)
        for _ in range(5):
            stack.serve(9).ask(("replica-1", 500), ("replica-0", 200))
        stack.ask(*[("replica-1", -503)] * 5, ("replica-0", 200))
        verdict = SHEDS.check(stack.close().history)
        assert verdict.outcome is Outcome.PASS
        assert "5 requests were tried again, at most 2 times" in verdict.reason

    def rebuilt(self, *fetched: tuple[str, int, float]) -> Stack:
        stack = Stack().open().serve(9)
        for replica, user, seconds in fetched:
            stack.wait(0.1).add("features.rebuilt", "store", replica=replica, user=user, seconds=seconds, asked=1)
        return stack.serve(9).close()

    def test_what_is_being_fetched_already_is_fetched_once(self) -> None:
        history = self.rebuilt(*[(f"replica-{i % 3}", i // 3, 0.5) for i in range(30)]).history
        verdict = ShedNotAmplify(judge="misses").check(history)
        assert verdict.outcome is Outcome.PASS
        assert "30 misses, each fetched once" in verdict.reason
        verdict = SHEDS.check(self.rebuilt(*[("replica-1", 7, 0.5)] * 5).history)
        assert verdict.outcome is Outcome.FAIL
        assert "4 of 5 times a replica asked the source for what it was already asking for" in verdict.reason
        again = self.rebuilt(*[("replica-1", 7, 0.05)] * 5)
        assert SHEDS.check(again.history).outcome is Outcome.PASS

    def test_neither_overload_nor_retries_is_unknown_and_so_is_the_half_that_was_asked_for(self) -> None:
        assert SHEDS.check(control().history).outcome is Outcome.UNKNOWN
        history = self.overload().close().history
        assert ShedNotAmplify(judge="overload").check(history).outcome is Outcome.PASS
        verdict = ShedNotAmplify(judge="retries").check(history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "there was no retries" in verdict.reason
