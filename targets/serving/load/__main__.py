"""Run the load of the settings, by Locust without a web page, until its last request has ended."""

from __future__ import annotations

import gc
import signal
import sys
from typing import TYPE_CHECKING, Any

from targets.serving.load import beside
from targets.serving.settings import Settings

if TYPE_CHECKING:
    from targets.serving.load.session import Session


def main() -> int:
    settings = Settings.from_environment()
    checker = beside.start()  # loads the golden model while Locust is imported
    import gevent
    import locust  # makes the standard library cooperative: `chaos.inside` and all that locks is imported after it
    from gevent.event import Event
    from locust.env import Environment

    from targets.serving.load import session
    from targets.serving.load.locustfile import Client

    environment = Environment(user_classes=[Client], events=locust.events)
    runner = environment.create_local_runner()
    load = session.begin(environment, checker)
    spawned = Event()
    events: Any = environment.events
    events.spawning_complete.add_listener(lambda **_: spawned.set())
    gevent.signal_handler(signal.SIGTERM, _stop, load)
    gc.freeze()
    runner.start(settings.users, spawn_rate=settings.users)
    spawned.wait()
    load.wait()
    load.run()
    runner.quit()
    return 0


def _stop(load: Session) -> None:
    load.end()
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
