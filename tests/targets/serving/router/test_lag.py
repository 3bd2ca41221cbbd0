"""A router that was late itself knows it."""

from __future__ import annotations

from targets.serving.router.lag import Lag

from .clock import Clock


def test_a_sleep_that_took_longer_is_a_delay() -> None:
    clock = Clock()
    lag = Lag(clock)
    began = clock.now
    lag.expect(0.05)
    clock.pass_(0.35)
    assert round(lag.since(began), 6) == 0.3  # it has not even woken
    lag.woke()
    assert round(lag.since(began), 6) == 0.3
    assert lag.since(clock.now + 0.01) == 0.0


def test_in_time_is_no_delay() -> None:
    clock = Clock()
    lag = Lag(clock)
    began = clock.now
    for _ in range(1000):
        lag.expect(0.05)
        clock.pass_(0.05)
        lag.woke()
    assert lag.since(began) < 1e-6
