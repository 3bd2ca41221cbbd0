"""Retries are bounded, for one request and for all together."""

from __future__ import annotations

from targets.serving.router.budget import Attempts, Budget


def test_a_request_has_so_many_attempts_and_no_more() -> None:
    attempts = Attempts(Budget(ratio=1, burst=20), limit=3)
    assert attempts.begin() == 1
    assert attempts.again(free=False)
    assert attempts.begin() == 2
    assert attempts.another
    assert attempts.again(free=False)
    assert attempts.begin() == 3
    assert not attempts.another
    assert not attempts.again(free=False)


def test_all_requests_together_have_one_budget() -> None:
    budget = Budget(ratio=0.1, burst=5)
    retried = sum(Attempts(budget, limit=3).again(free=False) for _ in range(100))
    assert retried == 5 + 9  # what it held, and a tenth of the requests


def test_a_quiet_time_saves_up_no_more_than_a_burst() -> None:
    budget = Budget(ratio=0.1, burst=5)
    for _ in range(1000):
        budget.request()
    assert budget.tokens == 5


def test_what_was_refused_by_one_that_drains_is_free() -> None:
    budget = Budget(ratio=0, burst=1)
    attempts = Attempts(budget, limit=2)
    for _ in range(5):
        assert attempts.again(free=True)
    assert budget.tokens == 1
    assert attempts.again(free=False)
    assert not attempts.again(free=False)


def test_without_a_budget_no_other_attempt_is_counted_on() -> None:
    budget = Budget(ratio=0, burst=0)
    assert not Attempts(budget, limit=3).another
