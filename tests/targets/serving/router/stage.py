"""A router in front of fake replicas, on loopback addresses of its own, and its clients."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from targets.serving.router.facts import Facts
from targets.serving.router.router import Router, running
from targets.serving.settings import Place, Settings

from .fake import FakeReplica


class Heard(Facts):
    """Facts that are kept."""

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__(clock)
        self.all: list[tuple[str, dict[str, Any]]] = []

    def emit(self, kind: str, /, **data: Any) -> None:
        self.all.append((kind, data))

    emit_soon = emit

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The data of all facts of a kind."""
        return [data for known, data in self.all if known == kind]


class Answer(NamedTuple):
    """What a client got."""

    status: int
    headers: dict[str, str]
    lines: list[dict[str, Any]]

    @property
    def body(self) -> dict[str, Any]:
        return self.lines[0]

    @property
    def tokens(self) -> list[int]:
        return [line["token"] for line in self.lines if "token" in line]

    @property
    def positions(self) -> list[int]:
        return [line["i"] for line in self.lines if "token" in line]


class Stage(NamedTuple):
    """All that a test talks to."""

    router: Router
    replicas: list[FakeReplica]
    facts: Heard
    http: aiohttp.ClientSession
    url: str

    async def rank(self, items: int = 3, **headers: str) -> Answer:
        """One ranking."""
        return await self.post("rank", {"user": 1, "items": list(range(items))}, **headers)

    async def generate(self, session: str = "s", turn: int = 0, tokens: int = 6, **headers: str) -> Answer:
        """One turn, to its end."""
        body = {"session": session, "turn": turn, "prompt": [1, 2], "tokens": tokens}
        return await self.post("generate", body, **headers)

    async def post(self, path: str, body: Any, **headers: str) -> Answer:
        """Any request; header names have underscores here."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.http.post(f"{self.url}/{path}", json=body, headers=named) as response:
            lines = [json.loads(line) async for line in response.content]
            return Answer(response.status, dict(response.headers), lines)

    async def get(self, path: str) -> Answer:
        """What operators look at."""
        async with self.http.get(f"{self.url}/{path}") as response:
            return Answer(response.status, dict(response.headers), [await response.json()])

    async def until(self, kind: str, **data: Any) -> dict[str, Any]:
        """Wait for a fact."""
        async with asyncio.timeout(5):
            while True:
                for found in self.facts.of(kind):
                    if data.items() <= found.items():
                        return found
                await asyncio.sleep(0.005)


@asynccontextmanager
async def stage(**settings: Any) -> AsyncIterator[Stage]:
    """A router and its replicas, ready."""
    chosen = Settings(**{"health_every": 0.05, "health_timeout": 0.25, "breaker_open": 0.2, **settings})
    network = f"127.{random.randrange(128, 255)}.{random.randrange(256)}"
    names = ["s0", "gw", "c0", *(f"r{i}" for i in range(chosen.replicas))]
    nodes = {name: f"{network}.{i}" for i, name in enumerate(names, 2)}
    place = Place(member="router", node="gw", nodes=nodes, data=Path("data"))
    replicas = [FakeReplica(i, place.replica(i)) for i in range(chosen.replicas)]
    facts = Heard()
    try:
        for replica in replicas:
            await replica.start()
        async with running(place, chosen, facts) as router, aiohttp.ClientSession() as http:
            here = Stage(router, replicas, facts, http, place.router.url)
            await here.until("serving.ready")
            yield here
    finally:
        for replica in replicas:
            await replica.stop()
