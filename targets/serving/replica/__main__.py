"""`python -m targets.serving.replica`: answer until SIGTERM, then drain."""

from __future__ import annotations

import asyncio
import signal
import sys

from aiohttp import web

from chaos import inside
from targets.serving import defects
from targets.serving.replica.app import Replica
from targets.serving.settings import Place, Settings


async def serve(settings: Settings, place: Place) -> int:
    """The exit code."""
    replica = Replica(settings, place)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    runner = web.ServerRunner(web.Server(replica.front, access_log=None), shutdown_timeout=0.5)
    await runner.setup()
    # It listens at once: that it is not ready yet is an answer as well.
    address = place.replica(int(place.member.rpartition("-")[2]))
    await web.TCPSite(runner, *address).start()
    running = asyncio.create_task(replica.run())
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()  # it never ends by itself: its error ends the process, and nothing answers for it
    if defects.active(settings, defects.DRAIN_DROPS):
        await replica.drain.run(0.0)
        return 0
    with inside.recovery_path("replica.drain"):
        await replica.drain.run(settings.drain)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await runner.cleanup()
    await replica.close()
    return 0


def main() -> int:
    settings = Settings.from_environment()
    place = Place.from_environment(settings, member="replica-0", node="r0")
    inside.hello(place.member, role="replica", node=place.node)
    inside.sites("weight", "activation")
    return asyncio.run(serve(settings, place))


if __name__ == "__main__":
    sys.exit(main())
