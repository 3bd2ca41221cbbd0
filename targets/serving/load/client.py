"""One request over HTTP, as its client sees it: whatever comes back, or nothing, is an answer to account for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import gevent
import msgspec
from geventhttpclient import HTTPClient
from geventhttpclient.response import HTTPConnectionClosed, HTTPParseError, HTTPSocketPoolResponse

from targets.serving import wire
from targets.serving.load.asks import Ask, Ranking, Turn
from targets.serving.load.tally import Tally
from targets.serving.settings import Address

PATIENCE = 1.0  # seconds beyond its deadline that a client waits on: a late answer is told from none

_encode = msgspec.json.Encoder().encode
_BROKEN = (OSError, HTTPConnectionClosed, HTTPParseError)


class Reply(msgspec.Struct, kw_only=True):
    """What came back."""

    status: int = 0  # 0: no answer
    error: str = ""
    attempts: int | None = None
    body: dict[str, Any] = {}  # of a stream: its last line
    tally: Tally | None = None


class Client:
    """Sends requests over as many connections as there are users, and keeps them."""

    def __init__(self, router: Address, users: int, clock: Callable[[], float]) -> None:
        """`clock`: seconds since the start of the load."""
        self._clock = clock
        # A connection that hangs is given up by the timeout of its request; the pool's own is only to bound a connect.
        self._http = HTTPClient(router.host, router.port, concurrency=users, network_timeout=3600.0)

    def send(self, ask: Ask) -> Reply:
        """Send it, and wait for its answer until its deadline and `PATIENCE`."""
        reply = Reply(tally=Tally(wanted=ask.tokens) if isinstance(ask, Turn) else None)
        patience = gevent.Timeout(max(ask.expires + PATIENCE - self._clock(), 0.001))
        patience.start()
        try:
            self._exchange(ask, reply)
        except gevent.Timeout as timeout:
            if timeout is not patience:
                raise
            reply.status, reply.error = 0, "timeout"
        except _BROKEN as error:
            reply.status, reply.error = (
                0,
                _cause(error, begun=reply.tally is not None and reply.tally.first is not None),
            )
        finally:
            patience.close()
        return reply

    def _exchange(self, ask: Ask, reply: Reply) -> None:
        path = "/rank" if isinstance(ask, Ranking) else "/generate"
        with self._http.post(path, body(ask), headers(ask, self._clock())) as response:
            attempts = response.get(wire.ATTEMPTS)
            reply.attempts = int(attempts) if isinstance(attempts, str) and attempts.isdigit() else None
            if response.status_code != 200:
                reply.status, reply.error = response.status_code, _reason(bytes(response.read()))
            elif reply.tally is None:
                reply.body = _object(bytes(response.read()))
                reply.status = 200
            else:
                self._stream(ask, response, reply, reply.tally)

    def _stream(self, ask: Ask, response: HTTPSocketPoolResponse, reply: Reply, tally: Tally) -> None:
        reply.error = "cut"  # unless its last line comes
        while line := response.readline(b"\n"):
            said = _object(bytes(line))
            if "token" in said:
                tally.take(int(said["i"]), int(said["token"]), round(self._clock() - ask.at, 6))
            elif said.get("done"):
                reply.status, reply.error, reply.body = 200, "", said
                reply.attempts = said.get("attempts", reply.attempts)
            elif "error" in said:
                reply.status, reply.error = int(said.get("status") or 0), str(said["error"])
        tally.end()


def ready(router: Address) -> bool:
    """Whether there is a router that takes requests."""
    http = HTTPClient(router.host, router.port, connection_timeout=1.0, network_timeout=1.0)
    try:
        with http.get("/ready") as response:
            return bool(response.status_code == 200)
    except _BROKEN:
        return False
    finally:
        http.close()


def headers(ask: Ask, now: float) -> dict[str, str]:
    """What goes with it; the deadline counts from the intended start."""
    found = {
        wire.ID: ask.id,
        wire.DEADLINE: str(max(int((ask.expires - now) * 1000), 0)),
        wire.PRIORITY: ask.priority,
        "content-type": "application/json",
    }
    return found | {wire.IDEMPOTENCY: ask.id} if isinstance(ask, Turn) else found


def body(ask: Ask) -> bytes:
    """As the contract has it, or with the mistake that it is meant to make."""
    if isinstance(ask, Ranking):
        whole = _encode({"user": ask.user, "items": ask.items})
        return whole[: len(whole) // 2] if ask.mistake == "json" else whole
    assert isinstance(ask, Turn)
    return _encode({"session": ask.session, "turn": ask.turn, "prompt": ask.prompt, "tokens": ask.tokens})


def finite(scores: object) -> list[float] | None:
    """The scores where they are numbers, as JSON can carry them."""
    if isinstance(scores, list) and all(isinstance(s, int | float) and math.isfinite(s) for s in scores):
        return scores
    return None


def _reason(text: bytes) -> str:
    """What an answer says that is none."""
    return str(_object(text).get("error") or text[:200].decode(errors="replace"))


def _object(text: bytes) -> dict[str, Any]:
    """The answer; {} where it is none. Python's own reader also takes NaN."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _cause(error: Exception, *, begun: bool) -> str:
    if begun:
        return "cut"
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if isinstance(error, HTTPConnectionClosed | ConnectionResetError | BrokenPipeError):
        return "closed"
    return "timeout" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
