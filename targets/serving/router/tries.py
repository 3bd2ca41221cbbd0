"""The attempts of one request, one after the other, until one ends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext

from targets.serving.defects import RETRIES_UNBOUNDED, RETRY_STORM, active
from targets.serving.router.asked import Asked
from targets.serving.router.budget import Attempts, Budget
from targets.serving.router.facts import Facts
from targets.serving.router.fleet import Fleet
from targets.serving.router.replica import Replica
from targets.serving.router.result import NOBODY, Kind, Result
from targets.serving.settings import Settings

ROOM = 2.0  # times the usual service time, for an attempt after which another one may follow
LAYERS = 3  # of a retry storm: each of them tries so often

One = Callable[[Replica, int, float], Awaitable[Result]]
"""Makes an attempt: at whom, the how manieth, and how many seconds it may take."""


class Tries:
    """Retries under one budget: only here, in no other layer, and never beyond the deadline."""

    def __init__(self, fleet: Fleet, budget: Budget, facts: Facts, settings: Settings) -> None:
        self._fleet, self._budget, self._facts, self._settings = fleet, budget, facts, settings

    async def run(
        self,
        asked: Asked,
        one: One,
        *,
        usual: float,
        prefer: Callable[[], Sequence[int]] = tuple,
        path: Callable[[], str],
    ) -> Result:
        """The result of the last attempt; `path` names what an attempt after the first is, when it begins.

        `usual`: how long such a request takes. Where the deadline leaves no time for two that take so long, the first
        attempt gets all of it: under load, to cut it short and try again would be work for nothing.
        """
        unbounded = active(self._settings, RETRIES_UNBOUNDED)
        attempts = Attempts(self._budget, limit=self._settings.attempts, unbounded=unbounded)
        tried: list[Replica] = []
        result = NOBODY
        while (left := asked.left) > 0:
            replica = self._fleet.choose(tried, prefer())
            if replica is None:
                return result if tried else NOBODY
            share = left * self._settings.try_share
            twice = share >= ROOM * usual and attempts.another and self._fleet.others(replica)
            limit = share if twice else left
            with self._facts.path(path()) if tried else nullcontext():
                result = await self._attempt(one, replica, attempts, limit)
            tried.append(replica)
            if result.kind is Kind.DEPENDENCY and not self._fleet.spares(replica):
                return result
            if not result.again or not attempts.again(free=result.kind is Kind.DRAINING):
                return result
        return result._replace(kind=Kind.LATE, reason="no time is left")

    async def _attempt(self, one: One, replica: Replica, attempts: Attempts, limit: float) -> Result:
        storm = active(self._settings, RETRY_STORM)
        result = await one(replica, attempts.begin(), limit / LAYERS if storm else limit)
        while storm and result.again and attempts.made % LAYERS:
            result = await one(replica, attempts.begin(), limit / LAYERS)
        return result
