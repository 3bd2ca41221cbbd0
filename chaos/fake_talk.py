"""The talk of `chaos.testing.FakeTarget`: what a test has members say is heard, what they send is made up."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio.lowlevel

from chaos.api import JSON
from chaos.errors import NotLanded
from chaos.history import Event
from chaos.talk import Heard, Recorded


class FakeTalk:
    """Implements Hears and Recordings. On a numb target nobody sends anything."""

    numb = False

    def __init__(self) -> None:
        super().__init__()
        self.replayed: list[Recorded] = []
        self._epochs = itertools.count(2)
        self._listeners: list[tuple[tuple[str, ...], Heard]] = []

    def say(self, kind: str, **data: Any) -> None:
        """A member says that: whoever listens hears it."""
        for kinds, heard in self._listeners:
            if kind in kinds:
                heard.take(Event(0, 0.0, 0.0, "store", kind, data))

    def succeed(self) -> None:
        """A member that was stopped or cut off has a successor."""
        self.say("lease.granted", resource="leader", holder="standby", epoch=next(self._epochs))

    @contextmanager
    def listen(self, *kinds: str) -> Iterator[Heard]:
        listener = kinds, Heard()
        self._listeners.append(listener)
        try:
            yield listener[1]
        finally:
            self._listeners.remove(listener)

    @asynccontextmanager
    async def record(self, link: str, nodes: Sequence[str]) -> AsyncIterator[FakeTape]:
        await anyio.lowlevel.checkpoint()
        yield FakeTape(self, (*nodes, "n0")[0])


class FakeTape:
    """Implements Tape: a request passes at once, and its sender has a successor right after."""

    def __init__(self, target: FakeTalk, node: str) -> None:
        self.target, self.node = target, node

    async def find(self, text: bytes, within: float) -> Recorded:
        await anyio.lowlevel.checkpoint()
        if self.target.numb:
            raise NotLanded(f"no request with {text!r} passed within {within:g} s")
        request = Recorded(node=self.node, to=("n0", 1), data=b"<" + text + b">", t=time.monotonic())
        self.target.succeed()
        return request

    async def send_again(self, request: Recorded) -> JSON:
        await anyio.lowlevel.checkpoint()
        self.target.replayed.append(request)
        return {"mechanism": "fake", "bytes": len(request.data), "answer": "no"}
