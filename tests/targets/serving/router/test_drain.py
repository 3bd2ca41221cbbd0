"""A router that ends as planned loses nothing."""

from __future__ import annotations

import asyncio

import pytest

from targets.serving.router.drain import Drain

from .stage import Stage
from .test_requests import on_stage
from .test_streams import whole


def test_it_waits_for_what_is_in_flight() -> None:
    async def run() -> None:
        drain = Drain()
        with drain.request(stream=True):
            ended = asyncio.create_task(drain.ended(5))
            await asyncio.sleep(0)
            assert (drain.draining, drain.in_flight, drain.streams, ended.done()) == (True, 1, 1, False)
        assert await ended == 0

    asyncio.run(run())


def test_it_does_not_wait_for_ever() -> None:
    async def run() -> None:
        drain = Drain()
        with drain.request(stream=False):
            assert await drain.ended(0.01) == 1

    asyncio.run(run())


@pytest.mark.slow
def test_a_stream_in_flight_ends_and_nothing_new_is_accepted() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.pause = 0.02
        stream = asyncio.create_task(here.generate(tokens=20))
        await here.until("router.usage")
        await asyncio.sleep(0.1)
        drained = asyncio.create_task(here.router.drain())
        await here.until("drain.begun", in_flight=1, streams=1)
        refused = await here.rank()
        assert (refused.status, refused.headers["x-draining"]) == (503, "1")
        assert (await here.get("ready")).status == 503
        assert whole(await stream, 20)
        await drained
        assert here.facts.of("drain.ended")[0]["lost"] == 0

    on_stage(test)


@pytest.mark.slow
def test_with_the_defect_it_accepts_and_cuts() -> None:
    async def test(here: Stage) -> None:
        for replica in here.replicas:
            replica.seconds = 0.3
        drained = asyncio.create_task(here.router.drain())
        await here.until("drain.begun")
        accepted = asyncio.create_task(here.rank())
        await drained
        assert here.facts.of("drain.ended")[0]["lost"] == 1
        assert (await accepted).status == 200  # only since this test lets the router live on

    on_stage(test, defect="drain-accepts")
