"""The generations that this replica can answer with: the newest, and older ones as long as sessions live on them."""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis

from chaos import inside
from targets.serving.logs import Log
from targets.serving.models.shapes import SYSTEM
from targets.serving.replica.engine import Broken, Engine
from targets.serving.replica.known import Known
from targets.serving.replica.loading import Damaged, Loaded, Loader
from targets.serving.replica.saving import FAILURES, PATIENCE
from targets.serving.replica.sessions import Sessions
from targets.serving.store.scripts import RAISE

_FLOOR = "model:floor"  # the newest generation that any replica has served


class Shelf:
    """Loads, checks, and only then serves; what is served never gets older."""

    def __init__(
        self, loader: Loader, engine: Engine, known: Known, sessions: Sessions, store: Redis, log: Log, replica: str
    ) -> None:
        self._loader, self._engine, self._known, self._sessions = loader, engine, known, sessions
        self._store, self._log, self._replica = store, log, replica
        self._raise = store.register_script(RAISE)
        self._generations: dict[int, Loaded] = {}
        self._floor = 0
        self._loading = asyncio.Lock()
        self.current: Loaded | None = None

    async def look(self) -> bool:
        """Take the newest generation into service where it is not yet; whether it was."""
        self._floor = await self._agreed(self._floor)
        candidates = await asyncio.to_thread(self._loader.candidates, self._floor)
        if self.current is not None and (not candidates or candidates[0] <= self.current.generation):
            return False
        loaded = await asyncio.to_thread(self._loader.load, self._floor)
        if loaded is None or (self.current is not None and loaded.generation <= self.current.generation):
            return False
        if not await self._fit(loaded):
            return False
        self.current = loaded
        self._floor = await self._agreed(max(self._floor, loaded.generation))
        return True

    async def of(self, generation: int | None, *, begun: bool = False) -> Loaded | None:
        """What a session goes on with; None: nothing is loaded yet. Where its generation is gone, a turn that has not
        `begun` goes on with the one that is there; of one that has, the caller is told by what it gets."""
        if generation is None or self.current is None or generation >= self.current.generation:
            return self.current
        async with self._loading:
            kept = self._generations.get(generation)
            if kept is None or not kept.whole():
                try:
                    loaded = await asyncio.to_thread(self._loader.read, generation)
                except Damaged as error:
                    if begun:
                        return self.current
                    with inside.recovery_path("weights.substitute"):
                        self._log.warning("an older generation is gone", generation=generation, reason=str(error))
                        return self.current
                if not await self._fit(loaded):
                    return self.current
            return self._generations[generation]

    async def reload(self) -> bool:
        """If weights in memory have changed, read them again; whether that was done."""
        assert self.current is not None
        if self.current.whole():
            return False  # what is wrong lies elsewhere
        with inside.recovery_path("weights.reload"):
            try:
                loaded = await asyncio.to_thread(self._loader.read, self.current.generation)
            except Damaged as error:
                self._log.error("the weights cannot be read again", reason=str(error))
                return False
            if not await self._fit(loaded):
                return False
        self.current = loaded
        return True

    def drop_unused(self) -> None:
        """Older generations without sessions."""
        assert self.current is not None
        for generation in self._generations.keys() - self._sessions.generations() - {self.current.generation}:
            del self._generations[generation]
            self._sessions.drop_prefix(generation)

    async def _fit(self, loaded: Loaded) -> bool:
        """Warm it up, and ask what everybody knows: only then may it answer anybody else."""
        try:
            prefix = self._sessions.add_prefix(loaded.generation)
            await self._engine.feed(loaded, prefix, 0, SYSTEM)
            wrong = None if self._loader.trusting else await self._known.wrong(loaded, all_models=True)
        except Broken as error:
            wrong = str(error)
        if wrong is not None:
            self._log.error("a generation is not fit to serve", generation=loaded.generation, reason=wrong)
            return False
        self._generations[loaded.generation] = loaded
        return True

    async def _agreed(self, floor: int) -> int:
        """What all replicas have agreed on; without the store, what this one knows."""
        try:
            async with asyncio.timeout(PATIENCE):
                return max(floor, int(await self._raise([_FLOOR], [floor])))
        except FAILURES:
            with inside.recovery_path("floor.local"):
                return floor
