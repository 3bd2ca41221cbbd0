"""A router for the load's tests: obeys the contract, or misbehaves as its first argument says.

`python -m tests.targets.serving.fake_router plain|silent|broken|gone ADDRESS` prints a line once it listens.
`silent` takes requests and never answers; `broken` ends streams after five tokens, and answers nothing else but 503;
`gone` ends once it has said that it is ready.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from aiohttp import web

from targets.serving.load.checker import warm
from targets.serving.load.golden import LIVE, Golden, Model
from targets.serving.settings import ITEMS, PROMPT_MOST, ROUTER_PORT, Settings


class Router:
    def __init__(self, mode: str, golden: Golden) -> None:
        self._mode = mode
        self._golden = golden
        self._sessions: dict[str, list[list[int]]] = {}

    async def ready(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write_eof()
        if self._mode == "gone":
            os._exit(0)
        return answer

    async def rank(self, request: web.Request) -> web.StreamResponse:
        await self._misbehave()
        try:
            asked = json.loads(await request.read())
        except ValueError:
            return web.Response(status=400)
        if max(asked["items"]) >= ITEMS:
            return web.Response(status=400)
        if self._mode == "broken":
            return web.Response(status=503)
        scores = list(self._golden.scores(1, "static", asked["user"], asked["items"], LIVE))
        known = {"tier": "static", "features": LIVE, "replica": "replica-0", "generation": 1, "digest": "d"}
        return web.json_response({"scores": scores, **known}, headers={"x-attempts": "1"})

    async def generate(self, request: web.Request) -> web.StreamResponse:
        await self._misbehave()
        asked = await request.json()
        if len(asked["prompt"]) > PROMPT_MOST:
            return web.Response(status=400)
        prompts = self._sessions.setdefault(asked["session"], [])
        prompts.append(asked["prompt"])
        tokens = self._golden.tokens(1, prompts, asked["tokens"])
        answer = web.StreamResponse(headers={"x-attempts": "1"})
        await answer.prepare(request)
        for i, token in enumerate(tokens):
            await answer.write(json.dumps({"i": i, "token": token}).encode() + b"\n")
            if self._mode == "broken" and i == 4:
                assert request.transport is not None
                request.transport.abort()
            await asyncio.sleep(0.002)
        await answer.write(json.dumps({"done": True, "tokens": len(tokens), "generation": 1}).encode() + b"\n")
        return answer

    async def _misbehave(self) -> None:
        if self._mode == "silent":
            await asyncio.Event().wait()


async def main(mode: str, address: str) -> None:
    settings = Settings.from_environment()
    golden = Model(settings)
    warm(golden, settings)
    router = Router(mode, golden)
    app = web.Application()
    app.router.add_get("/ready", router.ready)
    app.router.add_post("/rank", router.rank)
    app.router.add_post("/generate", router.generate)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, address, ROUTER_PORT).start()
    print("listening", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
