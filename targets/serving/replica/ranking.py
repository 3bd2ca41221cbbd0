"""`POST /rank`: features, then the model of the rung that the router asks for."""

from __future__ import annotations

import asyncio
import time

import msgspec
from aiohttp import web
from opentelemetry.trace import Span

from targets.serving.replica.admission import Admission
from targets.serving.replica.answers import NotReady, answer
from targets.serving.replica.engine import Engine
from targets.serving.replica.features import Tiers
from targets.serving.replica.points import stand
from targets.serving.replica.shelf import Shelf
from targets.serving.replica.turns import Mistake
from targets.serving.settings import ITEMS, RANKED_MOST, TIERS, USERS, Settings
from targets.serving.tracing import Tracing, header
from targets.serving.wire import TIER, Deadline


class Ask(msgspec.Struct, frozen=True):
    """The body of `/rank`."""

    user: int
    items: list[int]

    def check(self) -> None:
        """Raises Mistake."""
        if not 0 <= self.user < USERS:
            raise Mistake("unknown user")
        if not 0 < len(self.items) <= RANKED_MOST:
            raise Mistake(f"1 to {RANKED_MOST} items are ranked")
        if any(not 0 <= item < ITEMS for item in self.items):
            raise Mistake("unknown item")


_decode = msgspec.json.Decoder(Ask).decode


class Ranking:
    """Answers one request after the other, `workers` of them at the same time."""

    def __init__(
        self,
        settings: Settings,
        replica: str,
        engine: Engine,
        shelf: Shelf,
        tiers: Tiers,
        admission: Admission,
        tracing: Tracing,
    ) -> None:
        self._settings, self._replica, self._engine, self._shelf = settings, replica, engine, shelf
        self._tiers, self._admission, self._tracing = tiers, admission, tracing

    async def __call__(self, request: web.BaseRequest, id: str, span: Span, deadline: Deadline) -> web.StreamResponse:
        """The answer; raises what `answers.refusal` knows."""
        ask = _decode(await request.read())
        ask.check()
        rung = request.headers.get(TIER, "primary")
        if rung not in TIERS:
            raise Mistake(f"{TIER} is one of {', '.join(TIERS)}")
        loaded = self._shelf.current
        if loaded is None:
            raise NotReady("no model is loaded yet")
        with self._admission.accepted(deadline):
            async with asyncio.timeout(deadline.left):
                with self._tracing.span("features", id, parent=header(span), rung=rung):
                    features = await self._tiers.of(ask.user, rung, deadline)
                async with self._admission.slot():
                    began = time.monotonic()
                    await stand("rank.dispatched", replica=self._replica, id=id)
                    with self._tracing.span("model", id, parent=header(span), rung=rung):
                        scores = await self._engine.rank(loaded, rung, ask.items, features.values)
                    if (rest := self._settings.rank_seconds - (time.monotonic() - began)) > 0:
                        await asyncio.sleep(rest)
        return answer(
            200,
            {
                "scores": scores,
                "tier": rung,
                "features": features.states,
                "replica": self._replica,
                "generation": loaded.generation,
                "digest": loaded.digest,
            },
        )
