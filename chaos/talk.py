"""What members say, and what they send each other: to wait for it, to record it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol, runtime_checkable

import anyio
import msgspec

from chaos.api import JSON
from chaos.errors import NotLanded
from chaos.history import Event


class Heard:
    """Events of the target from the moment of listening on, each for whoever asks first."""

    def __init__(self) -> None:
        self._events: list[tuple[float, Event]] = []
        self._news = anyio.Event()

    def take(self, event: Event) -> None:
        """Have it heard."""
        self._events.append((time.monotonic(), event))
        self._news.set()
        self._news = anyio.Event()

    async def next(self, fits: Callable[[Event], bool], within: float, since: float = 0.0) -> Event | None:
        """The next one that fits, recorded after `since` (CLOCK_MONOTONIC); None when none comes in that time."""
        seen = 0
        with anyio.move_on_after(within):
            while True:
                for heard, event in self._events[seen:]:
                    if heard >= since and fits(event):
                        return event
                seen = len(self._events)
                await self._news.wait()
        return None


@runtime_checkable
class Hears(Protocol):
    """What members say can be waited for."""

    def listen(self, *kinds: str) -> AbstractContextManager[Heard]:
        """Hear events of these kinds for the length of the block, none of those before."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it went over a link."""

    node: str  # of the sender
    to: tuple[str, int]
    data: bytes
    t: float  # when its last byte was seen, CLOCK_MONOTONIC


class Tape(Protocol):
    """A recording that runs."""

    async def find(self, text: bytes, within: float) -> Recorded:
        """The first whole request with `text` in it; NotLanded when none passes in that time."""

    async def send_again(self, request: Recorded) -> JSON:
        """Send these bytes on a new connection from the same node, and read the answer: the proof that somebody took
        them. NotLanded when nobody does."""


@runtime_checkable
class Recordings(Protocol):
    """Requests that go over a declared link can be recorded and sent again."""

    def record(self, link: str, nodes: Sequence[str]) -> AbstractAsyncContextManager[Tape]:
        """Record what clients on these nodes, on all when none is named, send over the link: for the length of the
        block."""


class NobodyThere(NotLanded):
    """Nobody listens at the end of a link: the connection was refused."""


class Line(Protocol):
    """A connection to a service of the target; bytes go to and fro."""

    def about(self) -> JSON:
        """How it came about and with whom: for the record."""

    async def send(self, data: bytes) -> None:
        """Send all of it; NotLanded when the service has hung up."""

    async def receive(self, within: float) -> bytes:
        """What comes next, at least a byte; NotLanded when nothing does in that time, or the service has hung up."""


@runtime_checkable
class Dials(Protocol):
    """The service at the end of a declared link can be called, as one of its clients would."""

    def dial(self, link: str) -> AbstractAsyncContextManager[Line]:
        """A connection from a node of the link's clients, for the length of the block; NotLanded when there is none,
        NobodyThere when it was refused."""
