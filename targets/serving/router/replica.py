"""What the router knows of one replica."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from targets.serving.router.breaker import CLOSED, Breaker
from targets.serving.router.health import Health
from targets.serving.settings import Address


class Replica:
    """One replica, its state, and the attempts that wait for it."""

    def __init__(self, index: int, address: Address, health: Health, breaker: Breaker) -> None:
        self.index, self.name, self.url = index, f"replica-{index}", address.url
        self.health, self.breaker = health, breaker
        self.cut = False  # its connection was refused or broken, and no poll has hit it since
        self.draining = False
        self.out: str | None = "new"  # why it is not in rotation
        self.outstanding = 0
        self.chosen = 0  # when, in the order of choices
        self.answered = float("-inf")  # when it last answered a request, or went on with a stream
        self.waiting: set[Patience] = set()

    @property
    def unfit(self) -> str | None:
        """Why it should not be in rotation, if so; the first reason that holds."""
        if self.draining:
            return "draining"
        if not self.health.up:
            return "health"
        if self.cut:
            return "connection"
        return self.breaker.reason if self.breaker.state != CLOSED else None

    def abandon(self) -> None:
        """Those who wait for it need not wait any longer."""
        for patience in list(self.waiting):
            patience.end()


class Patience:
    """How long one attempt waits for its replica: `async with patience.timeout`, renewed as bytes come.

    Ends early where the replica is known to be lost.
    """

    def __init__(self, replica: Replica, seconds: float) -> None:
        self._replica, self._over = replica, False
        self._loop = asyncio.get_running_loop()
        self.timeout = asyncio.timeout(max(seconds, 0.0))

    def __enter__(self) -> Patience:
        self._replica.waiting.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._replica.waiting.discard(self)

    @property
    def abandoned(self) -> bool:
        return self._over

    def renew(self, seconds: float | None) -> None:
        """Wait so long from now; None: for as long as it takes."""
        if not self._over:
            self.timeout.reschedule(None if seconds is None else self._loop.time() + max(seconds, 0.0))

    def heard(self) -> None:
        """The replica said something."""
        self._replica.answered = self._loop.time()

    def end(self) -> None:
        """Wait no longer."""
        self._over = True
        with suppress(RuntimeError):  # it is over already
            self.timeout.reschedule(self._loop.time())
