"""The router's HTTP face: which request goes where, and what every answer of it has in common."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from targets.serving.defects import DEADLINE_NOT_INHERITED, DRAIN_ACCEPTS, active
from targets.serving.logs import Log
from targets.serving.router.asked import GENERATE, RANK, Asked, Mistake, answer, draining, shed
from targets.serving.router.attempt import ClientGone
from targets.serving.router.door import Shed
from targets.serving.router.drain import Drain
from targets.serving.router.meters import Meters
from targets.serving.settings import Settings
from targets.serving.tracing import PARENT, Tracing

Handler = Callable[[web.BaseRequest, Asked], Awaitable[web.StreamResponse]]
View = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Front:
    """Answers every request, whatever goes wrong behind it."""

    def __init__(self, settings: Settings, drain: Drain, tracing: Tracing, log: Log, meters: Meters) -> None:
        self._settings, self._drain = settings, drain
        self._tracing, self._log, self._meters = tracing, log, meters
        self.handlers: dict[str, Handler] = {}  # by what is asked
        self.views: dict[str, View] = {}  # by path: what operators and tests look at

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer to any request."""
        path = request.path
        if request.method == "POST" and (handler := self.handlers.get(path[1:])) is not None:
            return await self._serve(request, path[1:], handler)
        if view := self.views.get(path):
            return await view(request)
        if path.startswith("/trace/"):
            return answer(200, {"spans": self._tracing.of(path.removeprefix("/trace/"))})
        return answer(400, {"error": f"nothing is at {request.method} {path}"})

    async def _serve(self, request: web.BaseRequest, what: str, handler: Handler) -> web.StreamResponse:
        if self._drain.draining and not active(self._settings, DRAIN_ACCEPTS):
            return draining()
        began = time.monotonic()
        try:
            asked = Asked(
                request,
                what,
                allowed=self._settings.deadline if what == RANK else self._settings.stream_deadline,
                inherited=not active(self._settings, DEADLINE_NOT_INHERITED),
            )
        except Mistake as error:
            return answer(400, {"error": str(error)})
        with self._drain.request(stream=what == GENERATE):
            response = await self._traced(request, asked, handler)
        seconds = time.monotonic() - began
        self._meters.request(what, response.status, seconds)
        self._log.info(what, request=asked.id, status=response.status, seconds=round(seconds, 6))
        return response

    async def _traced(self, request: web.BaseRequest, asked: Asked, handler: Handler) -> web.StreamResponse:
        parent = request.headers.get(PARENT)
        with self._tracing.span(asked.what, asked.id, parent=parent, server=True, priority=asked.priority) as span:
            response = await self._guarded(request, asked, handler)
            span.set_attribute("http.status_code", response.status)
            return response

    async def _guarded(self, request: web.BaseRequest, asked: Asked, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request, asked)
        except Mistake as error:
            return answer(400, {"error": str(error)})
        except Shed as error:
            return shed(error.reason)
        except web.HTTPRequestEntityTooLarge as error:
            return answer(400, {"error": str(error)})
        except (ClientGone, ConnectionError):
            return answer(499, {"error": "the client has gone"})  # nobody reads it
        except Exception as error:  # its client is to be answered, whatever it was
            self._log.error(f"{type(error).__name__}: {error}", request=asked.id)
            return answer(500, {"error": "the router failed"})
