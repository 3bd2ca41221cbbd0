"""`bandwidth`."""

from __future__ import annotations

import asyncio
from collections import deque
from random import Random

from chaos.toxiproxy.toxic import Attribute, End, Line, Stage, Value

ROOM = 256 * 1024
SLICE = 0.1  # seconds


class Bandwidth(Stage):
    """Pass on at most `rate` KB (1000 bytes) per second, on each connection by itself.

    A chunk that takes longer than 100 ms goes in slices. Rate 0 stalls; what was held goes on at removal.
    """

    attributes = (Attribute("rate"),)
    action = "delayed"

    def __init__(self, name: str, values: dict[str, Value], dice: Random, line: Line) -> None:
        super().__init__(name, values, dice, line)
        self._items: deque[bytes | End] = deque()
        self._held = 0
        self._ready = 0.0  # when the wire is free again; kept over the slices, so that late timers cost no rate
        self._timer: asyncio.TimerHandle | None = None

    def free(self) -> bool:
        return self._held < ROOM

    def feed(self, data: bytes) -> None:
        self.hit(len(data))
        self._held += len(data)
        self._take(data)

    def finish(self, end: End) -> None:
        self._take(end)

    def _take(self, item: bytes | End) -> None:
        idle = not self._items
        self._items.append(item)
        if idle:
            self._ready = max(self._ready, self.line.loop.time())
            self._go_on()

    def _go_on(self) -> None:
        """Pass on what is due, then wait for the first that is not."""
        self._timer = None
        now = self.line.loop.time()
        while self._items and self._timer is None:
            head = self._items[0]
            if isinstance(head, End):
                self._items.popleft()
                self.next.finish(head)
                continue
            rate = float(self.values["rate"]) * 1000
            if rate <= 0:
                return
            size = min(len(head), max(1, int(rate * SLICE)))
            due = self._ready + size / rate
            if due > now:
                self._timer = self.line.loop.call_at(due, self._go_on)
            else:
                self._ready = due
                self._pass(size)
        self.line.wake()

    def _pass(self, size: int) -> None:
        head = self._items[0]
        assert isinstance(head, bytes)
        if size == len(head):
            self._items.popleft()
        else:
            self._items[0] = head[size:]
        self._held -= size
        self.next.feed(head[:size])

    def updated(self) -> None:
        """The new rate counts from now."""
        self._cancel()
        self._ready = self.line.loop.time()
        self._go_on()

    def leave(self) -> None:
        self._cancel()
        while self._items:
            item = self._items.popleft()
            if isinstance(item, bytes):
                self.next.feed(item)
            else:
                self.next.finish(item)
        self._held = 0

    def stop(self) -> None:
        self._cancel()
        self._items.clear()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
