"""Who fails more than it may."""

from __future__ import annotations

import pytest

from targets.serving.router.outlier import Outliers, may_eject

from .clock import Clock


def outliers(clock: Clock) -> Outliers:
    return Outliers(["a", "b"], window=2.0, rate=0.5, least=4, clock=clock)


def test_it_takes_enough_attempts_and_more_than_the_rate() -> None:
    them = outliers(Clock())
    for _ in range(3):
        them.add("a", False)
    assert not them.beyond("a")
    them.add("a", True)
    assert them.beyond("a")
    them.add("a", True)
    them.add("a", True)
    assert (them.beyond("a"), them.share("a")) == (False, 0.5)


def test_what_is_long_ago_is_forgotten() -> None:
    clock = Clock()
    them = outliers(clock)
    for _ in range(5):
        them.add("a", False)
    clock.pass_(2.1)
    assert (them.beyond("a"), them.share("a")) == (False, 0.0)


def test_who_fails_like_all_others_is_not_alone() -> None:
    them = outliers(Clock())
    for _ in range(5):
        them.add("a", False)
    assert not them.alone("a")  # nothing is known of the other
    assert not them.shared("a")
    for _ in range(5):
        them.add("b", False)
    assert not them.alone("a")
    assert them.shared("a")


def test_who_fails_where_another_does_not_is_alone() -> None:
    them = outliers(Clock())
    for _ in range(5):
        them.add("a", False)
        them.add("b", True)
    assert them.alone("a")
    assert not them.alone("b")


@pytest.mark.parametrize(
    ("out", "of", "may"), [(0, 3, True), (1, 3, False), (1, 4, True), (2, 4, False), (0, 1, False)]
)
def test_never_more_than_half(out: int, of: int, may: bool) -> None:
    assert may_eject(out, of) is may
