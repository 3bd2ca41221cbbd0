"""Who may go to the replicas, who waits, and who is refused at once: nobody waits for what cannot come in time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from targets.serving.defects import NO_SHEDDING, SHEDS_HIGH_FIRST, active
from targets.serving.router.window import Clock
from targets.serving.settings import Settings
from targets.serving.wire import PRIORITIES

LIMIT: Final = "limit"  # there is no queue
QUEUE: Final = "queue"  # it is full of what is as important, or more
PRIORITY: Final = "priority"  # it left for something more important
DEADLINE: Final = "deadline"  # its answer would come too late
WAIT: Final = 0.3  # share of its deadline that a request may wait here: who is refused has time to go elsewhere
_WEIGHT: Final = 0.1  # of the newest request, in the mean service time


class Ticket:
    """A request at the door. `decided` is called once, with why it is refused, or None when it may go on."""

    def __init__(
        self, what: str, priority: str, end: float, came: float, decided: Callable[[str | None], None]
    ) -> None:
        self.what, self.rank, self.end, self.came = what, PRIORITIES.index(priority), end, came
        self.allowed = end - came
        self.latest = came + WAIT * self.allowed
        self.decided = decided
        self.began: float | None = None


class Admission:
    """At most `concurrency` requests at the replicas, a bounded queue ordered by priority in front of them."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._queues: tuple[deque[Ticket], ...] = tuple(deque() for _ in PRIORITIES)
        self.running = 0
        self._service: dict[str, float] = {}  # mean seconds at the replicas, by what is asked
        self._mean = 0.0  # of all

    @property
    def waiting(self) -> int:
        return sum(map(len, self._queues))

    def service(self, what: str) -> float:
        """The measured time that such a request takes, once it may go on; 0 while nothing is known."""
        return self._service.get(what, 0.0)

    def arrive(self, ticket: Ticket) -> None:
        """Let it go on, let it wait, or refuse it, or one that waits."""
        if ticket.end <= self._clock():
            ticket.decided(DEADLINE)
        elif self.running < self._settings.concurrency and not self.waiting:
            self._start(ticket)
        elif active(self._settings, NO_SHEDDING):
            self._queues[ticket.rank].append(ticket)
        elif not self._settings.queue:
            ticket.decided(LIMIT)
        elif self._hopeless(ticket, self._ahead(ticket)):
            self._too_late(ticket)
        elif self.waiting < self._settings.queue:
            self._queues[ticket.rank].append(ticket)
        else:
            self._replace(ticket)

    def leave(self, ticket: Ticket, *, measured: bool) -> None:
        """It has ended; `measured`: the time that it took says how long such a request takes."""
        assert ticket.began is not None
        self.running -= 1
        seconds = self._clock() - ticket.began
        self._mean = _mean(self._mean or None, seconds)
        if measured:
            self._service[ticket.what] = _mean(self._service.get(ticket.what), seconds)
        self._next()

    def give_up(self, ticket: Ticket) -> None:
        """It waits no longer, by its own choice, where it still does."""
        with suppress(ValueError):
            self._queues[ticket.rank].remove(ticket)

    def expire(self, ticket: Ticket) -> None:
        """Its patience is over: refuse it."""
        self.give_up(ticket)
        self._too_late(ticket)

    def patience(self, ticket: Ticket) -> float:
        """How long it may wait before it is refused."""
        if active(self._settings, NO_SHEDDING):
            return ticket.end - self._clock()
        return min(ticket.latest, ticket.end - self.service(ticket.what)) - self._clock()

    def _start(self, ticket: Ticket) -> None:
        self.running += 1
        ticket.began = self._clock()
        ticket.decided(None)

    def _next(self) -> None:
        """The most important one that still makes sense goes on."""
        while self.running < self._settings.concurrency:
            queue = next(filter(None, self._queues), None)
            if queue is None:
                return
            ticket = queue.popleft()
            if self._hopeless(ticket, 0) and not active(self._settings, NO_SHEDDING):
                self._too_late(ticket)
            else:
                self._start(ticket)

    def _too_late(self, ticket: Ticket) -> None:
        """Refuse it, and with it who is less important and has no more time: they all are behind it."""
        ticket.decided(DEADLINE)
        if active(self._settings, NO_SHEDDING) or active(self._settings, SHEDS_HIGH_FIRST):
            return
        for queue in self._queues[ticket.rank + 1 :]:
            for other in [other for other in queue if other.allowed <= ticket.allowed]:
                queue.remove(other)
                other.decided(DEADLINE)

    def _replace(self, ticket: Ticket) -> None:
        """The queue is full: the youngest of the lowest priority leaves, be it the one that comes."""
        queues = range(len(self._queues))
        if active(self._settings, SHEDS_HIGH_FIRST):
            leaves = next(rank for rank in queues if self._queues[rank])
            goes = leaves <= ticket.rank
        else:
            leaves = next(rank for rank in reversed(queues) if self._queues[rank])
            goes = leaves > ticket.rank
        if not goes:
            ticket.decided(QUEUE)
            return
        self._queues[leaves].pop().decided(PRIORITY)
        self._queues[ticket.rank].append(ticket)

    def _ahead(self, ticket: Ticket) -> int:
        """How many go on before it."""
        return sum(len(queue) for queue in self._queues[: ticket.rank + 1])

    def _hopeless(self, ticket: Ticket, ahead: int) -> bool:
        """Whether it would be answered after its deadline, or wait too long for that, as things go."""
        begin = self._clock() + ahead * self._mean / self._settings.concurrency
        return begin > ticket.latest or begin + self.service(ticket.what) >= ticket.end


def _mean(before: float | None, seconds: float) -> float:
    return seconds if before is None else before + _WEIGHT * (seconds - before)
