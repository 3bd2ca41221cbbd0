"""Reads the features of a user: from the store, what the store has lost from the source of record."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
from redis.asyncio import Redis

from targets.serving import defects
from targets.serving.models import features
from targets.serving.models.features import LENGTH
from targets.serving.models.weights import Array
from targets.serving.replica.flight import Flights
from targets.serving.settings import FEATURES, Address, Settings

LIMIT = 5.0  # seconds after which a call is given up, whoever may still wait for it
Found = Mapping[str, Array]


class Reader:
    """One call of the store for all tiers that are wanted; callers that want the same at the same time share it."""

    def __init__(self, settings: Settings, replica: str, store: Redis, source: Address, http: aiohttp.ClientSession):
        self._replica, self._store, self._source, self._http = replica, store, source, http
        shared = not defects.active(settings, defects.CACHE_WITHOUT_SINGLE_FLIGHT)
        self._reads: Flights[Found] = Flights(shared=shared)
        self._rebuilds: Flights[Found] = Flights(shared=shared)

    def read(self, user: int, tiers: Sequence[str]) -> asyncio.Task[Found]:
        """What could be read; a tier whose bytes are wrong is missing. Fails as the store does."""
        return self._reads.fetch((user, *tiers), lambda: self._read(user, tuple(tiers)))

    async def close(self) -> None:
        """End all that is on its way."""
        await self._reads.close()
        await self._rebuilds.close()

    async def _read(self, user: int, tiers: Sequence[str]) -> Found:
        async with asyncio.timeout(LIMIT):
            values: list[Any] = await self._store.mget([features.key(tier, user) for tier in tiers])
            found: dict[str, Array] = {}
            for tier, value in zip(tiers, values, strict=True):
                try:
                    found[tier] = features.decode(value or b"", user)
                except features.Wrong:
                    continue  # lost or damaged: both are put right below
            if len(found) < len(tiers):
                rebuilt = await self._rebuilds.fetch(user, lambda: self._rebuild(user))
                found = {**{tier: rebuilt[tier] for tier in tiers}, **found}
            return found

    async def _rebuild(self, user: int) -> Found:
        url = f"{self._source.url}/features/{user}"
        async with self._http.get(url, params={"replica": self._replica}) as answer:
            answer.raise_for_status()
            data = await answer.read()
        parts = [data[at : at + LENGTH] for at in range(0, len(data), LENGTH)]
        return {tier: features.decode(part, user) for tier, part in zip(FEATURES, parts, strict=True)}
