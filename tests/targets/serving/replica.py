"""Replicas and a store in the event loop of a test, over real sockets."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from targets.serving.publish import publish_missing
from targets.serving.replica.app import Replica
from targets.serving.settings import Place, Settings
from targets.serving.store.backend import connect
from targets.serving.store.embedded import Server
from targets.serving.store.helper import Helper
from targets.serving.store.source import Source

FAST: dict[str, Any] = {"token_seconds": 0.0, "source_seconds": 0.0, "tokens": 6}
_networks = itertools.count(random.randrange(1 << 14))


async def until(true: Callable[[], Any]) -> None:
    """Wait for what nobody tells of."""
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


class Stack:
    """What runs, and how to talk to it."""

    def __init__(self, settings: Settings, place: Place, http: aiohttp.ClientSession) -> None:
        self.settings, self.place, self.http = settings, place, http
        self.store = Server()
        self.replicas: dict[int, Replica] = {}
        self._runners: dict[int, web.ServerRunner] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def start(self, index: int, *, ready: bool = True) -> Replica:
        name = f"replica-{index}"
        place = msgspec.structs.replace(self.place, member=name, node=f"r{index}")
        replica = self.replicas[index] = Replica(self.settings, place)
        runner = self._runners[index] = web.ServerRunner(
            web.Server(replica.front, access_log=None), shutdown_timeout=0.5
        )
        await runner.setup()
        await web.TCPSite(runner, *place.replica(index)).start()
        self._tasks[index] = asyncio.create_task(replica.run())
        if ready:
            await until(lambda: replica.shelf.current is not None)
        return replica

    async def stop(self, index: int) -> None:
        if task := self._tasks.pop(index, None):
            task.cancel()
        await self._runners.pop(index).cleanup()
        await self.replicas.pop(index).close()

    async def close(self) -> None:
        for index in list(self.replicas):
            await self.stop(index)

    async def rank(self, index: int = 0, *, user: int = 5, items: Any = (1, 2, 3), **headers: str) -> Any:
        """Status, body, headers."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"{self.place.replica(index).url}/rank"
        body = msgspec.json.encode({"user": user, "items": items})
        async with self.http.post(url, data=body, headers=sent) as answer:
            return answer.status, await answer.json(content_type=None), answer.headers

    async def generate(self, index: int = 0, *, stop_after: int | None = None, **ask: Any) -> Any:
        """The tokens by their place, and the last line; with `stop_after` the client goes away."""
        url = f"{self.place.replica(index).url}/generate"
        tokens: list[tuple[int, int]] = []
        async with self.http.post(url, data=msgspec.json.encode(ask)) as answer:
            if answer.status != 200:
                return answer.status, await answer.json(content_type=None)
            async for line in answer.content:
                said = msgspec.json.decode(line)
                if "token" not in said:
                    return tokens, said
                tokens.append((said["i"], said["token"]))
                if stop_after is not None and len(tokens) >= stop_after:
                    answer.close()
                    return tokens, None
        return tokens, None

    async def get(self, path: str, index: int = 0) -> Any:
        async with self.http.get(f"{self.place.replica(index).url}{path}") as answer:
            return answer.status, await answer.json(content_type=None)


@asynccontextmanager
async def stack(folder: Path, replicas: int = 1, **settings: Any) -> AsyncIterator[Stack]:
    """A filled store, and replicas that are ready."""
    made = Settings(**{**FAST, "replicas": replicas, **settings})
    number = next(_networks) % (1 << 14)
    network = f"127.{64 + (number >> 8)}.{number & 255}"
    names = ["s0", *(f"r{i}" for i in range(replicas))]
    nodes = {name: f"{network}.{i}" for i, name in enumerate(names, 2)}
    place = Place(member="store", node="s0", nodes=nodes, data=folder)
    publish_missing(place.models, made, lambda kind, **data: None)
    async with AsyncExitStack() as held:
        http = await held.enter_async_context(aiohttp.ClientSession())
        running = Stack(made, place, http)
        await running.store.start(place.store)
        held.push_async_callback(running.store.close)
        redis = await held.enter_async_context(connect(place.store))
        source = Source(made, redis)
        await source.fill()

        async def nothing(down: float) -> None:
            running.store.memory.clear()

        helper = Helper(made, place, source, nothing)
        await helper.start(place.store_helper)
        held.push_async_callback(helper.close)
        held.push_async_callback(running.close)
        for index in range(replicas):
            await running.start(index)
        yield running


def run(folder: Path, scenario: Callable[[Stack], Awaitable[None]], replicas: int = 1, **settings: Any) -> None:
    """Play a scenario."""

    async def play() -> None:
        async with stack(folder, replicas, **settings) as running:
            await scenario(running)

    asyncio.run(play())
