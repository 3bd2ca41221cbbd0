"""The helper's door: publish another generation, ask the source of record, lose or restart the store's memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from targets.serving.publish import publish_next
from targets.serving.settings import USERS, Address, Place, Settings
from targets.serving.store.source import Source


class Helper:
    """Serves HTTP on a port beside the store's."""

    def __init__(
        self, settings: Settings, place: Place, source: Source, lose: Callable[[float], Awaitable[None]]
    ) -> None:
        self._settings, self._place, self._source, self._lose = settings, place, source, lose
        self._publishing = asyncio.Lock()
        app = web.Application()
        app.router.add_get("/live", self._live)
        app.router.add_post("/publish", self._publish)
        app.router.add_get("/features/{user}", self._features)
        app.router.add_post("/restart", self._restart)
        self._runner = web.AppRunner(app, access_log=None)

    async def start(self, address: Address) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, *address).start()

    async def close(self) -> None:
        await self._runner.cleanup()

    async def publish(self) -> int:
        """Another generation; its number."""
        async with self._publishing:
            return await asyncio.to_thread(publish_next, self._place.models, self._settings)

    async def _live(self, request: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def _publish(self, request: web.Request) -> web.Response:
        return web.json_response({"generation": await self.publish()})

    async def _features(self, request: web.Request) -> web.Response:
        text = request.match_info["user"]
        if not text.isdecimal() or int(text) >= USERS:
            return web.json_response({"error": "unknown user"}, status=400)
        return web.Response(body=await self._source.of(int(text), request.query.get("replica", "")))

    async def _restart(self, request: web.Request) -> web.Response:
        """`?down=SECONDS`: until it is back, empty."""
        await self._lose(float(request.query.get("down", "0")))
        return web.json_response({"restarted": True})
