"""`POST /generate`: the tokens of a turn, as they come."""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import web
from opentelemetry.trace import Span

from targets.serving.replica.admission import Shed
from targets.serving.replica.answers import NotReady, encode, refusal
from targets.serving.replica.loading import Loaded
from targets.serving.replica.shelf import Shelf
from targets.serving.replica.turns import Ask, Turns
from targets.serving.wire import GENERATION, Deadline

_decode = msgspec.json.Decoder(Ask).decode


class Stream:
    """The answer on its way. It begins with the first token: until then, the status may still be another one."""

    def __init__(self, request: web.BaseRequest, loaded: Loaded) -> None:
        self._request, self._loaded = request, loaded
        self.response: web.StreamResponse | None = None

    async def token(self, i: int, token: int) -> None:
        """The next one; raises ConnectionError when nobody reads."""
        await self.line({"i": i, "token": token})

    async def line(self, fields: dict[str, object]) -> None:
        if self.response is None:
            headers = {"Content-Type": "application/x-ndjson", GENERATION: str(self._loaded.generation)}
            self.response = web.StreamResponse(headers=headers)
            self.response.enable_chunked_encoding()
            await self.response.prepare(self._request)
        await self.response.write(encode(fields) + b"\n")

    async def end(self, fields: dict[str, object]) -> web.StreamResponse:
        """The last line."""
        await self.line(fields)
        assert self.response is not None
        await self.response.write_eof()
        return self.response


class Generation:
    """Streams, at most `most` of them."""

    def __init__(self, replica: str, shelf: Shelf, turns: Turns, most: int) -> None:
        self._replica, self._shelf, self._turns, self._most = replica, shelf, turns, most
        self.streams = 0

    async def __call__(self, request: web.BaseRequest, id: str, span: Span, deadline: Deadline) -> web.StreamResponse:
        """The answer; raises what `answers.refusal` knows, until the stream has begun."""
        ask = _decode(await request.read())
        ask.check()
        loaded = await self._shelf.of(ask.generation, begun=bool(ask.so_far))
        if loaded is None:
            raise NotReady("no model is loaded yet")
        if ask.so_far and ask.generation not in (None, loaded.generation):
            # Half an answer of one generation and half of another is an answer of none: another replica may have it.
            raise NotReady(f"generation {ask.generation}, with which this answer was begun, is not here")
        if self.streams >= self._most:
            raise Shed("queue")
        stream = Stream(request, loaded)
        self.streams += 1
        try:
            return await self._say(stream, ask, loaded, deadline)
        except Exception as error:
            refused = refusal(error)
            if stream.response is None or refused is None or isinstance(error, ConnectionError):
                raise
            return await stream.end({"error": str(error) or "deadline", "status": refused.status})
        finally:
            self.streams -= 1

    async def _say(self, stream: Stream, ask: Ask, loaded: Loaded, deadline: Deadline) -> web.StreamResponse:
        async with asyncio.timeout(deadline.left):
            resumed = await self._turns.say(ask, loaded, stream.token)
        return await stream.end(
            {
                "done": True,
                "tokens": ask.tokens,
                "resumed": resumed.way if resumed else None,
                "recomputed": resumed.recomputed if resumed else 0,
                "replica": self._replica,
                "generation": loaded.generation,
                "digest": loaded.digest,
            }
        )
