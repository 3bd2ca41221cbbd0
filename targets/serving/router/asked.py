"""A request as the router understands it, and its answers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from targets.serving.wire import DEADLINE, DRAINING, ID, IDEMPOTENCY, PRIORITIES, PRIORITY, SHED, Deadline

RANK, GENERATE = "rank", "generate"
MOST = 3600.0  # seconds that a client may allow

encode = msgspec.json.Encoder().encode


class Mistake(ValueError):
    """The client's own; answered with 400."""


class Asked:
    """What a client asked: the same over all attempts."""

    def __init__(self, request: web.BaseRequest, what: str, *, allowed: float, inherited: bool = True) -> None:
        """`allowed`: seconds, where the client does not say; `inherited`: whether attempts get what is left of them."""
        headers = request.headers
        self.what = what
        self.id = headers.get(ID) or secrets.token_hex(16)
        self.priority = headers.get(PRIORITY, "normal")
        self.key = headers.get(IDEMPOTENCY)
        self.allowed, self._inherited = allowed, inherited
        self.queued = 0.0  # seconds that it waited for its turn
        try:
            if DEADLINE in headers:
                self.allowed = int(headers[DEADLINE]) / 1000
        except ValueError:
            raise Mistake(f"{DEADLINE} is no number") from None
        if not 0 <= self.allowed <= MOST:
            raise Mistake(f"{DEADLINE} is out of range")
        if self.priority not in PRIORITIES:
            raise Mistake(f"{PRIORITY} is one of {', '.join(PRIORITIES)}")
        self.deadline = Deadline(self.allowed)

    @property
    def left(self) -> float:
        """Seconds that an attempt which begins now may count on."""
        return self.deadline.left if self._inherited else self.allowed


class Turn(msgspec.Struct, frozen=True):
    """The body of `/generate`."""

    session: str
    turn: int
    prompt: list[int]
    tokens: int


_turn = msgspec.json.Decoder(Turn)


def turn_of(body: bytes) -> Turn:
    """The turn that a client asks for; raises Mistake where it is none."""
    try:
        return _turn.decode(body)
    except msgspec.MsgspecError as error:
        raise Mistake(str(error)) from None


def answer(status: int, body: bytes | Mapping[str, Any], headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer in JSON."""
    content = body if isinstance(body, bytes) else encode(body)
    return web.Response(status=status, body=content, content_type="application/json", headers=headers)


def shed(reason: str) -> web.Response:
    """Refused: too much to do."""
    return answer(429, {"error": f"shed: {reason}"}, {SHED: reason})


def draining() -> web.Response:
    """Refused: this router leaves."""
    response = answer(503, {"error": "draining"}, {DRAINING: "1"})
    response.force_close()
    return response
