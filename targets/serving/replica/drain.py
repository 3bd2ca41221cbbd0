"""A planned end: nothing new is accepted, what is in flight ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[..., None]


class Drain:
    """What is in flight, and whether anything may still come."""

    def __init__(self, member: str, tell: Tell) -> None:
        self._member, self._tell = member, tell
        self.leaving = False
        self.in_flight = 0
        self.streams = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @contextmanager
    def request(self, *, stream: bool) -> Iterator[None]:
        """A request is in flight."""
        self.in_flight += 1
        self.streams += stream
        self._idle.clear()
        try:
            yield
        finally:
            self.in_flight -= 1
            self.streams -= stream
            if not self.in_flight:
                self._idle.set()

    async def run(self, within: float) -> int:
        """Accept nothing any more and wait for what is in flight; how much of it was cut `within` seconds later."""
        began = time.monotonic()
        self.leaving = True
        self._tell("drain.begun", member=self._member, in_flight=self.in_flight, streams=self.streams)
        try:
            async with asyncio.timeout(within):
                await self._idle.wait()
        except TimeoutError:
            pass
        lost = self.in_flight
        self._tell("drain.ended", member=self._member, seconds=round(time.monotonic() - began, 6), lost=lost)
        return lost
