"""Whether each fault landed and was healed."""

from __future__ import annotations

import pytest

from chaos.errors import Exit
from chaos.judge import judge
from chaos.judge.contract import Planned
from chaos.result import Result
from chaos.verdict import Outcome
from judge.asked import check, contract
from judge.histories import Tape, killed_and_restarted


def judged(tape: Tape) -> Result:
    tape.add("run.ended", reason="finished")
    return judge(contract(), tape.history)


def armed() -> Tape:
    tape = Tape().start().train(1, 5)
    tape.add("fault.armed", "fault:process.kill", kind="process.kill")
    return tape


def test_a_fault_that_landed_with_proof_passes() -> None:
    verdict = check(judge(contract(), killed_and_restarted().history), "process.kill").verdict
    assert verdict.outcome is Outcome.PASS


def test_an_injector_that_raised_is_inconclusive() -> None:
    tape = armed()
    tape.add("fault.failed", "fault:process.kill", phase="inject", error="NotLanded", message="no such process")
    result = judged(tape)
    assert "did not land: NotLanded: no such process" in check(result, "process.kill").verdict.reason
    assert result.outcome is Outcome.UNKNOWN
    assert result.exit is Exit.INCONCLUSIVE


def test_a_fault_without_proof_is_inconclusive() -> None:
    tape = armed()
    tape.add("fault.landed", "fault:process.kill", instant=True, evidence={})
    assert check(judged(tape), "process.kill").verdict.outcome is Outcome.UNKNOWN


def test_a_trigger_that_never_fired_is_inconclusive() -> None:
    tape = armed()
    tape.add("fault.missed", "fault:process.kill", reason="the run ended before its trigger fired")
    assert check(judged(tape), "process.kill").verdict.outcome is Outcome.UNKNOWN


def test_a_step_that_left_no_trace_is_inconclusive() -> None:
    assert check(judged(Tape().start()), "process.kill").verdict.reason == "was never injected"


def test_a_fault_that_still_stands_at_the_end_is_inconclusive() -> None:
    tape = Tape().start().train(1, 5)
    tape.fault("process.kill", "worker-n1", instant=False)
    assert "heal is not on record" in check(judged(tape), "process.kill").verdict.reason


@pytest.mark.parametrize(("met", "outcome"), [(0, Outcome.UNKNOWN), (1, Outcome.PASS), (None, Outcome.PASS)])
def test_a_fault_that_nobody_ran_into_while_it_stood_is_inconclusive(met: int | None, outcome: Outcome) -> None:
    tape = Tape().start().train(1, 5)
    tape.fault("process.kill", "worker-n1", instant=False)
    tape.heal("process.kill", **({} if met is None else {"met": met}))
    verdict = check(judged(tape), "process.kill").verdict
    assert verdict.outcome is outcome, verdict
    assert ("never ran into it" in verdict.reason) == (met == 0)


def test_what_a_heal_notes_is_in_the_reason() -> None:
    tape = Tape().start().train(1, 5)
    tape.fault("clock.jump", "worker-n1", instant=False)
    note = {"note": "nobody asked for the time meanwhile"}
    tape.add("fault.healed", "fault:clock.jump", kind="clock.jump", evidence=note, seconds=0.1)
    asked = contract(steps=(Planned(name="clock.jump", kind="clock.jump"),))
    verdict = check(judge(asked, tape.history), "clock.jump").verdict
    assert verdict.outcome is Outcome.PASS
    assert verdict.reason == "landed with proof, healed; nobody asked for the time meanwhile"


def test_a_heal_that_failed_is_exit_4_and_says_what_to_undo() -> None:
    tape = Tape().start().train(1, 5)
    tape.fault("process.kill", "worker-n1", instant=False)
    facts = {"phase": "heal", "error": "HealFailed", "message": "still stopped", "undo": "kill -CONT 12"}
    tape.add("fault.failed", "fault:process.kill", **facts, at=None)
    result = judged(tape)
    assert result.exit is Exit.HEAL_FAILED
    assert result.undo == ("kill -CONT 12",)
    assert "kill -CONT 12" in check(result, "process.kill").verdict.reason


def triggered(kind: str) -> Tape:
    """A kill whose trigger fired half a second before the method began."""
    tape = Tape().start().train(1, 5)
    cause = tape.drop(lambda e: e.kind == "method.started").add(kind, "worker-n1", step=5)
    tape.wait(0.5).add("method.started")
    tape.add("fault.injecting", "fault:process.kill", members=["worker-n1"], nodes=[], trigger=cause)
    tape.add("fault.landed", "fault:process.kill", instant=True, evidence={"state": "X"}, members=["worker-n1"])
    return tape


def test_a_fault_whose_moment_had_passed_says_how_late_it_was() -> None:
    said = check(judged(triggered("step.completed")), "process.kill").verdict
    assert said.outcome is Outcome.PASS
    assert "landed with proof 0.50 s after the moment it names" in said.reason


def test_a_member_that_stands_at_a_failpoint_waits_for_its_fault() -> None:
    assert "after the moment" not in check(judged(triggered("point.reached")), "process.kill").verdict.reason


@pytest.mark.parametrize(
    ("hold", "said"), [(3600.0, "healed after 2.0 s of the 3600 s"), (2.0, "healed"), (None, "healed")]
)
def test_a_fault_that_stood_until_the_run_was_over_says_how_long(hold: float | None, said: str) -> None:
    tape = Tape().start().train(1, 5)
    tape.add("fault.armed", "fault:process.freeze", kind="process.freeze", hold=hold)
    tape.add("fault.landed", "fault:process.freeze", evidence={"state": "T"}, members=["worker-n1"])
    tape.wait(2.1).add("fault.healed", "fault:process.freeze", evidence={"state": "S"}, seconds=0.1)
    tape.add("run.ended", reason="finished")
    freeze = Planned(name="process.freeze", kind="process.freeze")
    reason = check(judge(contract(steps=(freeze,)), tape.history), "process.freeze").verdict.reason
    assert said in reason
    assert ("of the" in reason) == ("of the" in said)
