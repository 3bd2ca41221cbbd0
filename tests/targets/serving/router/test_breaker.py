"""A breaker opens, lets one trial through, and closes or opens again."""

from __future__ import annotations

from targets.serving.router.breaker import Breaker

from .clock import Clock


def breaker(clock: Clock) -> Breaker:
    return Breaker(failures=3, open_for=1.0, clock=clock)


def test_failures_in_a_row_call_for_it_and_one_success_begins_anew() -> None:
    it = breaker(Clock())
    for _ in range(2):
        it.failed(trial=False)
    it.succeeded(trial=False)
    for _ in range(2):
        it.failed(trial=False)
    assert not it.should_open
    it.failed(trial=False)
    assert it.should_open


def test_what_does_not_count_does_not_call_for_it() -> None:
    it = breaker(Clock())
    for _ in range(5):
        it.failed(trial=False, counts=False)
    assert not it.should_open


def test_after_its_time_one_trial_goes_through() -> None:
    clock = Clock()
    it = breaker(clock)
    it.open("outlier")
    clock.pass_(0.9)
    assert not it.look()
    clock.pass_(0.2)
    assert it.look()
    assert it.wants_trial
    it.begin_trial()
    assert not it.wants_trial
    assert it.succeeded(trial=True)
    assert it.state == "closed"


def test_a_failed_trial_opens_it_again() -> None:
    clock = Clock()
    it = breaker(clock)
    it.open("outlier")
    clock.pass_(1)
    it.look()
    it.begin_trial()
    assert it.failed(trial=True)
    it.open(it.reason)
    assert not it.look()
    clock.pass_(1)
    assert it.look()


def test_attempts_from_before_say_nothing_while_it_is_not_closed() -> None:
    clock = Clock()
    it = breaker(clock)
    it.open("outlier")
    assert not it.succeeded(trial=False)
    assert not it.failed(trial=False)
    assert it.state == "open"
    assert not it.should_open


def test_a_trial_that_its_client_gave_up_leaves_room_for_another() -> None:
    clock = Clock()
    it = breaker(clock)
    it.open("outlier")
    clock.pass_(1)
    it.look()
    it.begin_trial()
    it.neither(trial=True)
    assert it.wants_trial
