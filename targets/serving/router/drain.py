"""A planned end: nothing new is accepted, what is in flight ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Drain:
    """What is in flight, and whether anything may still come."""

    def __init__(self) -> None:
        self.draining = False
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

    async def ended(self, within: float) -> int:
        """Begin, and wait until what is in flight has ended; how much has not, `within` seconds later."""
        self.draining = True
        try:
            async with asyncio.timeout(within):
                await self._idle.wait()
        except TimeoutError:
            pass
        return self.in_flight
