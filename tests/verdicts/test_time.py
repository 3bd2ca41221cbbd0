"""The table "Time". The milliseconds are for `make bench`; here is what must hold on a busy machine, too."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from chaos.history import History

from .harness import NO_LAB, Chaos, step

pytestmark = pytest.mark.slow

LONG = {"steps": 100_000}
BOUND = 0.25  # seconds
FREEZE = step("process.freeze", members={"names": ["worker"]}, hold="10s")


def seconds(history: History, first: str, then: str) -> float:
    """From the first event of one kind to the first of another."""
    begin, end = history.first(first), history.first(then)
    assert begin is not None
    assert end is not None
    return end.t - begin.t


def soon(chaos: Chaos, measure: Callable[[], float]) -> bool:
    """Within the bound, at one of three tries: others may keep the machine from us, but we do not keep it waiting."""

    def attempt(number: int) -> float:
        chaos.out = chaos.place / f"runs-{number}"
        return measure()

    return any(attempt(number) <= BOUND for number in range(3))


def test_actions_that_take_most_of_their_period_do_not_drift(chaos: Chaos) -> None:
    action = {"fault": "mischief.long", "when": {"every": "60ms", "times": 20}, "takes": "45ms"}
    code, run = chaos.run([action], NO_LAB, settings={"steps": 100})
    assert code == 0, run.said
    method = run.history.first("method.started")
    assert method is not None
    injected = run.history.of("fault.injecting")
    assert len(injected) == 20
    # If each came late by the length of the one before, all of the last ones would be late by most of a second.
    assert min(event.t - method.t - 0.06 * number for number, event in enumerate(injected, 1) if number > 15) < 0.3


def test_a_signal_while_a_long_action_runs_takes_effect_at_once(chaos: Chaos) -> None:
    def interrupted() -> float:
        with chaos.running([step("mischief.long", takes="10s")], NO_LAB, settings=LONG) as run:
            run.until("fault.injecting")
            run.process.send_signal(signal.SIGINT)
            assert run.wait() == 130, run.said
        return seconds(run.history, "run.interrupted", "fault.failed")

    assert soon(chaos, interrupted)


def test_an_abort_while_a_long_action_stands_heals_at_once(chaos: Chaos) -> None:
    steps = {"probe": "training.progress", "at-most": 20, "every": "20ms"}

    def aborted() -> float:
        code, run = chaos.run([FREEZE], NO_LAB, abort=[steps], settings=LONG)
        assert code == 3, run.said
        assert "abort: training.progress is" in run.said
        return seconds(run.history, "abort.triggered", "fault.healed")

    assert soon(chaos, aborted)


def test_an_event_of_the_target_fires_its_fault_and_no_earlier_or_later_one_does(chaos: Chaos) -> None:
    when = {"event": "step.completed", "where": {"rank": 0}, "nth": 7}

    def fired() -> float:
        code, run = chaos.run([{"fault": "process.kill", "members": {"names": ["worker"]}, "when": when}], NO_LAB)
        assert code == 0, run.said
        injecting, landed = run.history.first("fault.injecting"), run.history.first("fault.landed")
        assert injecting is not None
        assert landed is not None
        cause = run.history[injecting.get("trigger")]
        assert (cause.kind, cause.get("rank"), cause.get("step")) == ("step.completed", 0, 7)
        return float(landed.t - cause.t)

    assert soon(chaos, fired)


@pytest.mark.parametrize("fault", ["process.freeze", "process.kill"])
def test_a_fault_at_a_failpoint_is_effective_before_the_target_goes_on(chaos: Chaos, fault: str) -> None:
    hold = {"hold": "300ms"} if fault == "process.freeze" else {}
    when = {"point": "step.begin", "where": {"rank": 1, "step": 5}}
    method = [{"fault": fault, "members": {"names": ["worker"]}, "when": when, **hold}]
    code, run = chaos.run(method, NO_LAB, settings={"steps": 60})
    assert code == 0, run.said
    history = run.history
    reached = history.first("point.reached", rank=1, step=5)
    landed = history.first("fault.landed")
    assert reached is not None
    assert landed is not None
    assert reached.seq < landed.seq
    released = history.first("point.released", after=reached.seq, member="worker")
    completed = history.first("step.completed", rank=1, step=5)
    if fault == "process.kill":
        assert (released, completed) == (None, None)
    else:
        assert released is not None
        assert landed.seq < released.seq
        assert completed is not None
        assert completed.t - landed.t >= 0.3  # it had not begun the step
