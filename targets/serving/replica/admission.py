"""How many requests a replica works on, and how many may wait for that; the others are refused at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

from targets.serving.wire import Deadline

_SMOOTH: Final = 0.1  # how much the newest service time counts


class Shed(Exception):
    """Refused; the reason is for the header."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Admission:
    """`inside` bounds all that this replica has accepted, `slot` the work that is done at the same time."""

    def __init__(self, workers: int, queue: int) -> None:
        self._workers, self._queue = max(workers, 1), queue
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._working = 0
        self.in_flight = 0
        self.service = 0.0  # seconds of one request's work, smoothed

    @property
    def queued(self) -> int:
        """Accepted, but not worked on."""
        return max(self.in_flight - self._working, 0)

    @contextmanager
    def accepted(self, deadline: Deadline) -> Iterator[None]:
        """Accept a request or raise Shed."""
        if self.in_flight >= self._workers + self._queue:
            raise Shed("queue")
        if len(self._waiting) * self.service / self._workers > deadline.left:
            raise Shed("deadline")
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a worker, first come, first served."""
        await self._take()
        began = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self.service += _SMOOTH * (asyncio.get_running_loop().time() - began - self.service)
            self._give()

    async def _take(self) -> None:
        if self._working < self._workers:
            self._working += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give()  # it was handed over in the same moment
            else:
                with suppress(ValueError):
                    self._waiting.remove(turn)
            raise

    def _give(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)  # the place changes hands: nobody can come in between
                return
        self._working -= 1
