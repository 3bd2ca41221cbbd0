"""The router, put together: its parts, its tasks, and its end."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import aiohttp
from aiohttp import web

from targets.serving.defects import DRAIN_ACCEPTS, active
from targets.serving.logs import Log
from targets.serving.router.admission import Admission
from targets.serving.router.asked import GENERATE, RANK, answer
from targets.serving.router.attempt import BROKEN, Attempter
from targets.serving.router.budget import Budget
from targets.serving.router.door import Door
from targets.serving.router.drain import Drain
from targets.serving.router.facts import Facts
from targets.serving.router.fleet import Fleet
from targets.serving.router.front import Front
from targets.serving.router.generate import Generation
from targets.serving.router.lag import Lag
from targets.serving.router.meters import Meters
from targets.serving.router.polls import Polls
from targets.serving.router.rank import Ranking
from targets.serving.router.rungs import Rungs
from targets.serving.router.sessions import Sessions
from targets.serving.router.tries import Tries
from targets.serving.settings import Address, Place, Settings
from targets.serving.tracing import Tracing
from targets.serving.wire import DRAINING

TICK = 0.05  # seconds between two looks at breakers and ladder
USAGE = 0.25  # seconds between two `router.usage`
ALL = 15.0  # seconds to wait for the other replicas, once one is in rotation
END = 0.1  # seconds for requests that are cut, and for connections
CUT = 0.2  # seconds after which a router with the defect of its drain ends


class Router:
    """One router. Use `running`."""

    def __init__(self, place: Place, settings: Settings, http: aiohttp.ClientSession, facts: Facts) -> None:
        self._place, self._settings, self._http, self._facts = place, settings, http, facts
        self._meters, self._drain = Meters(), Drain()
        self.tracing = Tracing("router", place.member)
        addresses = [place.replica(i) for i in range(settings.replicas)]
        self.fleet = Fleet(addresses, settings, facts, time.monotonic)
        self._admission = Admission(settings, time.monotonic)
        self._rungs = Rungs(settings, facts, time.monotonic)
        self._budget = Budget(ratio=settings.retry_ratio, burst=settings.retry_burst)
        self._sessions = Sessions(settings.session_idle * 10, time.monotonic)
        self._lag = Lag(time.monotonic)
        self._begun = (
            False  # whether all replicas have been waited for: the first clients are not for the first replica
        )
        self._log = Log(place.member)
        self.front = Front(settings, self._drain, self.tracing, self._log, self._meters)
        self._connect()
        self._gauges()

    def _connect(self) -> None:
        door = Door(self._admission, self._facts, self._meters)
        tries = Tries(self.fleet, self._budget, self._facts, self._settings)
        attempter = Attempter(self._http, self.fleet, self._facts, self.tracing, self._meters, self._lag)
        self.front.handlers = {
            RANK: Ranking(door, tries, attempter, self._rungs.ladder),
            GENERATE: Generation(door, tries, attempter, self._sessions, self._settings),
        }
        self.front.views = {
            "/live": self._live,
            "/ready": self._ready,
            "/correct": self._correct,
            "/metrics": self._metrics,
            "/state": self._state,
        }

    def _gauges(self) -> None:
        self._meters.gauge("router_queue", "Requests that wait", lambda: self._admission.waiting)
        self._meters.gauge("router_in_flight", "Requests at the replicas", lambda: self._admission.running)
        self._meters.gauge("router_rotation", "Replicas in rotation", lambda: len(self.fleet.rotation))
        self._meters.gauge("router_retry_tokens", "What is left of the retry budget", lambda: self._budget.tokens)
        self._meters.gauge("router_rung", "Of the model ladder; 0 is the best", lambda: self._rungs.ladder.rung)

    # --- Views --------------------------------------------------------------------------------------------------------

    async def _live(self, _: web.BaseRequest) -> web.Response:
        return answer(200, {"live": True})

    async def _ready(self, _: web.BaseRequest) -> web.Response:
        if self._drain.draining:
            return answer(503, {"ready": False, "reason": "draining"}, {DRAINING: "1"})
        fit = [replica.name for replica in self.fleet.rotation]
        well = bool(fit) and self._begun
        return answer(200 if well else 503, {"ready": well, "rotation": fit})

    async def _correct(self, _: web.BaseRequest) -> web.Response:
        """Through a replica, as a request would go."""
        replica = self.fleet.choose(())
        if replica is None:
            return answer(503, {"error": "no replica is fit"})
        try:
            async with (
                asyncio.timeout(self._settings.deadline),
                self._http.get(f"{replica.url}/correct") as response,
            ):
                return answer(response.status, await response.read())
        except BROKEN as error:
            return answer(503, {"error": f"{replica.name}: {type(error).__name__}"})

    async def _metrics(self, _: web.BaseRequest) -> web.Response:
        return web.Response(body=self._meters.text(), content_type="text/plain")

    async def _state(self, _: web.BaseRequest) -> web.Response:
        return answer(
            200,
            {
                "replicas": self.fleet.state,
                "tier": self._rungs.ladder.tier,
                "in_flight": self._admission.running,
                "queue": self._admission.waiting,
                "service": {what: self._admission.service(what) for what in (RANK, GENERATE)},
                "retry_tokens": self._budget.tokens,
                "sessions": len(self._sessions),
                "draining": self._drain.draining,
            },
        )

    # --- Tasks --------------------------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Let time have its effect, without end."""
        told = float("-inf")
        while True:
            self.fleet.tick()
            self._rungs.look(self._admission.waiting)
            if time.monotonic() - told >= USAGE:
                told = time.monotonic()
                self._facts.emit(
                    "router.usage",
                    in_flight=self._admission.running,
                    queue=self._admission.waiting,
                    tier=self._rungs.ladder.tier,
                    rotation=[replica.name for replica in self.fleet.rotation],
                )
            self._lag.expect(TICK)
            await asyncio.sleep(TICK)
            self._lag.woke()

    async def poll(self) -> None:
        """Watch the replicas, without end."""
        await Polls(self.fleet, self._http, self._settings, self._lag).run()

    async def ready(self) -> None:
        """Once all replicas are in rotation, or some of them for long enough."""
        await self._rotation(1)
        with suppress(TimeoutError):
            async with asyncio.timeout(ALL):
                await self._rotation(self._settings.replicas)
        self._begun = True
        self._facts.emit("serving.ready", replicas=[r.name for r in self.fleet.replicas if r.out is None])

    async def _rotation(self, least: int) -> None:
        while sum(replica.out is None for replica in self.fleet.replicas) < least:
            self.fleet.changed.clear()
            await self.fleet.changed.wait()

    async def drain(self) -> None:
        """Accept nothing more; return when what is in flight has ended, or after `drain` seconds."""
        began, drain = time.monotonic(), self._drain
        with self._facts.path("router.drain"):
            self._facts.emit("drain.begun", member=self._place.member, in_flight=drain.in_flight, streams=drain.streams)
            drain.draining = True
            if active(self._settings, DRAIN_ACCEPTS):
                await asyncio.sleep(CUT)
                lost = drain.in_flight
            else:
                lost = await drain.ended(self._settings.drain)
            seconds = round(time.monotonic() - began, 3)
            self._facts.emit("drain.ended", member=self._place.member, seconds=seconds, lost=lost)


@asynccontextmanager
async def running(place: Place, settings: Settings, facts: Facts) -> AsyncIterator[Router]:
    """A router that listens; ended without a drain."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
                headers={"Content-Type": "application/json"},
                auto_decompress=False,
            )
        )
        router = Router(place, settings, http, facts)
        stack.callback(router.tracing.close)
        stack.callback(facts.flush)
        runner = web.ServerRunner(web.Server(router.front, access_log=None), shutdown_timeout=END)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        group = await stack.enter_async_context(asyncio.TaskGroup())  # one that fails ends the router
        for coroutine in (router.tick(), router.poll(), router.ready()):
            stack.callback(group.create_task(coroutine).cancel)
        await web.TCPSite(runner, *Address(place.address, place.router.port), backlog=1024).start()
        yield router


async def serve(place: Place, settings: Settings) -> None:
    """Route until SIGTERM, then drain."""
    asked_to_end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked_to_end.set)
    async with running(place, settings, Facts(time.monotonic)) as router:
        await asked_to_end.wait()
        await router.drain()
