"""What a replica answers, and with which status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from targets.serving.replica.admission import Shed
from targets.serving.replica.engine import Broken
from targets.serving.replica.features import NoCritical
from targets.serving.replica.saving import Fenced
from targets.serving.replica.turns import Mistake
from targets.serving.wire import CAUSE, DRAINING, SHED

encode = msgspec.json.Encoder().encode
GONE = 499  # of a client that does not wait; nobody reads it


class NotReady(Exception):
    """Nothing is loaded yet."""


def answer(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer in JSON."""
    return web.Response(status=status, body=encode(body), content_type="application/json", headers=headers)


def draining() -> web.Response:
    """Refused: this replica leaves."""
    response = answer(503, {"error": "draining"}, {DRAINING: "1"})
    response.force_close()
    return response


def refusal(error: BaseException) -> web.Response | None:
    """The answer that an error means; None: nobody expected it."""
    match error:
        case Mistake() | msgspec.MsgspecError():
            return answer(400, {"error": str(error)})
        case Shed():
            return answer(429, {"error": f"shed: {error.reason}"}, {SHED: error.reason})
        case TimeoutError():
            return answer(504, {"error": "deadline"})
        case NoCritical():
            return answer(503, {"error": f"critical features: {error}"}, {CAUSE: "store"})
        case NotReady() | Fenced():
            return answer(503, {"error": str(error)})
        case Broken():
            return answer(500, {"error": str(error)})
        case ConnectionError():
            return web.Response(status=GONE)
    return None
