"""Recovery of a service, measured from what its clients saw."""

from __future__ import annotations

import pytest

from chaos.experiment import Budget, Rpo, Rto
from chaos.judge import judge
from chaos.judge.contract import Planned
from chaos.judge.serving import measure
from chaos.report.summary import episode, story
from chaos.result import Kind, Need, Recovery, Result
from chaos.verdict import Outcome
from judge.asked import KILL, check, contract
from judge.serving_histories import LIVE, Stack, control, killed_and_back

FREEZE = Planned(name="process.freeze", kind="process.freeze")


def killed(stack: Stack | None = None) -> Stack:
    stack = stack or Stack().open().serve(60)
    stack.kill("replica-1")
    return stack


def only(stack: Stack) -> Recovery:
    (recovery,) = measure(stack.history)
    return recovery


def judged(stack: Stack, **budget: object) -> Result:
    return judge(contract(steps=(KILL,), budget=Budget(**budget)), stack.history)  # type: ignore[arg-type]


class TestMeasure:
    def test_errors_until_an_ejection_and_beyond_it_are_the_recovery(self) -> None:
        stack = killed()
        landed = stack.t
        for _ in range(10):
            stack.wait(0.05).ask(("replica-1", 0), status=503)
        ejected = stack.eject("replica-1")
        for _ in range(5):
            stack.wait(0.05).ask(("replica-0", 503))
        recovery = only(stack.serve(60, "replica-0").close())
        assert recovery.need is Need.FAILURE
        assert recovery.detect == pytest.approx(10 * 0.06, abs=0.05)
        assert recovery.total == pytest.approx(stack.events[recovery.evidence["total"]].t - landed, abs=0.01)
        assert recovery.total == pytest.approx(15 * 0.06 + 0.06, abs=0.1)
        assert recovery.evidence["detect"] == ejected
        assert recovery.complete

    def test_a_dent_that_comes_back_counts_to_its_end(self) -> None:
        stack = killed()
        for _ in range(3):
            stack.serve(40, "replica-0")
            for _ in range(10):
                stack.wait(0.02).ask(("replica-0", 503))
        recovery = only(stack.serve(60, "replica-0").close())
        assert recovery.total is not None
        assert recovery.total > 7.0

    @pytest.mark.parametrize(
        ("status", "more"),
        [
            (0, {}),
            (429, {}),
            (504, {}),
            (200, {"right": False}),
            (200, {"tier": "static"}),
            (200, {"features": {**LIVE, "important": "default"}}),
            (200, {"latency": 1.2}),
        ],
    )
    def test_whatever_clients_suffer_counts(self, status: int, more: dict[str, object]) -> None:
        stack = killed()
        for _ in range(20):
            stack.wait(0.05).ask(("replica-0", status), **more)  # type: ignore[arg-type]
        recovery = only(stack.serve(60, "replica-0").close())
        assert recovery.total == pytest.approx(1.3, abs=0.2)
        assert (
            "full quality" in recovery.note
            if status == 200 and not {"right", "latency"} & set(more)
            else not recovery.note
        )

    def test_mistakes_of_clients_are_no_errors(self) -> None:
        stack = killed()
        for _ in range(20):
            stack.ask(("replica-0", 400), wrong=True)
        stack.serve(60, "replica-0", tier="primary")
        assert only(stack.close()).total == 0.0

    def test_what_nobody_noticed_took_no_time_but_a_death_is_a_failure(self) -> None:
        recovery = only(killed().serve(60, "replica-0").close())
        assert recovery.need is Need.FAILURE
        assert (recovery.detect, recovery.total, recovery.note) == (None, 0.0, "no client noticed it")
        stack = Stack().open().serve(60)
        stack.fault("network.latency", "replica-1", instant=False)
        stack.serve(60).heal("network.latency")
        assert only(stack.serve(30).close()).need is Need.NONE

    def test_a_service_that_was_never_the_best_is_not_less_good_than_before(self) -> None:
        stack = killed(Stack().open().serve(60, tier="secondary"))
        assert only(stack.serve(60, "replica-0", tier="secondary").close()).total == 0.0

    def test_errors_to_the_end_are_no_recovery(self) -> None:
        stack = killed()
        for _ in range(60):
            stack.wait(0.05).ask(("replica-0", 503))
        stack.serve(2, "replica-0")
        recovery = only(stack.close())
        assert recovery.total is None
        assert not recovery.complete

    def test_a_fault_before_the_first_one_is_over_belongs_to_it(self) -> None:
        stack = Stack().open().serve(60)
        stack.fault("process.freeze", "replica-0", instant=False)
        for _ in range(20):
            stack.wait(0.05).ask(("replica-0", 503))
        stack.kill("replica-1")
        for _ in range(20):
            stack.wait(0.05).ask(("replica-2", 503))
        both = only(stack.serve(60, "replica-2").close())
        assert both.faults == ("process.freeze", "process.kill")
        apart = Stack().open().serve(60)
        apart.fault("process.freeze", "replica-0", instant=False)
        apart.serve(60, "replica-1", "replica-2").kill("replica-1")
        assert len(measure(apart.serve(60, "replica-2").close().history)) == 2

    def test_what_hits_the_store_is_noticed_by_its_breaker(self) -> None:
        stack = Stack().open().serve(60)
        stack.fault("process.freeze", "store", instant=False)
        seq = stack.add("breaker.opened", "replica-1", name="store", reason="timeouts")
        recovery = only(stack.serve(60).close())
        assert recovery.evidence["detect"] == seq

    def test_what_the_next_fault_is_noticed_by_is_no_sign_of_the_first(self) -> None:
        stack = Stack().open().serve(60)
        stack.fault("checkpoint.corrupt")
        killed(stack.serve(60)).eject("replica-1")
        first, second = measure(stack.serve(60, "replica-0").close().history)
        assert (first.need, first.detect) == (Need.NONE, None)
        assert second.detect is not None

    def test_the_ejection_of_another_one_is_no_detection(self) -> None:
        stack = killed()
        stack.eject("replica-2")
        assert only(stack.serve(60, "replica-0").close()).detect is None

    def test_a_member_that_ends_by_itself_is_told_from_one_that_was_killed(self) -> None:
        stack = Stack().open().serve(60)
        stack.exit("replica-2", 1)
        result = judge(contract(steps=()), stack.serve(60, "replica-0").close().history)
        verdict = check(result, "no other failure").verdict
        assert verdict.outcome is Outcome.UNKNOWN
        assert "replica-2 ended with 1" in verdict.reason
        assert measure(killed_and_back().history)[0].need is Need.FAILURE
        assert measure(control().history) == ()


