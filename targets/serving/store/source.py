"""The source of record for features: slow, for few users at a time. What the store has lost comes from here."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from redis.asyncio import Redis
from redis.exceptions import RedisError

from chaos import inside
from targets.serving.models import features
from targets.serving.settings import FEATURES, USERS, Settings

_BATCH = 250  # users whose features are written at once


class Source:
    """Answers for one user after the other, and puts them back into the store."""

    def __init__(self, settings: Settings, store: Redis) -> None:
        self._settings, self._store = settings, store
        self._free = asyncio.Semaphore(max(settings.source_workers, 1))
        self._asked = 0

    async def of(self, user: int, replica: str) -> bytes:
        """All tiers of a user, one after the other."""
        began = time.monotonic()
        self._asked += 1
        try:
            async with self._free:
                waited = time.monotonic() - began
                await asyncio.sleep(self._settings.source_seconds)
                written = features.written(self._settings.seed, user)
                inside.emit(
                    "features.rebuilt",
                    user=user,
                    replica=replica,
                    waited=round(waited, 6),
                    seconds=round(time.monotonic() - began, 6),
                    asked=self._asked,
                )
        finally:
            self._asked -= 1
        with suppress(RedisError, OSError):  # the answer is good whether or not the store has it again
            await self._store.mset(dict(written))
        return b"".join(written[features.key(tier, user)] for tier in FEATURES)

    async def fill(self) -> None:
        """The features of all users."""
        for first in range(0, USERS, _BATCH):
            batch: dict[str, bytes] = {}
            for user in range(first, min(first + _BATCH, USERS)):
                batch |= features.written(self._settings.seed, user)
            await self._store.mset(dict(batch))
