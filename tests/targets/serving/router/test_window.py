"""Results of the last seconds."""

from __future__ import annotations

from targets.serving.router.window import Window

from .clock import Clock


def test_only_the_last_seconds_count() -> None:
    clock = Clock()
    window = Window(1.0, clock)
    window.add(False)
    clock.pass_(0.6)
    window.add(True, 0.2)
    assert (window.count, window.failed) == (2, 0.5)
    clock.pass_(0.6)
    assert (window.count, window.failed) == (1, 0.0)
    clock.pass_(1.0)
    assert (window.count, window.failed, window.tail(0.99)) == (0, 0.0, 0.0)


def test_the_tail_leaves_out_the_single_slowest() -> None:
    window = Window(1.0, Clock())
    for seconds in (0.1, 0.2, 5.0):
        window.add(True, seconds)
    assert window.tail(0.99) == 0.2
    for _ in range(997):
        window.add(True, 0.1)
    assert window.tail(0.99) == 0.1
    for _ in range(20):
        window.add(True, 3.0)
    assert window.tail(0.99) == 3.0


def test_failures_have_no_time() -> None:
    window = Window(1.0, Clock())
    window.add(False, 9.0)
    window.add(True, 0.1)
    window.add(True, 0.1)
    assert window.tail(0.99) == 0.1
    window.clear()
    assert window.count == 0
