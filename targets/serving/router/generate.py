"""`POST /generate`: a stream of tokens that goes on elsewhere when its replica is lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from targets.serving.defects import STREAM_RESTARTS, active
from targets.serving.router.asked import GENERATE, Asked, Mistake, Turn, answer, encode, turn_of
from targets.serving.router.attempt import Attempter, ClientGone, StreamError
from targets.serving.router.door import Door
from targets.serving.router.rank import finished
from targets.serving.router.replica import Replica
from targets.serving.router.result import Kind, Result
from targets.serving.router.sessions import Session, Sessions
from targets.serving.router.tries import Tries
from targets.serving.settings import Settings
from targets.serving.wire import ATTEMPTS, DEADLINE, GENERATION, IDEMPOTENCY

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Generation:
    """Hands turns of sessions on. The router knows what was said, so that any replica can go on at any token."""

    def __init__(self, door: Door, tries: Tries, attempter: Attempter, sessions: Sessions, settings: Settings) -> None:
        self._door, self._tries, self._attempter = door, tries, attempter
        self._sessions, self._settings = sessions, settings

    async def __call__(self, request: web.BaseRequest, asked: Asked) -> web.StreamResponse:
        """One unbroken stream, over as many replicas as it takes."""
        turn = turn_of(await request.read())
        session = self._sessions.get(turn.session)
        async with session.turn:  # a turn that comes again waits for the first one, and gets what that said
            stream = Stream(request, asked, turn, session)
            if asked.key is not None and asked.key == session.key:
                return await stream.repeat()
            if turn.turn < session.turns:
                raise Mistake(f"turn {turn.turn} of this session was completed")
            if turn.turn > session.turns:
                return answer(503, {"error": "this session is not known here"})
            async with self._door.visit(asked) as visit:
                result = await self._run(stream, asked, session)
                visit.measured = result.kind is Kind.ANSWER and result.attempts == 1
            if result.kind is Kind.SHED:
                self._door.refused(asked, result.reason, waited=result.seconds)
            return await stream.end(result)

    async def _run(self, stream: Stream, asked: Asked, session: Session) -> Result:
        restarts = active(self._settings, STREAM_RESTARTS)

        async def one(replica: Replica, number: int, limit: float) -> Result:
            if restarts:
                stream.tokens.clear()
            stream.attempts, stream.share = number, limit / max(asked.left, limit)
            session.at = replica.index
            return await self._attempter(
                asked,
                replica,
                number,
                body=stream.body(),
                limit=limit,
                usual=self._door.admission.service(GENERATE),
                headers={DEADLINE: str(max(int(asked.left * 1000), 0))}
                | ({IDEMPOTENCY: asked.key} if asked.key else {}),
                reader=stream,
            )

        return await self._tries.run(
            asked,
            one,
            usual=self._door.admission.service(GENERATE),
            prefer=lambda: self._preferred(session),
            path=lambda: "stream.failover" if stream.tokens else "request.retry",
        )

    def _preferred(self, session: Session) -> tuple[int, ...]:
        """Where its state is, and where a copy of it may be."""
        return () if session.at is None else (session.at, (session.at + 1) % self._settings.replicas)


class Stream:
    """The answer to one turn, as far as the client has it."""

    def __init__(self, request: web.BaseRequest, asked: Asked, turn: Turn, session: Session) -> None:
        self._request, self._asked, self._turn, self._session = request, asked, turn, session
        self._response: web.StreamResponse | None = None
        self._resumed: object = None
        self._recomputed = 0
        self._done: dict[str, Any] | None = None
        self.tokens: list[int] = []
        self.attempts, self.share = 0, 1.0
        self._generation = session.generation

    @property
    def streamed(self) -> int:
        return len(self.tokens)

    def opened(self, headers: Mapping[str, str]) -> None:
        """A session stays with the weights that it began with: others would say something else."""
        if self._generation is None and GENERATION in headers:
            self._generation = int(headers[GENERATION])

    def body(self) -> bytes:
        """What a replica is asked."""
        more: dict[str, Any] = {"from": len(self.tokens), "so_far": self.tokens} if self.tokens else {}
        if self._generation is not None:
            more["generation"] = self._generation
        return encode({**msgspec.structs.asdict(self._turn), "history": self._session.history, **more})

    async def take(self, line: bytes) -> float | None:
        """A line of a replica: on to the client, if it is for it; how long the next one may take."""
        said = _decode(line)
        if "token" in said:
            self.tokens.append(said["token"])
            await self._write(line)
            return self._asked.left * self.share
        if "error" in said:
            raise StreamError(str(said["error"]))
        self._resumed = said.get("resumed") or self._resumed
        self._recomputed += said.get("recomputed") or 0
        self._done = said
        return None

    async def end(self, result: Result) -> web.StreamResponse:
        """The last line, or an answer without a stream."""
        if result.kind is Kind.GONE:
            raise ClientGone
        if result.kind is Kind.ANSWER and self._done is not None:
            done = self._done | {"tokens": len(self.tokens), "resumed": self._resumed, "recomputed": self._recomputed}
            self._session.generation = self._generation
            self._session.complete(self._turn.prompt, self.tokens, self._asked.key, done)
            return await self._last({**done, "attempts": result.attempts})
        if self._response is None:
            return finished(result)
        status = 504 if result.kind is Kind.LATE else 503
        return await self._last({"error": result.reason, "status": status, "attempts": result.attempts})

    async def repeat(self) -> web.StreamResponse:
        """The answer that was given already."""
        for i, token in enumerate(self._session.answer):
            await self._write(encode({"i": i, "token": token}) + b"\n")
        return await self._last({**self._session.done, "attempts": 0})

    async def _last(self, line: Mapping[str, Any]) -> web.StreamResponse:
        await self._write(encode(line) + b"\n")
        assert self._response is not None
        await self._response.write_eof()
        return self._response

    async def _write(self, line: bytes) -> None:
        try:
            if self._response is None:
                self._response = web.StreamResponse(
                    headers={ATTEMPTS: str(self.attempts), "Content-Type": "application/x-ndjson"}
                )
                self._response.enable_chunked_encoding()
                await self._response.prepare(self._request)
            await self._response.write(line)
        except ConnectionError as error:
            raise ClientGone from error
