"""Polls of the replicas: one task for each, on all three levels."""

from __future__ import annotations

import asyncio

import aiohttp

from targets.serving.router.attempt import BROKEN
from targets.serving.router.fleet import Fleet
from targets.serving.router.health import LEVELS, Finding
from targets.serving.router.lag import Lag
from targets.serving.router.replica import Replica
from targets.serving.settings import Settings
from targets.serving.wire import DRAINING

SLACK = 0.25  # of the time that an answer has: a router that was later than that itself asks again
EXCUSED = 3  # polls in a row that may be asked again for that


class Polls:
    """Asks each replica how it is, every `health_every` seconds."""

    def __init__(self, fleet: Fleet, http: aiohttp.ClientSession, settings: Settings, lag: Lag) -> None:
        self._fleet, self._http, self._settings, self._lag = fleet, http, settings, lag

    async def run(self) -> None:
        """Without end."""
        async with asyncio.TaskGroup() as tasks:
            for replica in self._fleet.replicas:
                tasks.create_task(self._watch(replica))

    async def _watch(self, replica: Replica) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        excused = 0
        while True:
            began = loop.time()
            finding, broken = await self._ask(replica)
            if not finding.answered and self._excuses(replica, began, excused):
                excused += 1
            else:
                excused = 0
                self._fleet.observe(replica, finding, broken=broken)
            due = max(due + self._settings.health_every, loop.time())
            await asyncio.sleep(due - loop.time())

    def _excuses(self, replica: Replica, began: float, times: int) -> bool:
        """Whether silence since `began` says nothing: it answered others meanwhile, or it was we who were late."""
        late = self._lag.since(began) > SLACK * self._settings.health_timeout
        return replica.answered >= began or (late and times < EXCUSED)

    async def _ask(self, replica: Replica) -> tuple[Finding, bool]:
        """The first level that is missed, and whether the connection broke."""
        level = LEVELS[0]
        try:
            for level in LEVELS:
                async with (
                    asyncio.timeout(self._settings.health_timeout),
                    self._http.get(f"{replica.url}/{level}") as answer,
                ):
                    text = await answer.text()
                    if answer.status != 200:
                        draining = DRAINING in answer.headers
                        return Finding(level, f"{answer.status} {text[:80]}".strip(), draining), False
        except TimeoutError:
            return Finding(level, "no answer in time", answered=False), False
        except BROKEN as error:
            return Finding(level, f"{type(error).__name__}"), True
        return Finding(), False
