"""Leadership: a lease at the store, believed only for as long as the own clock says that it lasts."""

from __future__ import annotations

import math
import uuid
from typing import Any

import anyio

from targets.trainer.settings import Settings
from targets.trainer.wire import Frame, Refused, Unreachable
from targets.trainer.wire_async import AsyncCaller


class Deposed(Exception):
    """Somebody else leads, or may by now."""


class Finished(Exception):
    """The job has ended under another leader."""

    def __init__(self, outcome: str) -> None:
        self.outcome = outcome
        super().__init__(outcome)


class Lease:
    """The right to lead under `epoch`. Counted from when a request was sent: ends here before it does at the store."""

    def __init__(self, store: AsyncCaller, holder: str, settings: Settings) -> None:
        self._store, self._holder, self._settings = store, holder, settings
        self._nonce = uuid.uuid4().hex  # a repeated request must not be granted twice
        self.epoch = 0
        self.previous: str | None = None  # who held it before
        self._expires, self._turn = -math.inf, anyio.Lock()
        self._answered = anyio.current_time()

    @property
    def valid(self) -> bool:
        return anyio.current_time() < self._expires

    @property
    def unanswered(self) -> float:
        """Seconds since the store last answered a request for the lease, or since the first one."""
        return anyio.current_time() - self._answered

    def check(self) -> None:
        """Raise Deposed unless the lease still lasts."""
        if not self.valid:
            raise Deposed("the lease has run out")

    async def try_acquire(self) -> float:
        """0 when it was granted, else the seconds after which to try again; raises Finished when no one need lead."""
        sent = anyio.current_time()
        try:
            granted = await self._store.call(
                "lease.acquire",
                holder=self._holder, ttl=self._settings.lease_ttl, nonce=self._nonce, deadline=self._settings.lease_ttl,
            )  # fmt: skip
        except Refused as refused:
            self._answered = anyio.current_time()
            if refused.error == "finished":
                raise Finished(refused.fields["outcome"]) from None
            return min(max(float(refused.fields.get("remaining", 0.0)), 0.02), self._settings.lease_renew)
        except Unreachable:  # not a recovery path: who does not lead asks again, as it does all the time
            return self._settings.lease_renew
        self.epoch, self.previous = granted["epoch"], granted["previous"]
        self._expires = sent + self._settings.lease_ttl
        return 0.0

    async def keep(self) -> None:
        """Renew until it is lost; returns then."""
        while self.valid:
            await anyio.sleep(min(self._settings.lease_renew, max(self._expires - anyio.current_time(), 0.0)))
            try:
                await self._ask("lease.renew")
            except Refused:
                self._expires = -math.inf
            except Unreachable:
                continue

    async def advance(self, reason: str) -> None:
        """A new epoch for the next incarnation of the group; Deposed when somebody else leads."""
        try:
            self.epoch = (await self._ask("epoch.advance", reason=reason))["epoch"]
        except (Refused, Unreachable) as error:
            raise Deposed(str(error)) from error

    async def _ask(self, op: str, **fields: Any) -> Frame:
        # One at a time: a renewal with the epoch before last would be refused.
        async with self._turn:
            sent = anyio.current_time()
            ttl = self._settings.lease_ttl
            answer = await self._store.call(
                op, token=self.epoch, holder=self._holder, ttl=ttl, deadline=max(self._expires - sent, 0.01), **fields
            )
            self._expires = sent + ttl
            return answer
