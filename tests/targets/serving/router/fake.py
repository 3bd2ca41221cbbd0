"""A replica that keeps the contract of PROTOCOL.md, computes nothing, and can be told to misbehave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from targets.serving.settings import Address


def token_at(position: int) -> int:
    """The token at a position of any session's transcript."""
    return position * 7 % 251


class FakeReplica:
    """One fake. Its attributes are how it behaves from now on."""

    def __init__(self, index: int, address: Address) -> None:
        self.name, self.address = f"replica-{index}", address
        self.levels = {"live": True, "ready": True, "correct": True}
        self.silent: set[str] = set()  # levels that get no answer
        self.status = 200  # of `/rank` and `/generate`
        self.headers: dict[str, str] = {}  # of what is not 200
        self.seconds = 0.0  # that a ranking takes
        self.pause = 0.002  # between two tokens
        self.dies_at: int | None = None  # breaks its connections before this token of a turn
        self.stops_at: int | None = None  # says nothing more before this token
        self.draining = False
        self.runs = asyncio.Event()  # cleared: as one that is frozen
        self.runs.set()
        self.asked: list[tuple[str, Mapping[str, str], Any]] = []  # path, headers, body
        self._runner: web.ServerRunner | None = None

    async def start(self) -> None:
        """Listen."""
        self._runner = web.ServerRunner(web.Server(self._serve, access_log=None), shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, *self.address).start()

    async def stop(self) -> None:
        """As a process that was killed: nobody listens, open connections break."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    def times(self, path: str) -> int:
        """How often it was asked for `path`."""
        return sum(asked == path for asked, _, _ in self.asked)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        await self.runs.wait()
        path = request.path
        if path[1:] in self.levels:
            if path[1:] in self.silent:
                await asyncio.Event().wait()
            if path == "/ready" and self.draining:
                return web.Response(status=503, headers={"x-draining": "1"})
            return web.json_response({path[1:]: self.levels[path[1:]]}, status=200 if self.levels[path[1:]] else 503)
        body = json.loads(await request.read() or "null")
        self.asked.append((path, request.headers.copy(), body))
        if self.draining:
            return web.Response(status=503, headers={"x-draining": "1"})
        if self.status != 200:
            await asyncio.sleep(self.seconds)
            return web.Response(status=self.status, headers=self.headers)
        return await (self._rank(request, body) if path == "/rank" else self._generate(request, body))

    async def _rank(self, request: web.BaseRequest, body: Any) -> web.Response:
        await asyncio.sleep(self.seconds)
        tier = request.headers.get("x-tier", "primary")
        return web.json_response({"scores": [0.5] * len(body["items"]), "tier": tier, "replica": self.name})

    async def _generate(self, request: web.BaseRequest, body: Any) -> web.StreamResponse:
        response = web.StreamResponse(headers={"x-generation": "1"})
        await response.prepare(request)
        start = len(body.get("history", [])) + len(body["prompt"])
        for i in range(body.get("from", 0), body["tokens"]):
            await asyncio.sleep(self.pause)
            if i == self.dies_at:
                assert request.transport is not None
                request.transport.abort()
                return response
            if i == self.stops_at:
                await asyncio.Event().wait()
            await response.write(json.dumps({"i": i, "token": token_at(start + i)}).encode() + b"\n")
        done = {"done": True, "tokens": body["tokens"] - body.get("from", 0), "resumed": None, "recomputed": 0}
        if "from" in body or body.get("history"):
            done |= {"resumed": "recompute", "recomputed": start}
        await response.write(
            json.dumps({**done, "replica": self.name, "generation": 1, "digest": "d"}).encode() + b"\n"
        )
        return response
