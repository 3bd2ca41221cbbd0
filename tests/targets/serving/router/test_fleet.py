"""Who is in rotation, who gets the next attempt, and what is told about it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from targets.serving.router.fleet import Fleet
from targets.serving.router.health import Finding
from targets.serving.router.replica import Patience, Replica
from targets.serving.settings import Address, Settings

from .clock import Clock
from .stage import Heard

HIT = Finding()


class Yard:
    """A fleet, all of it in rotation."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.facts = Heard(self.clock)
        chosen = Settings(**settings)
        addresses = [Address("127.0.0.1", 8100 + i) for i in range(chosen.replicas)]
        self.fleet = Fleet(addresses, chosen, self.facts, self.clock)
        for _ in range(2):
            self.poll()

    def __getitem__(self, index: int) -> Replica:
        return self.fleet.replicas[index]

    def poll(self, finding: Finding = HIT, *indices: int) -> None:
        """One poll of these replicas, or all."""
        for replica in self.fleet.replicas:
            if not indices or replica.index in indices:
                self.fleet.observe(replica, finding)

    def attempt(self, index: int, ok: bool, **how: bool) -> None:
        """An attempt at a replica, from its beginning to its end."""
        trial = self.fleet.begin(self[index])
        if ok:
            self.fleet.answered(self[index], trial=trial)
        else:
            self.fleet.failed(self[index], trial=trial, **{"broken": False, **how})

    def told(self, kind: str) -> list[tuple[str, str]]:
        return [(data.get("replica") or data["name"], data["reason"]) for data in self.facts.of(kind)]

    @property
    def names(self) -> list[str]:
        return [replica.name for replica in self.fleet.rotation]


def test_the_one_with_the_least_to_do_is_chosen_and_among_equals_the_one_that_waited_longest() -> None:
    yard = Yard()
    chosen = []
    for _ in range(6):
        replica = yard.fleet.choose(())
        assert replica is not None
        chosen.append(replica.index)
        yard.fleet.begin(replica)
    assert chosen == [0, 1, 2, 0, 1, 2]
    yard.fleet.answered(yard[1], trial=False)
    assert yard.fleet.choose(()) is yard[1]


def test_a_preferred_one_goes_first_while_it_is_fit() -> None:
    yard = Yard()
    yard.fleet.begin(yard[2])
    assert yard.fleet.choose((), (2, 0)) is yard[2]
    assert yard.fleet.choose([yard[2]], (2, 0)) is yard[0]
    yard.fleet.observe(yard[2], Finding("live", "refused"), broken=True)
    assert yard.fleet.choose((), (2, 0)) is yard[0]


def test_one_that_was_tried_is_tried_again_only_where_there_is_nobody_else() -> None:
    yard = Yard(replicas=2)
    assert yard.fleet.choose([yard[0]]) is yard[1]
    assert yard.fleet.choose([yard[0], yard[1]]) is not None


def test_a_broken_connection_takes_it_out_until_the_next_hit() -> None:
    yard = Yard()
    yard.attempt(0, False, broken=True)
    assert yard.names == ["replica-1", "replica-2"]
    assert yard.told("replica.ejected") == [("replica-0", "connection")]
    yard.poll(HIT, 0)
    assert yard.told("replica.returned") == [("replica-0", "connection")]
    assert len(yard.names) == 3


def test_one_whose_connection_broke_and_that_stays_away_needs_hits_to_come_back() -> None:
    yard = Yard()
    for _ in range(2):
        yard.fleet.observe(yard[0], Finding("live", "refused"), broken=True)
    yard.poll(HIT, 0)
    assert "replica-0" not in yard.names
    yard.poll(HIT, 0)
    assert yard.told("replica.returned") == [("replica-0", "health")]
    assert yard.told("replica.ejected") == [("replica-0", "connection")]


def test_one_that_drains_is_sent_nothing_new() -> None:
    yard = Yard()
    trial = yard.fleet.begin(yard[1])
    yard.fleet.drains(yard[1], trial=trial)
    assert yard.told("replica.ejected") == [("replica-1", "draining")]
    assert yard[1].outstanding == 0
    yard.fleet.observe(yard[1], Finding("live", "refused"), broken=True)
    for _ in range(2):
        yard.poll(HIT, 1)
    assert len(yard.names) == 3


def test_a_poll_from_before_its_drain_does_not_cut_what_it_still_streams() -> None:
    async def run() -> None:
        yard = Yard()
        with Patience(yard[1], 9.0) as patience:
            yard.fleet.drains(yard[1], trial=yard.fleet.begin(yard[1]))
            yard.poll(HIT, 1)
            assert yard[1].out is not None
            assert not patience.abandoned
            yard.poll(Finding("ready", "draining", draining=True), 1)
            yard.poll(Finding("live", "refused"), 1)
            assert not patience.abandoned

    asyncio.run(run())


