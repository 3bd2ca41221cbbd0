"""Locust's users: `python -m targets.serving.load` runs them, and so does `locust -f` by itself.

A user sends what is due, at most one request at a time. When that is follows from the settings, whatever the users
wait for: so `users` bounds how many wait at once, and never how much is asked.
"""

from __future__ import annotations

from typing import Any

import gevent
from locust import User, constant, events, task
from locust.env import Environment
from locust.exception import StopUser

from targets.serving.load import session


class Client(User):
    """One of `users` that may wait for an answer at the same time."""

    wait_time = constant(0)

    @task
    def next(self) -> None:
        desk = session.of(self.environment).desk
        ask = desk.take()
        if ask is None:
            raise StopUser
        desk.serve(ask)


def attach(environment: Environment, runner: Any, **_: Any) -> None:
    """With `locust -f`: begin and end with it. `python -m targets.serving.load` does so by itself."""

    def run() -> None:
        session.of(environment).wait()
        session.of(environment).run()
        runner.quit()

    heard: Any = environment.events
    heard.test_start.add_listener(lambda **_: session.begin(environment))
    heard.spawning_complete.add_listener(lambda **_: gevent.spawn(run))


started: Any = events
started.init.add_listener(attach)
