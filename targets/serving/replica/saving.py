"""The four ways in which a session outlives its replica: not at all, now and then, in a peer, in the store."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from chaos import inside
from targets.serving.replica.state import Head, State
from targets.serving.store.scripts import ACQUIRE, SAVE

PATIENCE: Final = 0.15  # seconds for one save or one look, unless the settings say otherwise
PAUSE: Final = 0.5  # after one that failed, without another: a stream does not stand still for its copies
LIVES: Final = 120_000  # milliseconds that a saved session is kept
FAILURES: Final = (RedisError, OSError, aiohttp.ClientError, TimeoutError, msgspec.DecodeError)


class Fenced(Exception):
    """Somebody else owns the session by now."""

    def __init__(self, highest: int) -> None:
        super().__init__(f"owned by a turn with token {highest}")
        self.highest = highest


class Incomplete(Exception):
    """The holder lacks what was sent before: send all of it."""


class Kept(NamedTuple):
    """Where a session was saved, and the highest token that is known there: no stale one is below it."""

    to: str
    highest: int


class Way(ABC):
    """Where sessions are kept."""

    name: str  # as `session.resumed` tells it

    @abstractmethod
    async def acquire(self, session: str, known: int) -> int:
        """A token for the turn that owns the session from now on, higher than any before; `known` is one of those."""

    @abstractmethod
    async def save(self, state: State) -> Kept:
        """Where it is now; raises Fenced, Incomplete, or one of FAILURES."""

    @abstractmethod
    async def find(self, session: str) -> list[State]:
        """What is kept of it, best first. Nothing where nobody can be asked."""


class Lose(Way):
    """Nothing is kept: who comes next computes it anew from what was said."""

    name = "recompute"

    async def acquire(self, session: str, known: int) -> int:
        return known + 1

    async def save(self, state: State) -> Kept:
        return Kept("", state.head.token)

    async def find(self, session: str) -> list[State]:
        return []


class Tokens:
    """Hands out tokens from the store; without it, from what is known here."""

    def __init__(self, store: Redis, patience: float = PATIENCE) -> None:
        self._acquire, self._patience = store.register_script(ACQUIRE), patience

    async def next(self, session: str, known: int) -> int:
        try:
            async with asyncio.timeout(self._patience):
                return int(await self._acquire([f"fence:{session}"], [known, LIVES]))
        except FAILURES:
            with inside.recovery_path("token.local"):
                return known + 1


class InStore(Way):
    """`checkpoint` and `external`: a hash in the store, a field for the head and one for each block."""

    def __init__(
        self,
        name: str,
        store: Redis,
        tokens: Tokens,
        *,
        unfenced: bool = False,
        hidden: bool = False,
        patience: float = PATIENCE,
    ) -> None:
        self.name, self._store, self._tokens, self._unfenced = name, store, tokens, unfenced or hidden
        self._hidden, self._patience = hidden, patience
        self._save = store.register_script(SAVE)

    async def acquire(self, session: str, known: int) -> int:
        return await self._tokens.next(session, known)

    async def save(self, state: State) -> Kept:
        head = state.head
        token = 1 << 50 if self._unfenced else head.token
        fields: list[str | bytes] = ["head", msgspec.json.encode(head)]
        for place, data in state.blocks.items():
            fields += [f"b{place}", data]
        async with asyncio.timeout(self._patience):
            answer = await self._save([f"fence:{head.session}", f"kv:{head.session}"], [token, LIVES, *fields])
        if int(answer) < 0:
            raise Fenced(-int(answer))
        return Kept("store", head.token if self._hidden else int(answer))

    async def find(self, session: str) -> list[State]:
        try:
            async with asyncio.timeout(self._patience):
                fields: dict[Any, Any] = await self._store.hgetall(f"kv:{session}")
            if b"head" not in fields:
                return []
            head = msgspec.json.decode(fields[b"head"], type=Head)
        except FAILURES:
            return []
        state = State(head=head, blocks={int(n[1:]): data for n, data in fields.items() if n != b"head"})
        return [state] if state.complete else []


class Pausing(Way):
    """Another way, which is left alone for a while after it has failed."""

    def __init__(self, way: Way, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self._way, self._clock = way.name, way, clock
        self._until = 0.0

    async def acquire(self, session: str, known: int) -> int:
        return await self._way.acquire(session, known)

    async def find(self, session: str) -> list[State]:
        return await self._way.find(session)

    async def save(self, state: State) -> Kept:
        if self._clock() < self._until:
            raise TimeoutError("it has just failed")
        try:
            return await self._way.save(state)
        except FAILURES:
            self._until = self._clock() + PAUSE
            raise
