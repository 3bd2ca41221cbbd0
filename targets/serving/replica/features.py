"""The features of a request, tier by tier: what blocks, what has a default, what may be old, what is left out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

import aiohttp
from redis.exceptions import RedisError

from targets.serving import defects
from targets.serving.models.features import CACHED, DEFAULT, DEFAULTS, LIVE, OMITTED, Wrong
from targets.serving.models.weights import Array
from targets.serving.replica.aging import Aging
from targets.serving.replica.breaker import Breaker
from targets.serving.replica.moves import Moves
from targets.serving.replica.reader import Found, Reader, Refused
from targets.serving.settings import FEATURES, USERS, Settings
from targets.serving.wire import Deadline

# What each rung of the ladder asks for: a lower one also costs the store less.
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "primary": FEATURES,
    "secondary": ("critical", "important"),
    "tertiary": ("critical",),
    "static": (),
}
SAY: Final = 0.01  # seconds before the deadline, for saying that critical features are missing
LATE: Final = 0.005  # seconds by which a timer may be late on a machine that has time for us
FAILURES: Final = (RedisError, OSError, aiohttp.ClientError, Wrong, Refused, TimeoutError)


class NoCritical(Exception):
    """The critical features could not be had in time."""


class Features(NamedTuple):
    """What a model gets, and how each tier was come by."""

    values: Mapping[str, Array | None]
    states: Mapping[str, str]


class Tiers:
    """Critical features are waited for as long as the request lasts; of the others each misses its own timeout.

    A tier that has missed it stays degraded for this request, also where its value comes while critical features are
    still waited for: what is given up is decided by one clock, not by luck.
    """

    def __init__(self, settings: Settings, reader: Reader, breaker: Breaker, moves: Moves) -> None:
        self._settings, self._reader, self._breaker, self._moves = settings, reader, breaker, moves
        self._useful: Aging[int, Array] = Aging(settings.feature_ttl, USERS)
        self._blocks = defects.active(settings, defects.FEATURES_NEVER_DEGRADE)

    async def of(self, user: int, rung: str, deadline: Deadline) -> Features:
        """Raises NoCritical."""
        needed = NEEDS[rung]
        if not needed:
            return Features({}, {})
        fresh = self._useful.fresh(user) if "useful" in needed else None
        optional = len(needed) > 1 and (self._blocks or self._breaker.allows())
        asked = tuple(t for t in needed if (optional or t == "critical") and not (t == "useful" and fresh is not None))
        patience = Deadline(deadline.left if self._blocks else min(self._settings.feature_timeout, deadline.left))
        task = self._reader.read(user, asked)
        reason = "" if optional else "breaker open"
        if optional and not self._blocks:
            reason = await self._judge(task, patience)
        found = await self._critical(user, task, deadline)
        if not reason and len(found) < len(asked):
            found = await self._completed(user, found, patience)
            reason = "lost" if len(found) < len(asked) else ""
        if "useful" in found:
            self._useful.put(user, found["useful"])
        usable = found if reason in ("", "lost") else {}
        return self._settle(user, needed, usable, found["critical"], fresh, reason)

    async def _judge(self, task: asyncio.Task[Found], patience: Deadline) -> str:
        """Why the tiers that can be done without are; empty: the store has answered."""
        if not await _done_within(task, patience.left):
            self._breaker.failed("timeout")
            return "timeout"
        if task.cancelled() or (error := task.exception()) is not None:
            reason = "cancelled" if task.cancelled() else type(error).__name__
            self._breaker.failed(reason)
            return reason
        self._breaker.succeeded()
        return ""

    async def _critical(self, user: int, task: asyncio.Task[Found], deadline: Deadline) -> Found:
        """What was found, with the critical features in any case."""
        found = await self._waited(task, deadline)
        if "critical" in found:
            return found
        return {**await self._waited(self._reader.rebuild(user), deadline), **found}

    async def _waited(self, task: asyncio.Task[Found], deadline: Deadline) -> Found:
        await asyncio.wait({task}, timeout=max(deadline.left - SAY, 0))
        if not task.done():
            raise NoCritical("timeout")
        try:
            return task.result()
        except asyncio.CancelledError:
            raise NoCritical("cancelled") from None
        except FAILURES as error:
            raise NoCritical(f"{type(error).__name__}: {error}") from error

    async def _completed(self, user: int, found: Found, patience: Deadline) -> Found:
        """What was found and what the store has lost, if the source makes it in time."""
        task = self._reader.rebuild(user)
        if await _done_within(task, patience.left) and not task.cancelled() and task.exception() is None:
            return {**task.result(), **found}
        return found

    def _settle(
        self, user: int, needed: tuple[str, ...], found: Found, critical: Array, fresh: Array | None, reason: str
    ) -> Features:
        values: dict[str, Array | None] = {"critical": critical}
        states = {"critical": LIVE}
        for tier in needed[1:]:
            if tier == "useful" and fresh is not None:
                values[tier], states[tier] = fresh, LIVE
            elif tier in found:
                values[tier], states[tier] = found[tier], LIVE
            else:
                values[tier], states[tier] = self._fallback(user, tier)
            self._moves.saw(tier, states[tier], reason)
        return Features(values, states)

    def _fallback(self, user: int, tier: str) -> tuple[Array | None, str]:
        if tier == "optional":
            return None, OMITTED
        if tier == "useful" and (old := self._useful.any(user)) is not None:
            return old[0], CACHED
        return DEFAULT, DEFAULTS


async def _done_within(task: asyncio.Task[Found], seconds: float) -> bool:
    """Whether it was done in time. Time in which this process itself did not run does not count against the store."""
    loop = asyncio.get_running_loop()
    seconds = max(seconds, 0)
    due = loop.time() + seconds
    await asyncio.wait({task}, timeout=seconds)
    if not task.done() and (late := loop.time() - due) > LATE:
        await asyncio.wait({task}, timeout=min(late, seconds))
    return task.done()
