"""`failover: replicate`: each session has a copy at the next replica, which it grows with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import aiohttp
import msgspec

from chaos import inside
from targets.serving.replica.saving import FAILURES, PATIENCE, Fenced, Incomplete, Kept, Tokens, Way
from targets.serving.replica.state import State, merge

KEPT: Final = 120.0  # seconds without an update, after which a copy is dropped
FENCED, INCOMPLETE = 409, 428  # statuses of a refused update
TOKEN: Final = "x-highest-token"

_decode = msgspec.msgpack.Decoder(State).decode
encode = msgspec.msgpack.encode


class Copies:
    """Copies that this replica holds for others, and the highest token that it knows of each session."""

    def __init__(
        self, *, unfenced: bool = False, hidden: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._unfenced, self._hidden, self._clock = unfenced or hidden, hidden, clock
        self._copies: dict[str, tuple[State, float]] = {}
        self._highest: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._copies)

    def highest(self, session: str) -> int:
        return self._highest.get(session, 0)

    def own(self, session: str, token: int) -> None:
        """This replica owns the session: whoever owned it before is refused from now on."""
        self._highest[session] = max(token, self.highest(session))

    def put(self, update: State) -> int:
        """Take an update; the highest token of that session. Raises Fenced or Incomplete."""
        session = update.head.session
        if update.head.token < self.highest(session) and not self._unfenced:
            raise Fenced(self.highest(session))
        kept = self._copies.get(session)
        merged = merge(kept[0] if kept else None, update)
        if merged is None:
            raise Incomplete
        self._copies[session] = (merged, self._clock())
        self._highest[session] = max(update.head.token, self.highest(session))
        return update.head.token if self._hidden else self.highest(session)

    def get(self, session: str) -> State | None:
        kept = self._copies.get(session)
        return kept[0] if kept else None

    def drop_old(self) -> None:
        """Of sessions that nobody goes on with."""
        before = self._clock() - KEPT
        for session in [session for session, (_, since) in self._copies.items() if since < before]:
            del self._copies[session]
            self._highest.pop(session, None)


class InPeers(Way):
    """Sends updates to the next replica that answers; finds copies here and at all others."""

    name = "replica"

    def __init__(
        self,
        index: int,
        urls: Sequence[str],
        http: aiohttp.ClientSession,
        copies: Copies,
        tokens: Tokens,
        patience: float = PATIENCE,
    ) -> None:
        self._http, self._copies, self._tokens, self._patience = http, copies, tokens, patience
        order = [*range(index + 1, len(urls)), *range(index)]
        self._peers = [(f"replica-{i}", urls[i]) for i in order]
        self._down: dict[str, float] = {}

    async def acquire(self, session: str, known: int) -> int:
        token = await self._tokens.next(session, max(known, self._copies.highest(session)))
        self._copies.own(session, token)
        return token

    async def save(self, state: State) -> Kept:
        now = time.monotonic()
        for name, url in self._peers:
            if self._down.get(name, 0.0) > now:
                continue
            try:
                return Kept(name, await self._send(url, state))
            except FAILURES:
                with inside.recovery_path("session.next_peer"):
                    self._down[name] = time.monotonic() + 1.0  # and the next one has to be sent all of it
        raise TimeoutError("no other replica answers")

    async def find(self, session: str) -> list[State]:
        found = [own] if (own := self._copies.get(session)) else []
        if not found:
            asked = await asyncio.gather(*(self._look(url, session) for _, url in self._peers))
            found = [state for state in asked if state is not None]
        return sorted(found, key=lambda state: (state.head.token, state.head.fed), reverse=True)

    async def _send(self, url: str, state: State) -> int:
        timeout = aiohttp.ClientTimeout(total=self._patience)
        async with self._http.post(f"{url}/kv", data=encode(state), timeout=timeout) as answer:
            highest = int(answer.headers.get(TOKEN, "0"))
            if answer.status == FENCED:
                raise Fenced(highest)
            if answer.status == INCOMPLETE:
                raise Incomplete
            answer.raise_for_status()
            return highest

    async def _look(self, url: str, session: str) -> State | None:
        try:
            timeout = aiohttp.ClientTimeout(total=self._patience)
            async with self._http.get(f"{url}/kv", params={"session": session}, timeout=timeout) as answer:
                if answer.status != 200:
                    return None
                state = decode(await answer.read())
                return state if state.complete else None
        except FAILURES:
            return None


def decode(data: bytes) -> State:
    """An update as it came over the network; raises msgspec.DecodeError."""
    return _decode(data)
