"""Health on three levels: the process answers; it can take requests; its answers are right."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web

from targets.serving import defects
from targets.serving.replica.answers import answer, draining
from targets.serving.replica.breaker import CLOSED, Breaker
from targets.serving.replica.engine import Engine
from targets.serving.replica.known import Known
from targets.serving.replica.shelf import Shelf
from targets.serving.settings import Settings

PATIENCE: Final = 1.0  # seconds for the engine; whoever asks has less, and gives up before


class Health:
    """`/live`, `/ready`, `/correct`. None of them waits in the queue of requests."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        shelf: Shelf,
        known: Known,
        breaker: Breaker,
        leaving: Callable[[], bool],
    ) -> None:
        self._engine, self._shelf, self._known, self._breaker, self._leaving = engine, shelf, known, breaker, leaving
        self._constant = defects.active(settings, defects.HEALTH_IS_A_CONSTANT)
        self._early = defects.active(settings, defects.READY_BEFORE_LOADED)
        self._believed = defects.active(settings, defects.CORRECT_NOT_RUN)
        self.wrong: str | None = None  # what the last look at known answers found

    async def live(self, request: web.BaseRequest) -> web.StreamResponse:
        """Whoever reads this lives."""
        return answer(200, {"live": True})

    async def ready(self, request: web.BaseRequest) -> web.StreamResponse:
        """Weights are loaded, and the engine answers. A store that does not is told of, and no reason to stay away:
        all replicas have the same one."""
        if self._leaving():
            return draining()
        if self._constant:
            return answer(200, {"ready": True})
        if self._shelf.current is None:
            return answer(200 if self._early else 503, {"ready": self._early, "reason": "loading"})
        try:
            async with asyncio.timeout(PATIENCE):
                await self._engine.answers()
        except (TimeoutError, RuntimeError) as error:
            return answer(503, {"ready": False, "reason": f"engine: {type(error).__name__}"})
        store = self._breaker.state == CLOSED
        return answer(200, {"ready": True, "generation": self._shelf.current.generation, "store": store})

    async def correct(self, request: web.BaseRequest) -> web.StreamResponse:
        """Known requests get their known answers from the model that answers all others."""
        if self._constant or self._believed or (self._early and self._shelf.current is None):
            return answer(200, {"correct": True})
        if self._shelf.current is None:
            return answer(503, {"correct": False, "reason": "loading"})
        try:
            async with asyncio.timeout(PATIENCE):
                self.wrong = await self._known.wrong(self._shelf.current)
        except (TimeoutError, RuntimeError) as error:
            return answer(503, {"correct": False, "reason": f"engine: {type(error).__name__}"})
        if self.wrong is not None:
            return answer(500, {"correct": False, "reason": self.wrong})
        return answer(200, {"correct": True, "generation": self._shelf.current.generation})