def test_failures_eject_an_outlier_and_a_trial_brings_it_back() -> None:
    yard = Yard()
    for ok in (True, False, False, False, False):
        yard.attempt(0, ok)
    assert yard.told("replica.ejected") == [("replica-0", "outlier")]
    assert yard.facts.of("replica.ejected")[0]["errors"] == 0.8
    yard.clock.pass_(1.0)
    yard.fleet.tick()
    assert yard.told("breaker.half_opened") == [("replica-0", "one trial")]
    assert yard.fleet.choose([yard[1]]) is yard[2]  # a request that failed once already is no trial
    assert yard.fleet.choose(()) is yard[0]
    trial = yard.fleet.begin(yard[0])
    assert trial
    assert yard.fleet.choose(()) is not yard[0]
    yard.fleet.answered(yard[0], trial=trial)
    assert yard.told("replica.returned") == [("replica-0", "outlier")]
    assert [name for name, _ in yard.told("breaker.closed")] == ["replica-0"]


def test_a_failed_trial_leaves_it_out() -> None:
    yard = Yard()
    for _ in range(5):
        yard.attempt(0, False)
    for _ in range(3):
        yard.clock.pass_(1.0)
        yard.fleet.tick()
        yard.attempt(0, False)
    assert len(yard.told("breaker.opened")) == 4
    assert yard.told("replica.returned") == []


def test_never_more_than_half_are_out_for_their_failures() -> None:
    yard = Yard()
    for index in (0, 1, 2):
        for _ in range(10):
            yard.attempt(index, False)
    assert yard.names == ["replica-1", "replica-2"]


def test_where_all_fail_alike_nobody_is_ejected() -> None:
    yard = Yard()
    for index in (0, 1, 2) * 10:
        yard.attempt(index, False)
    assert yard.told("replica.ejected") == []


def test_where_two_of_three_fail_one_of_them_is_ejected() -> None:
    yard = Yard()
    for _ in range(10):
        yard.attempt(0, False)
        yard.attempt(1, False)
        yard.attempt(2, True)
    assert yard.names == ["replica-1", "replica-2"]


def test_the_dead_count_among_those_that_are_out() -> None:
    yard = Yard()
    yard.attempt(2, False, broken=True)
    for _ in range(10):
        yard.attempt(0, False)
    assert yard.names == ["replica-0", "replica-1"]


def test_mistakes_of_clients_are_nobodys_failures() -> None:
    yard = Yard()
    for _ in range(50):
        yard.fleet.mistaken(yard[0], trial=yard.fleet.begin(yard[0]))
    assert yard.told("replica.ejected") == []
    assert yard[0].outstanding == 0


def test_what_all_lack_ejects_nobody_and_what_one_lacks_ejects_it() -> None:
    yard = Yard()
    for index in (0, 1, 2) * 10:
        yard.fleet.lacks(yard[index], trial=yard.fleet.begin(yard[index]))
    assert len(yard.names) == 3
    yard.clock.pass_(5)
    for _ in range(10):
        yard.fleet.lacks(yard[0], trial=yard.fleet.begin(yard[0]))
        yard.attempt(1, True)
    assert yard.told("replica.ejected") == [("replica-0", "outlier")]


def test_what_others_lack_as_well_is_not_looked_for_there() -> None:
    yard = Yard()
    for index in (0, 1, 2) * 5:
        yard.fleet.lacks(yard[index], trial=yard.fleet.begin(yard[index]))
    assert not yard.fleet.spares(yard[0])
    for _ in range(10):
        yard.attempt(1, True)
    assert yard.fleet.spares(yard[0])
    assert yard.fleet.spares(yard[2])


def test_after_it_returned_old_failures_do_not_eject_it_again() -> None:
    yard = Yard()
    for ok in (True, False, False):
        yard.attempt(0, ok)
    yard.attempt(0, False, broken=True)
    yard.poll(HIT, 0)
    yard.attempt(0, False)
    yard.attempt(0, False)
    assert yard.told("replica.ejected") == [("replica-0", "connection")]


@pytest.mark.parametrize(
    ("defect", "names"),
    [
        ("none", ["replica-1", "replica-2"]),
        ("ignores-health", ["replica-0", "replica-1", "replica-2"]),
    ],
)
def test_ignores_health(defect: str, names: list[str]) -> None:
    yard = Yard(defect=defect)
    yard.attempt(0, False, broken=True)
    assert yard.names == names


def test_never_returns() -> None:
    yard = Yard(defect="never-returns")
    yard.attempt(0, False, broken=True)
    for _ in range(5):
        yard.poll(HIT, 0)
    assert yard.names == ["replica-1", "replica-2"]
    for _ in range(5):
        yard.attempt(1, False)
    yard.clock.pass_(9)
    yard.fleet.tick()
    assert yard.told("breaker.half_opened") == []


def test_ejects_all() -> None:
    yard = Yard(defect="ejects-all")
    for index in (0, 1, 2):
        for _ in range(10):
            yard.attempt(index, False)
    assert yard.names == []


def test_client_errors_count() -> None:
    yard = Yard(defect="client-errors-count")
    for _ in range(10):
        yard.fleet.mistaken(yard[0], trial=yard.fleet.begin(yard[0]))
    assert yard.told("replica.ejected") == [("replica-0", "outlier")]
