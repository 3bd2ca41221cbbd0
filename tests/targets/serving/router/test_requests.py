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


def test_a_frozen_replica_costs_its_clients_only_time() -> None:
    async def test(here: Stage) -> None:
        here.replicas[0].runs.clear()
        answers = await asyncio.gather(*(here.rank(x_deadline_ms="1000") for _ in range(6)))
        assert {answer.status for answer in answers} == {200}
        assert {answer.headers["x-attempts"] for answer in answers} == {"1", "2"}
        assert (await here.until("replica.ejected"))["reason"] == "health"
        here.replicas[0].runs.set()
        await here.until("replica.returned", replica="replica-0")

    on_stage(test)


def test_who_answers_clients_is_not_dead_for_missing_a_poll() -> None:
    async def test(here: Stage) -> None:
        busy = here.replicas[0]
        busy.silent.add("correct")
        async with asyncio.timeout(5):
            for _ in range(100):
                await here.rank()
                await asyncio.sleep(0.01)
        assert here.facts.of("replica.ejected") == []
        assert busy.times("/rank") > 10
        assert (await here.until("replica.ejected"))["replica"] == busy.name  # once it answers nobody

    on_stage(test)


def test_who_waits_for_a_replica_that_is_ejected_waits_no_longer() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.seconds = 5.0
        waiting = asyncio.create_task(here.rank(x_deadline_ms="8000"))
        await asyncio.sleep(0.05)
        (busy,) = [replica for replica in here.replicas if replica.asked]
        for replica in here.replicas:
            replica.seconds = 0.0
        busy.levels["correct"] = False
        async with asyncio.timeout(1):
            answer = await waiting
        assert (answer.status, answer.headers["x-attempts"]) == (200, "2")
        assert answer.body["replica"] != busy.name

    on_stage(test)


def test_a_replica_that_drains_is_left_for_another_and_pays_no_retry() -> None:
    async def test(here: Stage) -> None:
        here.replicas[0].draining = True
        answers = [await here.rank() for _ in range(4)]
        assert {answer.status for answer in answers} == {200}
        assert here.replicas[0].times("/rank") <= 1
        assert (await here.until("replica.ejected", replica="replica-0"))["reason"] == "draining"
        assert (await here.get("state")).body["retry_tokens"] == 1

    on_stage(test, retry_burst=1, retry_ratio=0, health_every=10, health_in=1)


def test_the_mistakes_of_a_client_are_its_own() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.status = 400
        answers = [await here.rank() for _ in range(20)]
        assert {answer.status for answer in answers} == {400}
        assert {answer.headers["x-attempts"] for answer in answers} == {"1"}
        for replica in here.replicas:
            replica.status = 200
        assert (await here.rank()).status == 200
        assert (await here.rank(x_deadline_ms="soon")).status == 400
        assert (await here.rank(x_priority="urgent")).status == 400
        assert (await here.post("generate", {"session": 1})).status == 400
        assert (await here.post("nowhere", {})).status == 400
        assert here.facts.of("replica.ejected") == []

    on_stage(test)


@pytest.mark.parametrize(
    ("defect", "least", "most"), [("none", 3, 3), ("retry-storm", 7, 9), ("retries-unbounded", 10, 10_000)]
)
def test_a_request_that_fails_everywhere_is_tried_so_often(defect: str, least: int, most: int) -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.status, replica.seconds = 503, 0.01
        answer = await here.rank(x_deadline_ms="400")
        assert answer.status in (503, 504)
        assert least <= sum(replica.times("/rank") for replica in here.replicas) <= most

    on_stage(test, defect=defect, outlier_least=1000)


def test_all_requests_share_one_budget_of_retries() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.status = 503
        for _ in range(20):
            assert (await here.rank()).status == 503
        assert sum(replica.times("/rank") for replica in here.replicas) == 20 + 3

    on_stage(test, retry_burst=3, retry_ratio=0, outlier_least=1000)


def test_what_its_store_lacks_is_no_failure_of_a_replica() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.status, replica.headers = 503, {"x-cause": "store"}
        answers = [await here.rank() for _ in range(30)]
        assert {answer.status for answer in answers} == {503}
        assert here.facts.of("replica.ejected") == []
        assert (await here.until("ladder.moved"))["reason"] == "errors"

    on_stage(test)


def test_a_request_ends_within_its_deadline() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.seconds = 5.0
        began = asyncio.get_running_loop().time()
        answer = await here.rank(x_deadline_ms="300")
        assert answer.status == 504
        assert asyncio.get_running_loop().time() - began < 0.45
        limits = [int(headers["x-deadline-ms"]) for replica in here.replicas for _, headers, _ in replica.asked]
        assert all(limit <= 160 for limit in limits[:1])

    on_stage(test)


def test_without_an_inherited_deadline_it_takes_as_long_as_its_attempts() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.seconds = 5.0
        began = asyncio.get_running_loop().time()
        await here.rank(x_deadline_ms="300")
        assert asyncio.get_running_loop().time() - began > 0.5

    on_stage(test, defect="deadline-not-inherited")


def test_an_impatient_client_ejects_nobody() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.seconds = 0.05
        await asyncio.gather(*(here.rank() for _ in range(9)))
        await asyncio.gather(*(here.rank(x_deadline_ms="20") for _ in range(40)))
        assert here.facts.of("replica.ejected") == []
        assert here.facts.of("breaker.opened") == []

    on_stage(test)


def test_an_overload_is_refused_early_and_by_priority() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.seconds = 0.05
        await asyncio.gather(*(here.rank() for _ in range(3)))
        low = [here.rank(x_priority="low") for _ in range(20)]
        high = [here.rank(x_priority="high") for _ in range(4)]
        answers = await asyncio.gather(*low, *high)
        assert {answer.status for answer in answers[-4:]} == {200}
        shed = [answer for answer in answers if answer.status == 429]
        assert len(shed) >= 12
        assert {answer.headers["x-shed"] for answer in shed} <= {"queue", "priority", "deadline"}
        assert len(here.facts.of("request.shed")) == len(shed)

    on_stage(test, concurrency=3, queue=5)


def test_what_operators_look_at() -> None:
    async def test(here: Stage) -> None:
        await here.rank()
        assert [(await here.get(level)).status for level in ("live", "ready", "correct")] == [200, 200, 200]
        state = (await here.get("state")).body
        assert state["replicas"]["replica-0"]["out"] is None
        async with here.http.get(f"{here.url}/metrics") as response:
            text = await response.text()
        assert 'router_requests_total{status="200",what="rank"} 1.0' in text
        assert "router_queue 0.0" in text
        for replica in here.replicas:
            await replica.stop()
        await here.until("health.changed", up=False, level="live")
        async with asyncio.timeout(3):
            while (await here.get("ready")).status == 200:
                pass
        assert (await here.rank()).status == 503

    on_stage(test)