class TestBudget:
    def test_detect_and_total_are_judged(self) -> None:
        stack = killed()
        for _ in range(10):
            stack.wait(0.05).ask(("replica-1", 0), status=503)
        stack.eject("replica-1")
        stack.serve(60, "replica-0").close()
        good = judged(stack, rto=Rto(total=2.0, detect=1.0))
        assert {c.verdict.outcome for c in good.of(Kind.BUDGET)} == {Outcome.PASS}
        bad = judged(stack, rto=Rto(total=0.3, detect=0.3))
        assert {c.verdict.outcome for c in bad.of(Kind.BUDGET)} == {Outcome.FAIL}

    def test_a_fault_that_the_end_of_the_load_cut_short_leaves_its_recovery_unknown(self) -> None:
        for hold, outcome in ((9.0, Outcome.UNKNOWN), (2.0, Outcome.PASS)):
            stack = Stack().open().serve(60)
            stack.fault("process.freeze", "replica-1", instant=False, hold=hold)
            stack.wait(0.1).eject("replica-1")
            stack.serve(40, "replica-0").add("load.ended", "load", requests=100, failures=0)
            stack.heal("process.freeze")
            asked = contract(steps=(FREEZE,), budget=Budget(rto=Rto(total=2.0, detect=1.0)))
            result = judge(asked, stack.history)
            assert check(result, "rto.total").verdict.outcome is outcome
            assert check(result, "rto.detect").verdict.outcome is Outcome.PASS
            assert ("of the 9 s" in check(result, "process.freeze").verdict.reason) is (hold == 9.0)

    def test_a_death_that_nobody_noticed_fails_a_bound_on_detection(self) -> None:
        stack = killed().serve(60, "replica-0").close()
        assert check(judged(stack, rto=Rto(detect=1.0)), "rto.detect").verdict.outcome is Outcome.FAIL

    @pytest.mark.parametrize(
        ("budget", "name"),
        [
            ({"rpo": Rpo(steps=0)}, "rpo.steps"),
            ({"rpo": Rpo(seconds=9.0)}, "rpo.seconds"),
            ({"rto": Rto(restart=9.0)}, "rto.restart"),
        ],
    )
    def test_what_means_nothing_here_is_unknown_and_says_so(self, budget: dict[str, object], name: str) -> None:
        verdict = check(judged(killed().serve(60, "replica-0").close(), **budget), name).verdict
        assert verdict.outcome is Outcome.UNKNOWN
        assert f"a serving run has no {name}" in verdict.reason

    def test_a_service_that_is_not_back_when_the_load_ends_fails_or_is_unknown(self) -> None:
        stack = killed()
        for _ in range(30):
            stack.wait(0.05).ask(("replica-0", 503))
        stack.close()
        assert check(judged(stack, rto=Rto(total=1.0)), "rto.total").verdict.outcome is Outcome.FAIL
        assert check(judged(stack, rto=Rto(total=9.0)), "rto.total").verdict.outcome is Outcome.UNKNOWN


class TestConduct:
    def test_a_load_that_did_not_end_is_not_done(self) -> None:
        stack = control().drop(lambda e: e.kind == "load.ended")
        verdict = check(judge(contract(steps=()), stack.history), "job done").verdict
        assert verdict.outcome is Outcome.FAIL
        assert "although its load was not over" in verdict.reason
        assert check(judge(contract(steps=()), control().history), "job done").verdict.outcome is Outcome.PASS

    def test_a_fault_after_the_load_shows_nothing(self) -> None:
        stack = Stack().open().serve(60)
        stack.add("load.ended", "load")
        stack.kill("replica-1")
        result = judge(contract(), stack.history)
        assert "landed when the load was over" in check(result, "process.kill").verdict.reason
        assert result.recoveries == ()

    def test_a_recovery_is_told_without_epochs_and_steps(self) -> None:
        (recovery,) = measure(killed_and_back().history)
        assert story(recovery) == "process.kill on replica-1"
        assert "steps" not in episode(recovery)
