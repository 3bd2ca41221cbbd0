"""S1, S2, S8: what is said of replicas, who goes to them, and who loses his place."""

from __future__ import annotations

from typing import Any

import pytest
from judge.serving_histories import Stack, control, killed_and_back

from chaos.invariants.accurate_ejection import AccurateEjection
from chaos.invariants.health_truth import HealthTruth
from chaos.invariants.no_dead_routing import NoDeadRouting
from chaos.verdict import Outcome

HEALTH, ROUTING, EJECTION = HealthTruth(), NoDeadRouting(), AccurateEjection()


class TestHealthTruth:
    def ill(self, status: int, count: int = 60, **more: Any) -> Stack:
        """Replica 1 answers so, while its health stays up."""
        stack = Stack().open().serve(30)
        stack.fault("compute.nan", "replica-1", instant=False)
        for _ in range(count):
            tried = [("replica-1", status), *([("replica-0", 200)] if status >= 500 or not status else [])]
            stack.wait(0.05).ask(*tried, **more)
            stack.ask(("replica-2", 200))
        return stack.close()

    def test_well_replicas_that_answer_pass_and_a_control_run_says_that_nobody_was_ill(self) -> None:
        verdict = HEALTH.check(control().history)
        assert verdict.outcome is Outcome.PASS
        assert "no replica was ill" in verdict.reason
        assert "3 times a level was said to be down" in HEALTH.check(killed_and_back().history).reason

    @pytest.mark.parametrize("status", [500, 503, 0])
    def test_health_that_stays_up_while_every_request_fails_is_a_lie(self, status: int) -> None:
        verdict = HEALTH.check(self.ill(status).history)
        assert verdict.outcome is Outcome.FAIL
        assert "replica-1 said that it is well, while each of" in verdict.reason

    def test_so_is_one_of_a_replica_whose_answers_are_all_wrong(self) -> None:
        verdict = HEALTH.check(self.ill(200, right=False).history)
        assert verdict.outcome is Outcome.FAIL
        assert "answered wrongly" in verdict.reason

    def test_a_failure_that_is_found_in_time_passes(self) -> None:
        stack = Stack().open().serve(30)
        stack.fault("compute.nan", "replica-1", instant=False)
        for _ in range(10):
            stack.wait(0.05).ask(("replica-1", 500), ("replica-0", 200))
        stack.health("replica-1", "correct", up=False)
        stack.serve(60, "replica-0", "replica-2")
        assert HEALTH.check(stack.close().history).outcome is Outcome.PASS

    def test_a_client_that_errs_makes_no_liar(self) -> None:
        assert HEALTH.check(self.ill(400, wrong=True).history).outcome is Outcome.PASS

    def test_one_that_calls_right_questions_mistakes_is_a_liar(self) -> None:
        verdict = HEALTH.check(self.ill(400).history)
        assert verdict.outcome is Outcome.FAIL
        assert "failed (status 400)" in verdict.reason

    @pytest.mark.parametrize(("every", "outcome"), [(2, Outcome.FAIL), (4, Outcome.PASS)])
    def test_one_that_fails_more_often_than_not_is_a_liar_though_some_succeed(
        self, every: int, outcome: Outcome
    ) -> None:
        stack = Stack().open().serve(30)
        stack.fault("compute.nan", "replica-1", instant=False)
        for i in range(120):
            stack.wait(0.05).ask(("replica-1", 500 if i % 5 < 6 - every else 200), ("replica-0", 200))
        verdict = HEALTH.check(stack.close().history)
        assert verdict.outcome is outcome
        assert ("more than 50% of them" in verdict.reason) == (outcome is Outcome.FAIL)

    def test_one_that_has_died_and_is_said_to_be_well_is_a_lie(self) -> None:
        stack = Stack().open().serve(30)
        stack.kill("replica-1")
        stack.serve(60, "replica-0", "replica-2")
        verdict = HEALTH.check(stack.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "after it could answer nobody any more (ended with -9)" in verdict.reason

    def test_one_whose_health_nobody_told_leaves_it_unknown(self) -> None:
        stack = control().drop(lambda e: e.kind == "health.changed" and e.get("replica") == "replica-2")
        stack.drop(lambda e: e.kind == "serving.ready")
        verdict = HEALTH.check(stack.history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "nobody told of the health of replica-2" in verdict.reason

    def test_what_all_replicas_lack_makes_none_a_liar(self) -> None:
        for whom, outcome in (("store", Outcome.PASS), ("replica-0", Outcome.FAIL)):
            stack = Stack().open().serve(30)
            stack.fault("process.freeze", whom, instant=False)
            stack.serve(60, status=503)
            for _ in range(60):
                stack.wait(0.05).ask(("replica-1", 503))
            assert HEALTH.check(stack.close().history).outcome is outcome

    def test_ready_before_it_has_loaded_is_a_lie(self) -> None:
        stack = Stack().open().serve(30)
        stack.kill("replica-1")
        stack.wait(1.0).add("member.started", "replica-1", member="replica-1", role="replica", node="r1", pid=999)
        stack.health("replica-1", "ready", up=False)
        stack.health("replica-1", "ready", up=True)
        stack.serve(40, "replica-0")
        early = stack.copy()
        early.ready("replica-1")
        early.serve(30)
        verdict = HEALTH.check(early.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "replica-1 was said to be ready" in verdict.reason
        assert "and never loaded its weights" in HEALTH.check(stack.close().history).reason

    def test_a_new_generation_while_it_serves_is_no_first_load(self) -> None:
        stack = Stack().open().serve(30)
        stack.publish(2)
        stack.ready("replica-1", 2)
        assert HEALTH.check(stack.serve(30).close().history).outcome is Outcome.PASS

    def test_without_an_answer_at_a_well_replica_nothing_is_known(self) -> None:
        stack = Stack().open()
        assert HEALTH.check(stack.close().history).outcome is Outcome.UNKNOWN
        unsaid = control().drop(lambda e: e.kind in ("health.changed", "serving.ready"))
        assert HEALTH.check(unsaid.history).outcome is Outcome.UNKNOWN

    def test_a_replica_that_was_hit_and_that_nobody_asked_is_unknown(self) -> None:
        stack = Stack().open().serve(30)
        stack.fault("compute.nan", "replica-1", instant=False)
        verdict = HEALTH.check(stack.serve(60, "replica-0", "replica-2").close().history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "nobody asked replica-1 anything after compute.nan" in verdict.reason


class TestNoDeadRouting:
    def killed(self) -> Stack:
        stack = Stack().open().serve(30)
        stack.kill("replica-1")
        return stack

    def test_traffic_that_leaves_at_once_passes(self) -> None:
        verdict = ROUTING.check(killed_and_back().history)
        assert verdict.outcome is Outcome.PASS
        assert "replica-1 (ended with -9)" in verdict.reason

    def test_requests_to_a_dead_replica_later_than_allowed_fail(self) -> None:
        stack = self.killed().wait(2.5)
        stack.ask(("replica-1", 0), ("replica-0", 200))
        stack.wait(0.1)
        verdict = ROUTING.check(stack.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "1 request went to replica-1 (ended with -9) more than 2 s after it had died" in verdict.reason

    def test_too_many_at_once_fail(self) -> None:
        stack = self.killed()
        stack.wait(0.1)
        for _ in range(21):
            stack.ask(("replica-1", 0), ("replica-0", 200))
        stack.serve(60, "replica-0")
        verdict = ROUTING.check(stack.close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "21 requests went to replica-1" in verdict.reason
        assert "20 are allowed" in verdict.reason
        assert NoDeadRouting(most=30).check(stack.history).outcome is Outcome.PASS

    def test_a_frozen_replica_is_dead_until_it_is_healed(self) -> None:
        stack = Stack().open().serve(30)
        stack.fault("process.freeze", "replica-1", instant=False)
        stack.serve(60, "replica-0", "replica-2")
        late = stack.copy()
        late.ask(("replica-1", 0), ("replica-0", 200))
        late.wait(0.1).add("fault.healed", "fault:process.freeze")
        assert ROUTING.check(late.serve(5).close().history).outcome is Outcome.FAIL
        stack.heal("process.freeze")
        stack.wait(0.1)
        assert ROUTING.check(stack.serve(30).close().history).outcome is Outcome.PASS

    @pytest.mark.parametrize(
        ("sides", "outcome"),
        [
            ((["r1"], ["gw", "s0"]), Outcome.FAIL),
            ((["r1"], ["s0"]), Outcome.UNKNOWN),
            ((["c0"], ["gw"]), Outcome.UNKNOWN),
        ],
    )
    def test_a_replica_is_dead_to_a_router_that_is_cut_off_from_it(
        self, sides: tuple[list[str], list[str]], outcome: Outcome
    ) -> None:
        stack = Stack().open().serve(30)
        stack.parted(*sides)
        assert ROUTING.check(stack.serve(60).close().history).outcome is outcome

    def test_what_began_before_it_died_and_refusals_of_a_drain_do_not_count(self) -> None:
        stack = Stack().open().serve(30)
        stack.kill("replica-1")
        died = stack.t
        stack.wait(2.9)
        for _ in range(30):
            stack.ask(("replica-1", 0), ("replica-0", 200), began=died - 0.1, seconds=2.9)
        stack.serve(10, "replica-0")
        assert ROUTING.check(stack.close().history).outcome is Outcome.PASS

    def test_a_trial_of_a_half_open_breaker_is_no_routing_but_many_are(self) -> None:
        stack = self.killed()
        stack.serve(60, "replica-0", "replica-2")
        for _ in range(3):
            stack.wait(1.0)
            stack.add("breaker.half_opened", "router", name="replica-1", reason="")
            stack.ask(("replica-1", 0), ("replica-0", 200))
        history = stack.serve(5, "replica-0").close().history
        verdict = ROUTING.check(history)
        assert verdict.outcome is Outcome.PASS
        assert "3 trials" in verdict.reason
        verdict = NoDeadRouting(most=2).check(history)
        assert verdict.outcome is Outcome.FAIL
        assert "3 trials of its breaker" in verdict.reason

    def test_a_second_request_to_a_half_open_breaker_is_routing(self) -> None:
        stack = self.killed()
        stack.serve(60, "replica-0", "replica-2")
        stack.add("breaker.half_opened", "router", name="replica-1", reason="")
        for _ in range(2):
            stack.ask(("replica-1", 0), ("replica-0", 200))
        assert ROUTING.check(stack.serve(5, "replica-0").close().history).outcome is Outcome.FAIL

    def test_nobody_dead_nobody_there_or_nobody_asking_is_unknown(self) -> None:
        assert ROUTING.check(control().history).outcome is Outcome.UNKNOWN
        quiet = self.killed().wait(3.0)
        assert "nobody asked" in ROUTING.check(quiet.close().history).reason
        unused = Stack().open().serve(30, "replica-0")
        unused.kill("replica-1")
        verdict = ROUTING.check(unused.serve(60, "replica-0").close().history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "it had not been asked anything before" in verdict.reason
        short = Stack().open().serve(30)
        short.fault("process.freeze", "replica-1", instant=False)
        short.serve(10, "replica-0").heal("process.freeze")
        assert "that was over after" in ROUTING.check(short.serve(9).close().history).reason

    def test_attempts_that_nobody_recorded_leave_it_unknown(self) -> None:
        stack = self.killed()
        stack.serve(60, "replica-0", "replica-2", attempts=2)
        verdict = ROUTING.check(stack.close().history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "attempts of 60 requests are not on record" in verdict.reason


class TestAccurateEjection:
    def errs(self, count: int = 20) -> Stack:
        stack = Stack().open().serve(30)
        for i in range(count):
            stack.ask((f"replica-{i % 3}", 400), wrong=True)
        return stack

    def test_a_dead_replica_that_is_ejected_and_comes_back_passes(self) -> None:
        verdict = EJECTION.check(killed_and_back().history)
        assert verdict.outcome is Outcome.PASS
        assert "1 ejection, each for a cause; 1 returned, 0 could not" in verdict.reason

    def test_that_all_drain_at_the_end_excuses_nobody(self) -> None:
        stack = Stack().open().serve(9)
        stack.fault("process.freeze", "replica-1", instant=False)
        stack.eject("replica-1")
        stack.serve(30, "replica-0").heal("process.freeze")
        stack.serve(160, "replica-0").close()
        stack.add("drain.begun", "replica-1", member="replica-1", in_flight=0, streams=0)
        assert EJECTION.check(stack.history).outcome is Outcome.FAIL

    def test_mistakes_of_clients_that_cost_nobody_his_place_pass(self) -> None:
        verdict = EJECTION.check(self.errs().serve(30).close().history)
        assert verdict.outcome is Outcome.PASS
        assert "20 mistakes of clients, and nobody ejected" in verdict.reason

    def test_an_ejection_for_mistakes_of_clients_is_a_false_alarm(self) -> None:
        stack = self.errs()
        stack.eject("replica-1", "outlier")
        verdict = EJECTION.check(stack.serve(30, "replica-0").close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "false alarm: the place of replica-1 was lost (outlier)" in verdict.reason
        assert "after 6 mistakes of clients" in verdict.reason or "after 7 mistakes of clients" in verdict.reason

    def test_so_is_a_breaker_that_opens_for_them(self) -> None:
        stack = self.errs()
        stack.add("breaker.opened", "router", name="replica-2", reason="failures")
        assert "the breaker of replica-2 opened" in EJECTION.check(stack.serve(9).close().history).reason
        other = self.errs()
        other.add("breaker.opened", "replica-1", name="store", reason="timeouts")
        assert EJECTION.check(other.serve(9).close().history).outcome is Outcome.PASS

    @pytest.mark.parametrize(("status", "outcome"), [(500, Outcome.PASS), (0, Outcome.FAIL), (503, Outcome.FAIL)])
    def test_slowness_is_no_reason_and_an_error_of_its_own_is(self, status: int, outcome: Outcome) -> None:
        stack = Stack().open().serve(30)
        for _ in range(5):
            stack.ask(("replica-1", status), ("replica-0", 200))
        stack.eject("replica-1", "outlier")
        stack.serve(10, "replica-0").back("replica-1")
        assert EJECTION.check(stack.serve(9).close().history).outcome is outcome

    def test_a_fault_explains_ejections_of_whom_it_hit_and_as_long_as_it_stood(self) -> None:
        for hit, outcome in (("replica-1", Outcome.PASS), ("replica-2", Outcome.FAIL), ("load", Outcome.FAIL)):
            stack = Stack().open().serve(9)
            stack.fault("process.freeze", hit, instant=False)
            stack.eject("replica-1")
            stack.heal("process.freeze")
            stack.back("replica-1")
            assert EJECTION.check(stack.serve(9).close().history).outcome is outcome, hit
        late = Stack().open().serve(9)
        late.fault("process.freeze", "replica-1", instant=False)
        late.heal("process.freeze")
        late.wait(6).add("path.entered", name="x")
        late.eject("replica-1")
        assert EJECTION.check(late.serve(9).close().history).outcome is Outcome.FAIL

    def test_what_all_depend_on_explains_all_ejections(self) -> None:
        stack = Stack().open().serve(9)
        stack.fault("process.freeze", "store", instant=False)
        stack.eject("replica-0")
        stack.serve(9, "replica-1").heal("process.freeze")
        stack.back("replica-0")
        assert EJECTION.check(stack.serve(9).close().history).outcome is Outcome.PASS

    def test_a_fault_that_is_said_to_be_harmless_explains_nothing(self) -> None:
        stack = Stack().open().serve(9)
        stack.fault("network.latency", "replica-1", instant=False)
        stack.eject("replica-1", "outlier")
        stack.heal("network.latency")
        stack.back("replica-1")
        history = stack.serve(9).close().history
        assert EJECTION.check(history).outcome is Outcome.PASS
        assert AccurateEjection(harmless=("network.latency",)).check(history).outcome is Outcome.FAIL

    @pytest.mark.parametrize("back", [None, 8.0])
    def test_one_that_is_well_again_must_return_in_time(self, back: float | None) -> None:
        stack = Stack().open().serve(9)
        stack.fault("process.freeze", "replica-1", instant=False)
        stack.eject("replica-1")
        stack.serve(30, "replica-0").heal("process.freeze")
        stack.serve(160, "replica-0")
        if back is not None:
            stack.back("replica-1")
        verdict = EJECTION.check(stack.serve(9).close().history)
        assert verdict.outcome is Outcome.FAIL
        assert ("only after" if back else "on record") in verdict.reason

    def test_a_record_that_ends_before_it_could_return_is_unknown(self) -> None:
        stack = Stack().open().serve(9)
        stack.fault("process.freeze", "replica-1", instant=False)
        stack.eject("replica-1")
        stack.serve(30, "replica-0").heal("process.freeze")
        verdict = EJECTION.check(stack.serve(9, "replica-0").close().history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert "after replica-1 was well again" in verdict.reason

    def test_one_that_never_lived_again_cannot_return(self) -> None:
        stack = Stack().open().serve(30)
        stack.kill("replica-1")
        stack.eject("replica-1")
        verdict = EJECTION.check(stack.serve(200, "replica-0", "replica-2").close().history)
        assert verdict.outcome is Outcome.PASS
        assert "0 returned, 1 could not" in verdict.reason

    def test_one_that_is_asked_nothing_any_more_though_nobody_said_so_leaves_it_unknown(self) -> None:
        stack = self.errs().serve(30).serve(200, "replica-0", "replica-2")
        verdict = EJECTION.check(stack.close().history)
        assert verdict.outcome is Outcome.UNKNOWN
        assert verdict.reason.startswith("replica-1 was asked nothing for 12.")
        never = Stack().open().serve(230, "replica-0", "replica-2")  # as a spare is
        for _ in range(10):
            never.ask(("replica-0", 400), wrong=True)
        assert EJECTION.check(never.close().history).outcome is Outcome.PASS

    def test_a_new_process_that_is_ready_must_return_even_if_nobody_polls_its_health(self) -> None:
        stack = Stack().open().serve(30)
        stack.kill("replica-1")
        stack.eject("replica-1")
        stack.add("member.started", "replica-1", member="replica-1", role="replica", node="r1", pid=999)
        stack.ready("replica-1")
        verdict = EJECTION.check(stack.serve(200, "replica-0").close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "replica-1, ejected for health, returned not in the" in verdict.reason

    def test_spoilt_weights_keep_a_replica_out(self) -> None:
        stack = Stack().open().serve(30)
        stack.fault("compute.corrupt", "replica-1", instant=False)
        stack.health("replica-1", "correct", up=False)
        stack.eject("replica-1")
        stack.heal("compute.corrupt")
        assert EJECTION.check(stack.serve(200, "replica-0", "replica-2").close().history).outcome is Outcome.PASS

    def test_most_of_the_replicas_are_no_outliers(self) -> None:
        stack = Stack().open().serve(9)
        stack.fault("process.freeze", "store", instant=False)
        stack.eject("replica-0", "outlier")
        stack.eject("replica-1", "outlier")
        verdict = EJECTION.check(stack.serve(9, "replica-2").close().history)
        assert verdict.outcome is Outcome.FAIL
        assert "replica-0, replica-1 of 3 replicas were out for failed attempts" in verdict.reason

    def test_a_planned_stop_explains_an_ejection(self) -> None:
        stack = Stack().open().serve(9)
        stack.add("drain.begun", "replica-1", member="replica-1", in_flight=1, streams=0)
        stack.eject("replica-1", "draining")
        assert EJECTION.check(stack.serve(9, "replica-0").close().history).outcome is Outcome.PASS

    def test_few_mistakes_and_no_ejection_are_nothing_to_judge(self) -> None:
        assert EJECTION.check(self.errs(9).serve(9).close().history).outcome is Outcome.UNKNOWN
        assert EJECTION.check(control().history).outcome is Outcome.UNKNOWN
