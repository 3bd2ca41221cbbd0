"""The parts of a replica that need no model and no network."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from targets.serving.replica.admission import Admission, Shed
from targets.serving.replica.aging import Aging
from targets.serving.replica.blocks import Blocks, NoBlocks
from targets.serving.replica.breaker import CLOSED, HALF_OPEN, LEAST, OPEN, WINDOW, Breaker
from targets.serving.replica.flight import Flights
from targets.serving.replica.moves import HOLD, Moves
from targets.serving.wire import Deadline


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Told(list[str]):
    def __call__(self, kind: str, /, **data: Any) -> None:
        self.append(kind)


def opened(clock: Clock, told: Told) -> Breaker:
    breaker = Breaker("store", 1.0, told, clock)
    for _ in range(LEAST):
        assert breaker.allows()
        breaker.failed("timeout")
    return breaker


def test_a_breaker_opens_when_half_of_enough_calls_fail() -> None:
    clock, told = Clock(), Told()
    breaker = Breaker("store", 1.0, told, clock)
    for _ in range(LEAST - 1):
        breaker.failed("timeout")
    assert breaker.state == CLOSED
    breaker.failed("timeout")
    assert breaker.state == OPEN
    assert not breaker.allows()


def test_old_calls_do_not_count() -> None:
    clock, told = Clock(), Told()
    breaker = Breaker("store", 1.0, told, clock)
    for _ in range(LEAST - 1):
        breaker.failed("timeout")
    clock.now += WINDOW + 0.1
    breaker.failed("timeout")
    assert breaker.state == CLOSED


def test_a_half_open_breaker_lets_one_trial_through_and_follows_it() -> None:
    clock, told = Clock(), Told()
    breaker = opened(clock, told)
    clock.now += 1.0
    assert breaker.allows()
    assert breaker.state == HALF_OPEN
    assert not breaker.allows()
    breaker.failed("timeout")
    assert breaker.state == OPEN
    clock.now += 1.0
    assert breaker.allows()
    breaker.succeeded()
    assert breaker.state == CLOSED
    assert told == [
        "breaker.opened", "breaker.half_opened", "breaker.opened", "breaker.half_opened", "breaker.closed",
    ]  # fmt: skip


def test_what_was_cached_together_expires_apart_and_is_still_there_when_old() -> None:
    clock = Clock()
    cache: Aging[int, str] = Aging(10.0, 50, clock, random.Random(1))
    for key in range(60):
        cache.put(key, "value")
    assert len(cache) == 50
    assert cache.any(3) is None
    clock.now += 10.0
    fresh = sum(cache.fresh(key) is not None for key in range(10, 60))
    assert 10 < fresh < 40
    assert cache.any(30) == ("value", 10.0)


def test_who_wants_the_same_waits_for_the_same_fetch() -> None:
    async def scenario(shared: bool) -> int:
        flights: Flights[int] = Flights(shared=shared)
        started = 0

        async def start() -> int:
            nonlocal started
            started += 1
            await asyncio.sleep(0)
            return started

        await asyncio.gather(*(flights.fetch("a", start) for _ in range(5)))
        await flights.fetch("a", start)
        assert len(flights) == 0
        return started

    assert asyncio.run(scenario(True)) == 2
    assert asyncio.run(scenario(False)) == 6


def test_a_failed_fetch_fails_for_all_and_is_not_kept() -> None:
    async def scenario() -> None:
        flights: Flights[int] = Flights()

        async def start() -> int:
            raise OSError("gone")

        tasks = [flights.fetch("a", start) for _ in range(3)]
        assert all(isinstance(r, OSError) for r in await asyncio.gather(*tasks, return_exceptions=True))
        assert flights.fetch("a", start) is not tasks[0]
        await flights.close()

    asyncio.run(scenario())


def test_a_tier_moves_down_at_once_and_up_after_a_while_without_a_fallback() -> None:
    clock = Clock()
    moves: list[tuple[str, str, str, str]] = []
    tiers = Moves(lambda *move: moves.append(move), clock)
    tiers.saw("important", "live", "")
    tiers.saw("important", "default", "timeout")
    tiers.saw("important", "default", "timeout")
    tiers.saw("important", "live", "")
    assert moves == [("important", "live", "default", "timeout")]
    clock.now += HOLD
    tiers.saw("important", "live", "")
    assert moves[1:] == [("important", "default", "live", "answered in time")]


def test_blocks_are_given_as_a_whole_or_not_at_all() -> None:
    blocks = Blocks(3)
    held = blocks.take(2)
    with pytest.raises(NoBlocks):
        blocks.take(2)
    assert blocks.used == 2
    blocks.give(held)
    assert sorted(blocks.take(3)) == [0, 1, 2]


def test_a_full_queue_and_a_deadline_that_cannot_be_met_are_refused_at_once() -> None:
    async def scenario() -> None:
        admission = Admission(1, 1)
        with (
            admission.accepted(Deadline(1.0)),
            admission.accepted(Deadline(1.0)),
            pytest.raises(Shed, match="queue"),
            admission.accepted(Deadline(1.0)),
        ):
            pass
        admission = Admission(1, 5)
        admission.service = 1.0
        async with admission.slot():
            waiting = asyncio.create_task(_work(admission))
            await asyncio.sleep(0)
            with pytest.raises(Shed, match="deadline"), admission.accepted(Deadline(0.5)):
                pass
        await waiting

    asyncio.run(scenario())


def test_who_gives_up_waiting_blocks_nobody() -> None:
    async def scenario() -> None:
        admission = Admission(1, 5)
        async with admission.slot():
            gives_up = asyncio.create_task(_work(admission))
            stays = asyncio.create_task(_work(admission))
            await asyncio.sleep(0)
            gives_up.cancel()
            await asyncio.sleep(0)
        await stays
        late = asyncio.create_task(_work(admission))
        async with admission.slot():
            await asyncio.sleep(0)
        late.cancel()  # it has just been handed the place
        await asyncio.gather(late, return_exceptions=True)
        async with asyncio.timeout(1), admission.slot():
            pass

    asyncio.run(scenario())


async def _work(admission: Admission) -> None:
    async with admission.slot():
        await asyncio.sleep(0)
