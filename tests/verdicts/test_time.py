"""The table "Time". The milliseconds are for `make bench`; here is what must hold on a busy machine, too."""

from __future__ import annotations

import signal

import pytest

from chaos.history import Event

from .harness import NO_LAB, Chaos, step

pytestmark = pytest.mark.slow

LONG = {"steps": 100_000}
ABORT = 0.25  # seconds
FREEZE = step("process.freeze", members={"names": ["worker"]}, hold="10s")


def lateness(events: tuple[Event, ...], start: float, period: float) -> list[float]:
    """By how much each of them came after its moment."""
    return [event.t - start - period * number for number, event in enumerate(events)]


def test_actions_and_samples_that_take_most_of_their_period_do_not_drift(chaos: Chaos) -> None:
    action = {"fault": "mischief.long", "when": {"every": "60ms", "times": 20}, "takes": "45ms"}
    slow = {"probe": "mischief.sample", "every": "60ms", "takes": "45ms", "at-least": 1}
    code, run = chaos.run([action], NO_LAB, steady_state_hypothesis=[slow], settings={"steps": 150})
    assert code == 0, run.said
    history = run.history
    method = history.first("method.started")
    assert method is not None
    injected = [e for e in history.of("fault.injecting") if e.source == "fault:mischief.long"]
    assert len(injected) == 20
    # What came later by 45 ms each time would be late by almost a second in the end, all of the last ones.
    assert min(lateness(tuple(injected), method.t + 0.06, 0.06)[-5:]) < 0.045
    samples = history.of("probe.sampled")
    assert len(samples) > 20
    assert min(lateness(samples, samples[0].t, 0.06)[-5:]) < 0.045


def test_a_signal_while_a_long_action_runs_takes_effect_at_once(chaos: Chaos) -> None:
    with chaos.running([step("mischief.long", takes="10s")], NO_LAB, settings=LONG) as run:
        run.until("fault.injecting")
        run.process.send_signal(signal.SIGINT)
        assert run.wait() == 130, run.said
    asked, cut = run.history.first("run.interrupted"), run.history.first("fault.failed")
    assert asked is not None
    assert cut is not None
    assert cut.t - asked.t <= ABORT


def test_an_abort_while_a_long_action_stands_heals_at_once(chaos: Chaos) -> None:
    steps = {"probe": "training.progress", "at-most": 20, "every": "20ms"}
    code, run = chaos.run([FREEZE], NO_LAB, abort=[steps], settings=LONG)
    assert code == 3, run.said
    assert "abort: training.progress is" in run.said
    asked, healed = run.history.first("abort.triggered"), run.history.first("fault.healed")
    assert asked is not None
    assert healed is not None
    assert healed.t - asked.t <= ABORT


def test_an_event_of_the_target_fires_its_fault_and_no_earlier_or_later_one_does(chaos: Chaos) -> None:
    when = {"event": "step.completed", "where": {"rank": 0}, "nth": 7}
    code, run = chaos.run([{"fault": "process.kill", "members": {"names": ["worker"]}, "when": when}], NO_LAB)
    assert code == 0, run.said
    injecting, landed = run.history.first("fault.injecting"), run.history.first("fault.landed")
    assert injecting is not None
    assert landed is not None
    fired = run.history[injecting.get("trigger")]
    assert (fired.kind, fired.get("rank"), fired.get("step")) == ("step.completed", 0, 7)
    assert landed.t - fired.t <= ABORT


@pytest.mark.parametrize("fault", ["process.freeze", "process.kill"])
def test_a_fault_at_a_failpoint_is_effective_before_the_target_goes_on(chaos: Chaos, fault: str) -> None:
    hold = {"hold": "300ms"} if fault == "process.freeze" else {}
    when = {"point": "step.begin", "where": {"rank": 1, "step": 5}}
    code, run = chaos.run([{"fault": fault, "members": {"names": ["worker"]}, "when": when, **hold}], NO_LAB)
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
