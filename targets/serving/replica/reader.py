"""Reads the features of a user: from the store, what the store has lost from the source of record."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
MOST_REBUILDS = 8  # that one replica asks of the source at the same time: more would only make its queue longer
Found = Mapping[str, Array]


class Refused(Exception):
    """The source has enough to do."""


class Reader:
    """One call of the store for all tiers that are wanted; callers that want the same at the same time share it."""

    def __init__(self, settings: Settings, replica: str, store: Redis, source: Address, http: aiohttp.ClientSession):
        self._replica, self._store, self._source, self._http = replica, store, source, http
        self._asking = 0
        self._shared = not defects.active(settings, defects.CACHE_WITHOUT_SINGLE_FLIGHT)
        self._checked = not defects.active(settings, defects.FEATURES_NOT_CHECKED)
        self._reads: Flights[Found] = Flights(shared=self._shared)
        self._rebuilds: Flights[Found] = Flights(shared=self._shared)

    def read(self, user: int, tiers: Sequence[str]) -> asyncio.Task[Found]:
        """What the store has; a tier that it has lost, or whose bytes are wrong, is missing. Fails as it does."""
        return self._reads.fetch((user, *tiers), lambda: self._read(user, tuple(tiers)))

    def rebuild(self, user: int) -> asyncio.Task[Found]:
        """All tiers, from the source of record, which puts them back into the store."""
        return self._rebuilds.fetch(user, lambda: self._rebuild(user))

    async def close(self) -> None:
        """End all that is on its way."""
        await self._reads.close()
        await self._rebuilds.close()

    async def _read(self, user: int, tiers: Sequence[str]) -> Found:
        async with asyncio.timeout(LIMIT):
            values: list[Any] = await self._store.mget([features.key(tier, user) for tier in tiers])
        found: dict[str, Array] = {}
        for tier, value in zip(tiers, values, strict=True):
            with suppress(features.Wrong):
                found[tier] = features.decode(value or b"", user, checked=self._checked)
        return found

    async def _rebuild(self, user: int) -> Found:
        if self._shared and self._asking >= MOST_REBUILDS:
            raise Refused("the source of record has enough to do")
        self._asking += 1
        try:
            url = f"{self._source.url}/features/{user}"
            async with asyncio.timeout(LIMIT), self._http.get(url, params={"replica": self._replica}) as answer:
                answer.raise_for_status()
                data = await answer.read()
        finally:
            self._asking -= 1
        parts = [data[at : at + LENGTH] for at in range(0, len(data), LENGTH)]
        return {tier: features.decode(part, user) for tier, part in zip(FEATURES, parts, strict=True)}
