"""How a request comes in: past the admission, and out again, whatever happens in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from targets.serving.router.admission import Admission, Ticket
from targets.serving.router.asked import Asked
from targets.serving.router.facts import Facts
from targets.serving.router.meters import Meters


class Shed(Exception):
    """A request was refused."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Visit:
    """A request that was let in; set `measured` when the time that it takes is that of a good answer."""

    measured = False


class Door:
    """Admission for the tasks of the server."""

    def __init__(self, admission: Admission, facts: Facts, meters: Meters) -> None:
        self.admission, self._facts, self._meters = admission, facts, meters

    @asynccontextmanager
    async def visit(self, asked: Asked) -> AsyncIterator[Visit]:
        """Be in as soon as there is room; raises Shed when there is none in time."""
        ticket, reason = await self._enter(asked)
        if reason is not None:
            self.refused(asked, reason, waited=time.monotonic() - ticket.came)
            raise Shed(reason)
        asked.queued = time.monotonic() - ticket.came
        visit = Visit()
        try:
            yield visit
        finally:
            self.admission.leave(ticket, measured=visit.measured)

    def refused(self, asked: Asked, reason: str, *, waited: float) -> None:
        """Tell that a request was refused."""
        with self._facts.path("request.shed"):
            self._facts.emit_soon(
                "request.shed", id=asked.id, priority=asked.priority, reason=reason, waited=round(waited, 6)
            )
        self._meters.shed(asked.priority, reason)

    async def _enter(self, asked: Asked) -> tuple[Ticket, str | None]:
        decided: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        now = time.monotonic()
        ticket = Ticket(asked.what, asked.priority, now + asked.deadline.left, now, decided.set_result)
        self.admission.arrive(ticket)
        if not decided.done():
            try:
                await asyncio.wait([decided], timeout=max(self.admission.patience(ticket), 0.0))
            except asyncio.CancelledError:
                self.admission.give_up(ticket)
                if decided.done() and decided.result() is None:
                    self.admission.leave(ticket, measured=False)
                raise
        if not decided.done():
            self.admission.expire(ticket)
        return ticket, decided.result()
