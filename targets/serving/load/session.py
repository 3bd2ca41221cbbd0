"""One load from its beginning to its end, in the terms of Locust: what its events start."""

from __future__ import annotations

import socket
import sys
import time
from functools import partial
from weakref import WeakKeyDictionary

import gevent
from gevent.event import Event
from locust.env import Environment

from chaos import inside
from targets.serving.load import beside
from targets.serving.load.books import Books
from targets.serving.load.client import ready
from targets.serving.load.desk import Desk
from targets.serving.load.figures import count, exact, figures
from targets.serving.settings import Place, Settings

_SETTLE = 10.0  # seconds for the checker to answer the last questions
_READY = 60.0  # seconds for a router to be ready
_ASK = 0.05  # seconds between two questions whether it is
_FLUSH = 5.0  # … and for the harness to take the last facts


class Session:
    """A load that is under way."""

    def __init__(self, environment: Environment, settings: Settings, place: Place, checker: int) -> None:
        self._environment = environment
        self._router = place.router
        self._settings = settings
        stream = socket.socket(fileno=checker)
        if reason := beside.wait(stream):
            print(f"answers are not compared: {reason}", file=sys.stderr, flush=True)
        self._books = Books(None if reason else stream, partial(count, environment))
        self.desk = Desk(settings, place.router, self._books)
        self.over = Event()
        exact()

    def wait(self) -> None:
        """Until the router says that it is ready, as whoever puts load on it would ask."""
        end = time.monotonic() + _READY
        while not ready(self._router):
            if time.monotonic() > end:
                raise TimeoutError(f"no router was ready at {self._router.url} within {_READY:.0f} s")
            gevent.sleep(_ASK)

    def run(self) -> None:
        """All of it; to be called once the users are there."""
        told = {"users": self._settings.users, "shape": self._settings.shape, "seconds": self._settings.seconds}
        self._books.tell("load.started", time.monotonic(), told)
        self.desk.run()
        self._books.settle(_SETTLE)
        self.end()

    def end(self) -> None:
        """Say what came out, with what is still open where the load is cut short."""
        if self.over.is_set():
            return
        told = figures(self._environment) | ({"open": self.desk.open} if self.desk.open else {})
        self._books.tell("load.ended", time.monotonic(), told)
        self._books.flush(_FLUSH)
        self.over.set()


_sessions: WeakKeyDictionary[Environment, Session] = WeakKeyDictionary()


def begin(environment: Environment, checker: int | None = None) -> Session:
    """Get ready; `checker` is the socket to the process that compares, where it was started already."""
    settings = Settings.from_environment()
    place = Place.from_environment(settings, member="load", node="c0")
    inside.hello(place.member, role="load", node=place.node)
    session = Session(environment, settings, place, beside.start() if checker is None else checker)
    return _sessions.setdefault(environment, session)


def of(environment: Environment) -> Session:
    """The load of this Locust."""
    return _sessions[environment]
