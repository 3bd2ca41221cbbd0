"""Between the agenda and Locust's users: hands out what is due, accounts for what comes back or never could be sent."""

from __future__ import annotations

import time

from gevent.event import Event
from gevent.lock import Semaphore

from targets.serving.load import facts
from targets.serving.load.agenda import Agenda
from targets.serving.load.asks import Ask, Turn, asks
from targets.serving.load.books import Books
from targets.serving.load.client import Client, Reply
from targets.serving.settings import Address, Settings


class Desk:
    """The load of one run. `users` greenlets `take` and `serve`; a request that finds none free waits here."""

    def __init__(self, settings: Settings, router: Address, books: Books) -> None:
        self._settings = settings
        self._books = books
        self._agenda = Agenda(asks(settings), settings.seconds)
        self._client = Client(router, settings.users, self.now)
        self._waiting = Semaphore(0)  # counts what users may take
        self._changed = Event()  # a turn was added, or the last request has ended
        self._generations: dict[str, tuple[int, ...]] = {}  # that answered a session so far
        self.open = 0  # requests that came due and have not ended
        self._origin = 0.0
        self._over = False

    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._origin

    def run(self) -> None:
        """Let requests come due from this moment on; returns when the last has ended."""
        self._origin = time.monotonic()
        while True:
            now = self.now()
            for ask in self._agenda.expire(now):
                self._end(ask, Reply(error="unsent"))
            for ask in self._agenda.come(now):
                self.open += 1
                self._books.tell("request.sent", self._origin + ask.at, facts.sent(ask))
                self._waiting.release()
            following = self._agenda.next()
            if following is None and not self.open:
                break
            self._changed.clear()
            self._changed.wait(None if following is None else max(following - self.now(), 0.0))
        self._over = True
        for _ in range(self._settings.users):
            self._waiting.release()

    def take(self) -> Ask | None:
        """The request that has waited longest, once there is one; None when the load is over."""
        while not self._over:
            self._waiting.acquire()
            if (ask := self._agenda.take()) is not None:
                return ask
        return None

    def serve(self, ask: Ask) -> None:
        """Send it and account for it."""
        self._end(ask, self._client.send(ask))

    def _end(self, ask: Ask, reply: Reply) -> None:
        now = self.now()
        data = facts.completed(ask, reply, now - ask.at)
        before = self._generations.pop(ask.session, ()) if isinstance(ask, Turn) else ()
        question = facts.to_compare(ask, reply, before)
        self._books.complete(self._origin + now, data, question)
        if isinstance(ask, Turn):
            self._go_on(ask, reply, before, now)
        self.open -= 1
        if not self.open:
            self._changed.set()

    def _go_on(self, turn: Turn, reply: Reply, before: tuple[int, ...], now: float) -> None:
        following = turn.after(now + self._settings.think, whole=reply.status == 200)
        if following is None:
            return
        if following.session == turn.session:
            self._generations[turn.session] = (*before, int(reply.body.get("generation", -1)))
        self._agenda.add(following)
        self._changed.set()
