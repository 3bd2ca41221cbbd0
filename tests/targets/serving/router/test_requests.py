"""Requests through a real router to fake replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from .fake import token_at
from .stage import Stage, stage

pytestmark = pytest.mark.slow


def on_stage(test: Callable[[Stage], Awaitable[None]], **settings: Any) -> None:
    """Run one test with a router and its replicas."""

    async def run() -> None:
        async with stage(**settings) as here:
            await test(here)

    asyncio.run(run())


def test_a_ranking_is_answered_by_a_replica() -> None:
    async def test(here: Stage) -> None:
        answer = await here.rank(x_request_id="a" * 32, x_deadline_ms="500", x_priority="high")
        assert (answer.status, answer.body["tier"], answer.headers["x-attempts"]) == (200, "primary", "1")
        (asked,) = [asked for replica in here.replicas for asked in replica.asked]
        assert asked[1]["x-request-id"] == "a" * 32
        assert 0 < int(asked[1]["x-deadline-ms"]) <= 500
        (fact,) = here.facts.of("attempt.completed")
        assert fact["replica"] == answer.body["replica"]
        assert (fact["status"], fact["attempt"], fact["draining"]) == (200, 1, False)
        spans = (await here.get("trace/" + "a" * 32)).body["spans"]
        assert [span["name"] for span in spans] == ["attempt", "rank"]

    on_stage(test)


def test_a_stream_comes_through_and_the_session_stays_where_it_is() -> None:
    async def test(here: Stage) -> None:
        first = await here.generate(turn=0)
        second = await here.generate(turn=1)
        assert first.tokens == [token_at(2 + i) for i in range(6)]
        assert second.tokens == [token_at(10 + i) for i in range(6)]
        assert first.lines[-1]["replica"] == second.lines[-1]["replica"]
        assert second.lines[-1] | {"done": True, "tokens": 6, "attempts": 1} == second.lines[-1]
        asked = [body for replica in here.replicas for _, _, body in replica.asked]
        assert asked[1]["history"] == [1, 2, *first.tokens]
        assert asked[1]["generation"] == 1

    on_stage(test)


def test_a_killed_replica_costs_its_clients_nothing() -> None:
    async def test(here: Stage) -> None:
        await here.replicas[0].stop()
        answers = [await here.rank() for _ in range(10)]
        assert {answer.status for answer in answers} == {200}
        assert (await here.until("replica.ejected"))["replica"] == "replica-0"
        await here.replicas[0].start()
        await here.until("replica.returned", replica="replica-0")

    on_stage(test)


def test_a_stream_goes_on_elsewhere_when_its_replica_dies() -> None:
    async def test(here: Stage) -> None:
        here.replicas[0].dies_at = here.replicas[1].dies_at = 3
        answer = await here.generate(tokens=8)
        assert answer.positions == list(range(8))
        assert answer.tokens == [token_at(2 + i) for i in range(8)]
        done = answer.lines[-1]
        assert done["tokens"] == 8
        assert done["attempts"] >= 1

    on_stage(test)
