"""Down at once, up slowly."""

from __future__ import annotations

from targets.serving.router.facts import Facts
from targets.serving.router.ladder import Ladder, Limits, Move
from targets.serving.router.rungs import Rungs
from targets.serving.settings import Settings

from .clock import Clock
from .stage import Heard

LIMITS = Limits(p99=0.25, errors=0.2, queue=32)


def ladder(clock: Clock) -> Ladder:
    return Ladder(LIMITS, lower=0.5, window=1.0, hold=2.0, clock=clock)


def serve(
    it: Ladder, clock: Clock, seconds: float, *, took: float = 0.01, ok: float = 1.0, queue: int = 0
) -> list[Move]:
    """A hundred answers a second for some time; the moves."""
    moves = []
    for i in range(round(seconds * 100)):
        clock.pass_(0.01)
        it.ended(i % 10 < ok * 10, took)
        if move := it.look(queue):
            moves.append(move)
    return moves


def fall(it: Ladder, clock: Clock) -> None:
    """A trouble that ends with the first move."""
    while not serve(it, clock, 0.01, took=0.3):
        pass


def test_a_good_service_stays_where_it_is() -> None:
    clock = Clock()
    assert serve(ladder(clock), clock, 5) == []


def test_a_slow_tail_goes_down_one_rung_at_a_time() -> None:
    clock = Clock()
    it = ladder(clock)
    moves = serve(it, clock, 0.5, took=0.3)
    assert [(move.before, move.after, move.reason) for move in moves] == [("primary", "secondary", "p99")]
    assert len(serve(it, clock, 0.5, took=0.3)) == 1
    serve(it, clock, 5, took=0.3)
    assert it.tier == "static"


def test_what_another_rung_answered_says_nothing_of_this_one() -> None:
    clock = Clock()
    it = ladder(clock)
    fall(it, clock)
    for _ in range(50):
        it.ended(True, 0.3)
    assert serve(it, clock, 1.5) == []


def test_one_slow_answer_is_no_tail() -> None:
    clock = Clock()
    it = ladder(clock)
    it.ended(True, 3.0)
    assert serve(it, clock, 2) == []


def test_errors_and_a_long_queue_go_down_too() -> None:
    clock = Clock()
    assert [move.reason for move in serve(ladder(clock), clock, 0.5, ok=0.7)] == ["errors"]
    assert [move.reason for move in serve(ladder(clock), clock, 0.5, queue=33)] == ["queue"]


def test_a_handful_of_errors_says_nothing() -> None:
    it = ladder(Clock())
    for _ in range(5):
        it.ended(False, 0.0)
    assert it.look(0) is None


def test_up_one_rung_after_calm_below_the_lower_thresholds() -> None:
    clock = Clock()
    it = ladder(clock)
    fall(it, clock)
    assert serve(it, clock, 3, took=0.2) == []  # better, but not good enough to try
    assert serve(it, clock, 1.9) == []
    moves = serve(it, clock, 1.5)
    assert [(move.after, move.reason) for move in moves] == [("primary", "calm")]


def test_it_rises_one_rung_at_a_time() -> None:
    clock = Clock()
    it = ladder(clock)
    serve(it, clock, 5, took=0.3)
    moves = serve(it, clock, 9)
    assert [move.after for move in moves] == ["tertiary", "secondary", "primary"]


def test_who_rose_too_early_waits_longer_the_next_time() -> None:
    clock = Clock()
    it = ladder(clock)

    def cycle() -> float:
        """How long it stays down, in a trouble that shows on the upper rung only."""
        fall(it, clock)
        began = clock.now
        while it.tier != "primary":
            serve(it, clock, 0.1)
        return clock.now - began

    first, second, third, fourth = (cycle() for _ in range(4))
    assert first < 3 < second < 5 < third
    assert third < 10
    assert fourth < 10


def test_without_hysteresis_it_flaps() -> None:
    def moves(defect: str) -> int:
        clock = Clock()
        facts = Heard(clock)
        rungs = Rungs(Settings(defect=defect), facts, clock)
        for _ in range(600):
            clock.pass_(0.01)
            rungs.ladder.ended(True, 0.3 if rungs.ladder.tier == "primary" else 0.2)
            rungs.look(0)
        return len(facts.of("ladder.moved"))

    assert moves("none") == 1
    assert moves("no-hysteresis") > 10


def test_each_move_is_told() -> None:
    clock = Clock()
    facts = Heard(clock)
    assert isinstance(facts, Facts)
    rungs = Rungs(Settings(), facts, clock)
    rungs.look(40)
    (fact,) = facts.of("ladder.moved")
    assert fact == {
        "before": "primary", "after": "secondary", "reason": "queue", "p99": 0.0, "errors": 0.0, "queue": 40,
    }  # fmt: skip
