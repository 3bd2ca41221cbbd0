"""One turn of a session: find what is known of it, compute the rest, say it token by token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Final

import msgspec

from chaos import inside
from targets.serving import defects
from targets.serving.models.shapes import CONTEXT, SYSTEM
from targets.serving.replica.admission import Shed
from targets.serving.replica.blocks import NoBlocks
from targets.serving.replica.engine import Engine, Work
from targets.serving.replica.keeper import Keeper
from targets.serving.replica.loading import Loaded
from targets.serving.replica.points import stand
from targets.serving.replica.sessions import Session, Sessions
from targets.serving.settings import PROMPT_MOST, VOCABULARY, Settings

PATHS: Final = {
    "recompute": "session.recompute",
    "checkpoint": "session.checkpoint",
    "replica": "session.replica",
    "external": "session.external",
}
Write = Callable[[int, int], Awaitable[None]]


class Mistake(ValueError):
    """The client's own."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """The body of `/generate`, as the router sends it."""

    session: str
    turn: int
    prompt: list[int]
    tokens: int
    so_far: list[int] = []
    history: list[int] = []
    generation: int | None = None
    begin: int = msgspec.field(default=0, name="from")

    def check(self) -> None:
        """Raises Mistake."""
        if not 0 < len(self.prompt) <= PROMPT_MOST:
            raise Mistake(f"a prompt has 1 to {PROMPT_MOST} tokens")
        if any(not 0 <= token < VOCABULARY for token in (*self.prompt, *self.so_far, *self.history)):
            raise Mistake(f"tokens are 0 to {VOCABULARY - 1}")
        if self.tokens < 1 or self.turn < 0 or self.begin != len(self.so_far):
            raise Mistake("tokens, turn or from is out of range")
        if len(SYSTEM) + len(self.history) + len(self.prompt) + self.tokens > CONTEXT:
            raise Mistake(f"the session would be longer than {CONTEXT} tokens")


class Resumed:
    """How a session came to be here that was elsewhere before."""

    def __init__(self, way: str, recomputed: int) -> None:
        self.way, self.recomputed = way, recomputed


class Turns:
    """Says what sessions say."""

    def __init__(self, settings: Settings, replica: str, engine: Engine, sessions: Sessions, keeper: Keeper) -> None:
        self._settings, self._replica, self._engine = settings, replica, engine
        self._sessions, self._keeper = sessions, keeper
        self._repeats = defects.active(settings, defects.TOKENS_REPEATED_AFTER_RESUME)
        self._unused = defects.active(settings, defects.COPY_NOT_USED)
        self._leaks = defects.active(settings, defects.KV_NOT_FREED)

    async def say(self, ask: Ask, loaded: Loaded, write: Write) -> Resumed | None:
        """All tokens that are still to be said. Raises Shed, Fenced, Broken, and what `write` does.

        However it fails, the session is over here and its blocks are free: whoever goes on has the transcript.
        """
        began, work = time.monotonic(), Work()
        session = await self._enter(ask.session, loaded)
        try:
            resumed = await self._prepare(session, ask)
            first = len(SYSTEM) + len(ask.history) + len(ask.prompt)
            at = ask.begin
            with inside.recovery_path(PATHS[resumed.way]) if resumed else nullcontext():
                await self._known(session, first + at, work)
                if resumed:
                    self._tell(ask, resumed, work, time.monotonic() - began)
            if self._repeats and resumed:
                at = max(at - 1, 0)
            await self._stream(session, ask, first, at, write)
            self._sessions.touch(session)
        except BaseException as error:
            if self._leaks and isinstance(error, ConnectionError | asyncio.CancelledError):
                self._sessions.leak(session)
            else:
                self._sessions.close(session)
            raise
        finally:
            session.busy.release()
        return resumed

    async def _stream(self, session: Session, ask: Ask, first: int, at: int, write: Write) -> None:
        due = time.monotonic()
        while at < ask.tokens:
            await self._known(session, first + at)
            await self._keeper.grown(session, last=at + 1 == ask.tokens)
            await asyncio.sleep(due - time.monotonic())
            due = max(due + self._settings.token_seconds, time.monotonic())
            await stand("stream.token", replica=self._replica, session=session.id, turn=ask.turn, i=at)
            await write(at, session.tokens[first + at])
            at += 1

    async def _enter(self, id: str, loaded: Loaded) -> Session:
        """The session, for this turn alone; a new one where there is none of this generation."""
        while True:
            session = self._sessions.get(id) or self._sessions.open(id, loaded)
            await session.busy.acquire()
            if self._sessions.get(id) is session:
                if session.loaded.digest == loaded.digest:
                    session.loaded = loaded  # the same numbers, perhaps read again
                    return session
                self._sessions.close(session)
            session.busy.release()

    async def _prepare(self, session: Session, ask: Ask) -> Resumed | None:
        """Bring the session to what the router says of it; how, if it was not here."""
        expected = [*SYSTEM, *ask.history, *ask.prompt, *ask.so_far]
        before = len(SYSTEM) + len(ask.history) + (len(ask.prompt) + ask.begin if ask.begin else 0)
        session.turn = ask.turn
        session.align(expected)
        lacking, way, known = before - 1 - session.fed > 0, "recompute", 0
        if lacking and (found := await self._keeper.find(session, expected)) is not None:
            state, usable = found
            known = state.head.token
            if usable > session.fed:
                self._room(session, usable)
                here = session.fed
                self._keeper.restore(session, state, usable)
                way = self._keeper.name
        await self._keeper.own(session, known)
        resumed = Resumed(way, max(before - 1 - session.fed, 0)) if lacking else None
        if self._unused and way != "recompute":
            session.fed = here
        return resumed

    async def _known(self, session: Session, place: int, work: Work | None = None) -> None:
        """Compute until the token at `place` is known."""
        while place >= len(session.tokens):
            self._room(session, len(session.tokens))
            start = min(session.fed, len(session.tokens) - 1)  # to say what follows a token, it is computed
            token = await self._engine.feed(session.loaded, session.blocks, start, session.tokens[start:], work)
            session.fed = len(session.tokens)
            session.tokens.append(token)

    def _room(self, session: Session, tokens: int) -> None:
        try:
            self._sessions.room(session, tokens)
        except NoBlocks:
            raise Shed("limit") from None

    def _tell(self, ask: Ask, resumed: Resumed, work: Work, seconds: float) -> None:
        inside.emit(
            "session.resumed",
            replica=self._replica, session=ask.session, turn=ask.turn, way=resumed.way,
            recomputed=resumed.recomputed, computed=work.tokens, seconds=round(seconds, 6),
        )  # fmt: skip
