"""Who is said to be slow, and who is not."""

from __future__ import annotations

import pytest

from targets.trainer import defects
from targets.trainer.coordinator.pace import PATIENCE, WINDOW, Pace, Slow
from targets.trainer.settings import Settings

FAST = 0.01


class Ranks:
    """Ranks that tell what they have spent, window by window."""

    def __init__(self, world: int = 3, defect: str = "none") -> None:
        self.pace = Pace(Settings(defect=defect))
        self.spent = [(0, 0.0, 0.0)] * world
        self.tell()

    def tell(self) -> Slow | None:
        for rank, spent in enumerate(self.spent):
            self.pace.note(rank, spent)
        return self.pace.look(len(self.spent))

    def window(self, **slow: dict[int, float]) -> Slow | None:
        """All do a window of steps; `computing` and `loading` say which rank takes how long for one."""
        for rank, (done, computing, loading) in enumerate(self.spent):
            own = slow.get("computing", {}).get(rank, FAST), slow.get("loading", {}).get(rank, 0.0)
            self.spent[rank] = (done + WINDOW, computing + WINDOW * own[0], loading + WINDOW * own[1])
        return self.tell()


@pytest.mark.parametrize(("span", "said"), [("computing", "computing"), ("loading", "reading its batch")])
def test_a_rank_that_takes_much_longer_for_a_while_is_slow_and_is_told_once(span: str, said: str) -> None:
    ranks = Ranks()
    found = [ranks.window(**{span: {1: 0.2}}) for _ in range(PATIENCE + 3)]
    assert found[: PATIENCE - 1] == [None] * (PATIENCE - 1)
    slow = found[PATIENCE - 1]
    assert slow is not None
    assert (slow.rank, slow.span) == (1, said)
    assert "200 ms a step" in slow.reason
    assert found[PATIENCE:] == [None] * 3


def test_all_ranks_alike_are_not_slow_however_long_it_takes() -> None:
    ranks = Ranks()
    assert not any(ranks.window(computing=dict.fromkeys(range(3), 0.5)) for _ in range(PATIENCE * 3))


def test_a_rank_that_was_frozen_once_is_not_slow() -> None:
    ranks = Ranks()
    for _ in range(4):
        assert ranks.window(computing={1: 5.0}) is None
        assert ranks.window() is None


def test_milliseconds_are_not_worth_a_word() -> None:
    ranks = Ranks()
    assert not any(ranks.window(computing={1: 0.035}) for _ in range(PATIENCE * 2))


def test_a_rank_that_said_nothing_yet_is_waited_for() -> None:
    ranks = Ranks()
    ranks.pace.restart()
    ranks.pace.note(0, (50, 1.0, 0.0))
    assert ranks.pace.look(3) is None


def test_of_two_ranks_the_slow_one_is_told() -> None:
    ranks = Ranks(world=2)
    found = [ranks.window(loading={0: 0.3}) for _ in range(PATIENCE)]
    assert found[-1] is not None
    assert found[-1].rank == 0


@pytest.mark.parametrize(("remaining", "defect", "pays"), [
    (1000, "none", True), (3, "none", False), (3, defects.EVICTS_AT_ANY_PRICE, True),
])  # fmt: skip
def test_an_eviction_pays_where_much_of_the_job_is_left(remaining: int, defect: str, pays: bool) -> None:
    pace = Ranks(defect=defect).pace
    pace.cost = 5.0
    gain = pace.gain(Slow(1, "computing", 0.21, 0.01), 3, remaining)
    assert gain == pytest.approx(remaining * (0.21 - 0.015))
    assert pace.pays(gain) is pays
