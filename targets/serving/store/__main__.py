"""`python -m targets.serving.store`: publish the models, keep a Redis running and filled, until SIGTERM or its end."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress

from redis.exceptions import RedisError

from chaos import inside
from targets.serving.logs import Log
from targets.serving.publish import publish_missing
from targets.serving.settings import Place, Settings
from targets.serving.store.backend import Unavailable, choose, connect
from targets.serving.store.helper import Helper
from targets.serving.store.source import Source


class Keeper:
    """Looks after the backend: it is started, filled, and started again where the settings say so."""

    def __init__(self, settings: Settings, place: Place, log: Log) -> None:
        self._settings, self._place, self._log = settings, place, log
        self.backend, self.reason = choose(settings, place)
        self.source = Source(settings, connect(place.store))
        self._down: float | None = None  # somebody asked for its end, and its return after so many seconds
        self._back = asyncio.Event()

    async def start(self) -> None:
        """Started and filled."""
        await self.backend.start()
        await self.source.fill()
        self._back.set()

    async def keep(self) -> int:
        """Until it has ended for good; the exit code."""
        while True:
            code = await self.backend.ended()
            down = self._down if self._down is not None else self._settings.redis_restart or None
            self._log.warning("the store's memory is lost", code=code, restart=down)
            if down is None:
                return 1
            self._down = None
            await asyncio.sleep(down)
            with inside.recovery_path("store.refill"):
                self.backend, _ = choose(self._settings, self._place)
                await self.start()

    async def lose(self, down: float) -> None:
        """End it, and have it back after `down` seconds."""
        self._down = down
        self._back.clear()
        await self.backend.stop()
        await self._back.wait()


async def _publish_more(every: float, helper: Helper) -> None:
    while True:
        await asyncio.sleep(every)
        await helper.publish()


async def run(settings: Settings, place: Place) -> int:
    """The exit code."""
    log = Log(place.member)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await asyncio.to_thread(publish_missing, place.models, settings)
    keeper = Keeper(settings, place, log)
    helper = Helper(settings, place, keeper.source, keeper.lose)
    await keeper.start()
    await helper.start(place.store_helper)
    inside.emit("store.ready", address=list(place.store), store=keeper.backend.name, reason=keeper.reason)
    kept = asyncio.create_task(keeper.keep())
    stopped = asyncio.create_task(stop.wait())
    more = asyncio.create_task(_publish_more(settings.publish_every, helper)) if settings.publish_every else None
    await asyncio.wait({kept, stopped}, return_when=asyncio.FIRST_COMPLETED)
    code = kept.result() if kept.done() else 0
    for task in (kept, stopped, more):
        if task is not None:
            task.cancel()
    with suppress(RedisError, OSError):
        await keeper.backend.stop()
    await helper.close()
    return code


def main() -> int:
    settings = Settings.from_environment()
    place = Place.from_environment(settings, member="store", node="s0")
    inside.hello(place.member, role="store", node=place.node)
    try:
        return asyncio.run(run(settings, place))
    except Unavailable as error:
        sys.exit(str(error))


if __name__ == "__main__":
    sys.exit(main())
