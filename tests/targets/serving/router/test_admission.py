"""Who goes on, who waits, and who is refused."""

from __future__ import annotations

from typing import Any

from targets.serving.router.admission import Admission, Ticket
from targets.serving.settings import Settings

from .clock import Clock


class Hall:
    """An admission with room for two, and a queue of two."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.admission = Admission(Settings(**{"concurrency": 2, "queue": 2, **settings}), self.clock)
        self.decided: dict[str, str | None] = {}
        self.tickets: dict[str, Ticket] = {}

    def come(self, name: str, priority: str = "normal", *, within: float = 1.0) -> str | None:
        """A request comes; what was decided about it, or `waits`."""

        def decide(reason: str | None) -> None:
            assert name not in self.decided, "decided twice"
            self.decided[name] = reason

        now = self.clock.now
        self.tickets[name] = ticket = Ticket("rank", priority, now + within, now, decide)
        self.admission.arrive(ticket)
        return self.decided.get(name, "waits")

    def go(self, name: str, *, after: float = 0.0) -> None:
        """It ends."""
        self.clock.pass_(after)
        self.admission.leave(self.tickets[name], measured=True)


def full(**settings: Any) -> Hall:
    """Two that run."""
    hall = Hall(**settings)
    assert [hall.come("a"), hall.come("b")] == [None, None]
    return hall


def test_those_that_wait_go_on_by_priority_and_then_in_order() -> None:
    hall = full(queue=9)
    for name, priority in (("low", "low"), ("n1", "normal"), ("high", "high"), ("n2", "normal")):
        assert hall.come(name, priority) == "waits"
    order = []
    for done in ("a", "b", "high", "n1"):
        hall.go(done)
        order.append(list(hall.decided)[-1])
    assert order == ["high", "n1", "n2", "low"]
    assert hall.admission.waiting == 0


def test_who_comes_to_a_full_queue_is_refused_among_equals() -> None:
    hall = full()
    assert [hall.come(name) for name in "cde"] == ["waits", "waits", "queue"]


def test_a_full_queue_lets_the_youngest_of_the_lowest_priority_go() -> None:
    hall = full()
    hall.come("low-1", "low")
    hall.come("low-2", "low")
    assert hall.come("high", "high") == "waits"
    assert hall.decided["low-2"] == "priority"
    assert hall.come("normal") == "waits"
    assert hall.decided["low-1"] == "priority"
    assert hall.come("low-3", "low") == "queue"


def test_without_a_queue_there_is_a_limit() -> None:
    assert full(queue=0).come("c") == "limit"


def test_who_cannot_make_its_deadline_is_refused_at_once() -> None:
    hall = full()
    hall.go("a", after=0.4)
    hall.come("c")
    assert hall.come("short", within=0.3) == "deadline"
    assert hall.come("long", within=0.5) == "waits"
    assert hall.come("high", "high", within=0.5) == "waits"  # those before it are less important


def test_a_wait_counts_against_the_deadline() -> None:
    hall = full(queue=9)
    hall.go("a", after=0.4)
    hall.come("c")
    for name in "defg":
        assert hall.come(name, within=5) == "waits"
    assert hall.come("late", within=1.0) == "deadline"  # four before it, two at a time: 0.8 s, and then its own 0.4 s
    assert hall.come("patient", within=3.0) == "waits"


def test_who_can_no_longer_make_it_does_not_go_on() -> None:
    hall = full()
    hall.go("a", after=0.4)
    hall.come("c")
    hall.come("late", within=0.6)
    hall.come("fine", within=2.0)
    hall.go("b", after=0.3)
    assert hall.decided["late"] == "deadline"
    assert hall.decided["fine"] is None


def test_a_slow_time_does_not_lock_everybody_out() -> None:
    hall = full()
    hall.go("a", after=3.0)
    hall.go("b")
    assert hall.come("c") is None  # its deadline is shorter than what such a request took, but nobody waits


def test_one_that_gives_up_waits_no_more() -> None:
    hall = full()
    hall.come("c")
    for _ in range(2):
        hall.admission.give_up(hall.tickets["c"])
    hall.go("a")
    assert "c" not in hall.decided


def test_where_somebody_important_waited_in_vain_nobody_less_important_waits_on() -> None:
    hall = full(queue=9)
    for name, priority, within in (("n", "normal", 1.0), ("l1", "low", 1.0), ("l2", "low", 5.0), ("h", "high", 1.0)):
        assert hall.come(name, priority, within=within) == "waits"
    hall.admission.expire(hall.tickets["n"])
    assert hall.decided["n"] == "deadline"
    assert hall.decided["l1"] == "deadline"
    assert "l2" not in hall.decided  # it has more time
    assert "h" not in hall.decided


def test_patience_ends_before_the_deadline() -> None:
    hall = full()
    hall.go("a", after=0.4)
    hall.come("c")
    hall.come("d", within=1.0)
    assert round(hall.admission.patience(hall.tickets["d"]), 6) == 0.3  # of 1 s
    hall.clock.pass_(0.2)
    hall.come("e", within=0.5)
    assert round(hall.admission.patience(hall.tickets["e"]), 6) == 0.1  # or it needs the 0.4 s for itself


def test_no_shedding_lets_everybody_wait() -> None:
    hall = full(defect="no-shedding")
    hall.go("a", after=2.0)
    hall.come("c")
    assert {hall.come(f"x{i}", within=0.1) for i in range(100)} == {"waits"}


def test_sheds_high_first_lets_the_most_important_go() -> None:
    hall = full(defect="sheds-high-first")
    hall.come("high", "high")
    hall.come("low-1", "low")
    assert hall.come("low-2", "low") == "waits"
    assert hall.decided["high"] == "priority"
