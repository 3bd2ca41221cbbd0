"""Streams that stay whole, whatever happens to the replicas behind them."""

from __future__ import annotations

import asyncio

import pytest

from .fake import token_at
from .stage import Answer, Stage
from .test_requests import on_stage

pytestmark = pytest.mark.slow


def whole(answer: Answer, tokens: int, *, start: int = 2) -> bool:
    """Whether every token is there, once, in order."""
    return answer.positions == list(range(tokens)) and answer.tokens == [token_at(start + i) for i in range(tokens)]


def busy(here: Stage) -> int:
    """The replica that was asked last."""
    (index,) = [i for i, replica in enumerate(here.replicas) if replica.asked]
    return index


def test_a_stream_goes_on_at_the_next_replica_when_its_own_dies() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.pause = 0.01
        running = asyncio.create_task(here.generate(tokens=20))
        await asyncio.sleep(0.1)
        first = busy(here)
        await here.replicas[first].stop()
        answer = await running
        assert whole(answer, 20)
        done = answer.lines[-1]
        following = here.replicas[(first + 1) % 3]
        assert (done["replica"], done["attempts"], done["resumed"]) == (following.name, 2, "recompute")
        ((_, headers, body),) = following.asked
        assert headers["x-attempt"] == "2"
        assert body["from"] == len(body["so_far"]) > 0
        assert [fact["streamed"] for fact in here.facts.of("attempt.completed")] == [body["from"], 20]

    on_stage(test)


def test_a_stream_whose_replica_says_nothing_more_goes_on_elsewhere() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas[:1]:
            replica.stops_at = 3
        answer = await here.generate(tokens=6, x_deadline_ms="1000")
        assert whole(answer, 6)
        assert answer.lines[-1]["attempts"] == 2

    on_stage(test)


def test_a_long_stream_of_a_replica_that_talks_is_not_cut() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.pause = 0.05
        answer = await here.generate(tokens=16, x_deadline_ms="1200")  # 0.8 s: longer than the share of an attempt
        assert whole(answer, 16)
        assert answer.lines[-1]["attempts"] == 1

    on_stage(test)


def test_a_session_goes_on_where_its_copy_is() -> None:
    async def test(here: Stage) -> None:
        await here.generate(turn=0)
        first = busy(here)
        await here.replicas[first].stop()
        answer = await here.generate(turn=1)
        assert whole(answer, 6, start=10)
        assert answer.lines[-1]["replica"] == f"replica-{(first + 1) % 3}"

    on_stage(test)


def test_a_stream_that_cannot_go_on_says_so() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.dies_at = 3
        answer = await here.generate(tokens=6)
        assert answer.positions == [0, 1, 2]
        assert answer.lines[-1]["status"] == 503
        assert answer.lines[-1]["error"]

    on_stage(test, outlier_least=1000)


def test_a_stream_that_never_began_gets_a_status() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.dies_at = 0
        assert (await here.generate()).status == 503

    on_stage(test, outlier_least=1000)


def test_a_turn_that_comes_again_is_answered_from_the_transcript() -> None:
    async def test(here: Stage) -> None:
        first = await here.generate(turn=0, idempotency_key="k0")
        again = await here.generate(turn=0, idempotency_key="k0")
        assert again.tokens == first.tokens
        assert sum(replica.times("/generate") for replica in here.replicas) == 1
        assert (await here.generate(turn=0, idempotency_key="other")).status == 400
        assert (await here.generate(turn=5)).status == 503
        assert (await here.generate(turn=1, idempotency_key="k1")).status == 200

    on_stage(test)


def test_a_turn_that_failed_is_not_part_of_the_transcript() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.dies_at = 3
        await here.generate(turn=0)
        for replica in here.replicas:
            replica.dies_at = None
        await asyncio.sleep(0.2)
        assert whole(await here.generate(turn=0), 6)

    on_stage(test, outlier_least=1000)


def test_a_client_that_goes_frees_its_replica_and_blames_nobody() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.pause = 0.02
        running = asyncio.create_task(here.generate(tokens=200))
        await asyncio.sleep(0.1)
        running.cancel()
        await here.until("attempt.completed", status=0)
        assert (await here.get("state")).body["in_flight"] == 0
        assert here.facts.of("replica.ejected") == []

    on_stage(test)


def test_with_the_defect_a_stream_starts_over() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas[:1]:
            replica.dies_at = 3
        answer = await here.generate(tokens=6)
        assert answer.positions == [0, 1, 2, *range(6)]

    on_stage(test, defect="stream-restarts")
