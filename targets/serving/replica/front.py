"""The replica's HTTP face: which request goes where, and what all answers have in common."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable

from aiohttp import web
from opentelemetry.trace import Span

from targets.serving.logs import Log
from targets.serving.replica.answers import answer, draining, refusal
from targets.serving.replica.drain import Drain
from targets.serving.replica.meters import Meters
from targets.serving.settings import Settings
from targets.serving.tracing import PARENT, Tracing
from targets.serving.wire import ATTEMPT, DEADLINE, ID, Deadline

Handler = Callable[[web.BaseRequest, str, Span, Deadline], Awaitable[web.StreamResponse]]
View = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
RANK, GENERATE = "rank", "generate"


class Front:
    """Answers every request, whatever goes wrong behind it."""

    def __init__(self, settings: Settings, drain: Drain, tracing: Tracing, log: Log, meters: Meters) -> None:
        self._allowed = {RANK: settings.deadline, GENERATE: settings.stream_deadline}
        self._drain, self._tracing, self._log, self._meters = drain, tracing, log, meters
        self.handlers: dict[str, Handler] = {}  # by what is asked
        self.views: dict[tuple[str, str], View] = {}  # by method and path
        self.asked = 0  # requests that have come, whatever became of them

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer to any request."""
        what = request.path[1:]
        if request.method == "POST" and (handler := self.handlers.get(what)) is not None:
            return await self._serve(request, what, handler)
        if view := self.views.get((request.method, request.path)):
            return await view(request)
        if request.path.startswith("/trace/"):
            return answer(200, {"spans": self._tracing.of(request.path.removeprefix("/trace/"))})
        return answer(400, {"error": f"nothing is at {request.method} {request.path}"})

    async def _serve(self, request: web.BaseRequest, what: str, handler: Handler) -> web.StreamResponse:
        self.asked += 1
        if self._drain.leaving:
            return draining()
        id = request.headers.get(ID) or secrets.token_hex(16)
        try:
            deadline = Deadline.of(request.headers.get(DEADLINE), self._allowed[what])
        except ValueError:
            return answer(400, {"error": f"{DEADLINE} is no number"})
        began = time.monotonic()
        with self._drain.request(stream=what == GENERATE):
            parent = request.headers.get(PARENT)
            with self._tracing.span(what, id, parent=parent, server=True) as span:
                response = await self._guarded(request, handler, id, span, deadline)
                span.set_attribute("http.status_code", response.status)
        seconds = time.monotonic() - began
        self._meters.request(what, response.status, seconds)
        attempt = request.headers.get(ATTEMPT)
        self._log.info(what, request=id, attempt=attempt, status=response.status, seconds=round(seconds, 6))
        return response

    async def _guarded(
        self, request: web.BaseRequest, handler: Handler, id: str, span: Span, deadline: Deadline
    ) -> web.StreamResponse:
        try:
            return await handler(request, id, span, deadline)
        except Exception as error:  # its client is to be answered, whatever it was
            refused = refusal(error)
            if refused is None:
                self._log.error(f"{type(error).__name__}: {error}", request=id)
                return answer(500, {"error": "the replica failed"})
            return refused
