"""Puts a replica together, and looks after what needs looking after while it runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import aiohttp
import msgspec
from aiohttp import web

from chaos import inside
from targets.serving import defects
from targets.serving.logs import Log
from targets.serving.replica.admission import Admission
from targets.serving.replica.answers import answer
from targets.serving.replica.blocks import Blocks
from targets.serving.replica.breaker import Breaker
from targets.serving.replica.drain import Drain
from targets.serving.replica.engine import Engine
from targets.serving.replica.features import Tiers
from targets.serving.replica.front import GENERATE, RANK, Front
from targets.serving.replica.generation import Generation
from targets.serving.replica.health import Health
from targets.serving.replica.keeper import Keeper
from targets.serving.replica.known import Known
from targets.serving.replica.loading import Loader
from targets.serving.replica.meters import Meters
from targets.serving.replica.moves import PATHS, Moves
from targets.serving.replica.peers import FENCED, INCOMPLETE, TOKEN, Copies, InPeers, decode, encode
from targets.serving.replica.ranking import Ranking
from targets.serving.replica.reader import Reader
from targets.serving.replica.saving import Fenced, Incomplete, InStore, Lose, Pausing, Tokens, Way
from targets.serving.replica.sessions import Sessions
from targets.serving.replica.shelf import Shelf
from targets.serving.replica.turns import Turns
from targets.serving.settings import Place, Settings
from targets.serving.store.backend import connect
from targets.serving.tracing import Tracing

LOOK = 0.25  # seconds between two looks for a newer generation
USAGE = 0.5  # seconds between two reports of what is in use
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Replica:
    """Everything that one replica consists of. To be made in a running event loop."""

    def __init__(self, settings: Settings, place: Place) -> None:
        self.settings, self.place, self.name = settings, place, place.member
        self.log, self.tracing = Log(self.name), Tracing("replica", self.name)
        self.meters, self.drain = Meters(), Drain(self.name, inside.emit)
        self._http = aiohttp.ClientSession()
        self._store = connect(place.store)
        self.engine = Engine(settings, self.name)
        self.known = Known(settings, self.engine)
        self.sessions = Sessions(Blocks(settings.kv_blocks), settings.session_idle)
        self._unfenced = defects.active(settings, defects.STALE_KV_ACCEPTED)
        self._hidden = defects.active(settings, defects.STALE_KV_HIDDEN)
        self.copies = Copies(unfenced=self._unfenced, hidden=self._hidden)
        loader = Loader(place.models, settings, self.name)
        self.shelf = Shelf(loader, self.engine, self.known, self.sessions, self._store, self.log, self.name)
        self.breaker = Breaker("store", settings.breaker_open, inside.emit)
        self._reader = Reader(settings, self.name, self._store, place.store_helper, self._http)
        tiers = Tiers(settings, self._reader, self.breaker, Moves(self._moved))
        self.admission = Admission(settings.workers, settings.replica_queue)
        every = settings.kv_every if settings.failover == "checkpoint" else 1
        insists = defects.active(settings, defects.UNSAVED_STREAM_ENDS)
        keeper = Keeper(self._way(), every, self.engine, self.name, self.log, insists=insists)
        turns = Turns(settings, self.name, self.engine, self.sessions, keeper)
        self.generation = Generation(self.name, self.shelf, turns, settings.workers + settings.replica_queue)
        ranking = Ranking(settings, self.name, self.engine, self.shelf, tiers, self.admission, self.tracing)
        self.health = Health(settings, self.engine, self.shelf, self.known, self.breaker, lambda: self.drain.leaving)
        self.front = Front(settings, self.drain, self.tracing, self.log, self.meters)
        self.front.handlers = {RANK: ranking, GENERATE: self.generation}
        self._open_views()

    async def run(self) -> None:
        """Load, then keep what is served up to date, without end."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._serve_newest())
            tasks.create_task(self._report())

    async def close(self) -> None:
        """Give back what this process holds."""
        await self._reader.close()
        await self._http.close()
        await self._store.aclose()
        self.engine.close()
        self.tracing.close()

    async def _serve_newest(self) -> None:
        while True:
            if await self.shelf.look() or (self.health.wrong is not None and await self.shelf.reload()):
                self.health.wrong = None
                loaded = self.shelf.current
                assert loaded is not None
                address = list(self.place.replica(int(self.name.rpartition("-")[2])))
                inside.emit(
                    "replica.ready",
                    replica=self.name, generation=loaded.generation, digest=loaded.digest, address=address,
                )  # fmt: skip
            await asyncio.sleep(LOOK)

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(USAGE)
            for session in self.sessions.close_idle():
                self.log.info("a session has idled out", session=session.id)
            self.copies.drop_old()
            if self.shelf.current is not None:
                self.shelf.drop_unused()
            inside.emit("replica.usage", **self.usage())

    def usage(self) -> dict[str, object]:
        """What is in use."""
        return {
            "replica": self.name,
            "asked": self.front.asked,
            "in_flight": self.drain.in_flight,
            "queue": self.admission.queued,
            "sessions": len(self.sessions),
            "blocks": self.sessions.blocks.used,
            "held": self.sessions.held,
            "rss": int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE,
        }

    def _way(self) -> Way:
        bugs = {"unfenced": self._unfenced, "hidden": self._hidden}
        patience = self.settings.kv_patience
        tokens = Tokens(self._store, patience)
        match self.settings.failover:
            case "replicate":
                urls = [self.place.replica(i).url for i in range(self.settings.replicas)]
                index = int(self.name.rpartition("-")[2])
                return Pausing(InPeers(index, urls, self._http, self.copies, tokens, patience))
            case "checkpoint" | "external" as name:
                return Pausing(InStore(name, self._store, tokens, **bugs, patience=patience))
            case _:
                return Lose()

    def _moved(self, tier: str, before: str, after: str, reason: str) -> None:
        facts = {"replica": self.name, "tier": tier, "before": before, "after": after, "reason": reason}
        self.meters.moved(tier, after)
        if path := PATHS.get(after):
            with inside.recovery_path(path):
                inside.emit("features.moved", **facts)
        else:
            inside.emit("features.moved", **facts)

    def _open_views(self) -> None:
        self.meters.gauge("replica_in_flight", "Requests", lambda: self.drain.in_flight)
        self.meters.gauge("replica_kv_blocks_used", "Blocks of the KV cache", lambda: self.sessions.blocks.used)
        self.meters.gauge("replica_sessions", "Sessions that live here", lambda: len(self.sessions))
        self.front.views = {
            ("GET", "/live"): self.health.live,
            ("GET", "/ready"): self.health.ready,
            ("GET", "/correct"): self.health.correct,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/state"): self._state,
            ("GET", "/kv"): self._give_copy,
            ("POST", "/kv"): self._take_copy,
        }

    async def _metrics(self, request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=self.meters.text(), content_type="text/plain")

    async def _state(self, request: web.BaseRequest) -> web.StreamResponse:
        loaded = self.shelf.current
        return answer(
            200,
            {
                **self.usage(),
                "generation": loaded.generation if loaded else None,
                "digest": loaded.digest if loaded else None,
                "leaving": self.drain.leaving,
                "breaker": self.breaker.state,
                "copies": len(self.copies),
                "settings": msgspec.to_builtins(self.settings),
            },
        )

    async def _give_copy(self, request: web.BaseRequest) -> web.StreamResponse:
        state = self.copies.get(request.query.get("session", ""))
        return web.Response(body=encode(state)) if state else answer(404, {"error": "no copy"})

    async def _take_copy(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            highest = self.copies.put(decode(await request.read()))
        except msgspec.MsgspecError as error:
            return answer(400, {"error": str(error)})
        except Fenced as fenced:
            return answer(FENCED, {"error": str(fenced)}, {TOKEN: str(fenced.highest)})
        except Incomplete:
            return answer(INCOMPLETE, {"error": "send all of it"})
        return answer(200, {"kept": True}, {TOKEN: str(highest)})
