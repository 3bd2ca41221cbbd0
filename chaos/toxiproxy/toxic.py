"""What a toxic is: a record that the API shows, and a stage of it in each link that it hits."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any, ClassVar, Protocol, TypeAlias

Value: TypeAlias = int | float | str


class End(Enum):
    """How a direction ends. It travels down the chain behind the data."""

    EOF = "eof"  # the sender has said all: the other direction goes on
    CUT = "cut"  # the whole connection closes, once what was passed on has been written
    RESET = "reset"  # the whole connection closes with RST, at both ends


class Receiver(Protocol):
    """The next in the chain. Takes everything, at once: a heal never waits for room."""

    def feed(self, data: bytes) -> None: ...

    def finish(self, end: End) -> None: ...


class Line(Protocol):
    """What a stage may ask of the link that it is in."""

    loop: asyncio.AbstractEventLoop

    def wake(self) -> None:
        """A stage has room again."""

    def hit(self, stage: Stage) -> None:
        """The first hit of a stage on this connection."""

    def blame(self, stage: Stage) -> None:
        """That stage ends the connection."""


@dataclass(frozen=True)
class Attribute:
    """A setting of a toxic. One that is `ours` is shown only when it was given: old clients see what they know."""

    name: str
    default: Value = 0
    least: float | None = 0
    most: float | None = None
    choices: tuple[str, ...] = ()
    ours: bool = False
    required: bool = False

    def fault(self, value: Value) -> str:
        """What is wrong with a value of the right type, or nothing."""
        if isinstance(value, str):
            return "" if value in self.choices else f"{self.name}: one of {', '.join(self.choices)}"
        if self.least is not None and value < self.least:
            return f"{self.name}: at least {self.least:g}"
        if self.most is not None and value > self.most:
            return f"{self.name}: at most {self.most:g}"
        return ""


class Stage:
    """A toxic at work in one direction of one connection. The class docstring says what happens to the data.

    `hits` and `bytes` count what it really did to data; a stage that only let data pass has none.
    """

    attributes: ClassVar[tuple[Attribute, ...]] = ()
    action: ClassVar[str] = "passed"  # what a hit did, in words for the log

    def __init__(self, name: str, values: dict[str, Value], dice: Random, line: Line) -> None:
        self.name = name
        self.values = values  # those of the toxic itself, so an update is in force at once
        self.dice = dice
        self.line = line
        self.next: Receiver
        self.hits = 0
        self.bytes = 0

    def start(self) -> None:
        """It has joined the chain."""

    def feed(self, data: bytes) -> None:
        self.next.feed(data)

    def finish(self, end: End) -> None:
        self.next.finish(end)

    def cut(self, end: End = End.CUT) -> None:
        """End the connection, behind what was passed on."""
        self.line.blame(self)
        self.next.finish(end)

    def free(self) -> bool:
        """Whether the link should read on; if not, `line.wake` says when."""
        return True

    def knock(self) -> None:
        """Data is waiting to be read while this stage is not free."""

    def updated(self) -> None:
        """The values have changed."""

    def leave(self) -> None:
        """It was taken out of the chain: pass on at once what it holds."""

    def stop(self) -> None:
        """The connection has closed: nothing is passed on any more, no timer stays."""

    def hit(self, size: int) -> None:
        """Record that so many bytes (0: the connection itself) were hit."""
        self.hits += 1
        self.bytes += size
        if self.hits == 1:
            self.line.hit(self)


class Queue(Stage):
    """A stage that holds items until their time has come; the order is kept."""

    room: ClassVar[int] = 1024 * 32 * 1024  # bytes; the original has 1024 chunks of up to 32 KiB

    def __init__(self, name: str, values: dict[str, Value], dice: Random, line: Line) -> None:
        super().__init__(name, values, dice, line)
        self._items: deque[tuple[float, bytes | End]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._held = 0

    def free(self) -> bool:
        return self._held < self.room

    def hold(self, item: bytes | End, due: float) -> None:
        """Pass the item on at that moment of the loop's clock, or when all before it have gone, if that is later."""
        if not self._items and due <= self.line.loop.time():
            return self._pass(item)
        self._items.append((due, item))
        if isinstance(item, bytes):
            self._held += len(item)
        if self._timer is None:
            self._arm()
        return None

    def _arm(self) -> None:
        self._timer = self.line.loop.call_at(self._items[0][0], self._release)

    def _release(self) -> None:
        self._timer = None
        now = self.line.loop.time()
        while self._items and self._items[0][0] <= now:
            self._pop()
        if self._items and self._timer is None:
            self._arm()
        self.line.wake()

    def _pop(self) -> None:
        item = self._items.popleft()[1]
        if isinstance(item, bytes):
            self._held -= len(item)
        self._pass(item)

    def _pass(self, item: bytes | End) -> None:
        if isinstance(item, bytes):
            self.next.feed(item)
        else:
            self.next.finish(item)

    def leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._items:
            self._pop()

    def stop(self) -> None:
        self._items.clear()
        self.leave()


@dataclass(eq=False)
class Toxic:
    """A toxic as the API knows it."""

    name: str
    type_name: str
    stream: str  # as it was written: the original echoes `UPSTREAM`
    kind: type[Stage]
    values: dict[str, Value]
    given: set[str] = field(default_factory=set)  # attributes that were named by a caller
    toxicity: float = 1.0
    ttl_ms: int = 0
    expiry: asyncio.TimerHandle | None = None

    @property
    def upstream(self) -> bool:
        return self.stream.lower() == "upstream"

    def shown(self) -> dict[str, Any]:
        """For JSON."""
        attributes = {a.name: self.values[a.name] for a in self.kind.attributes if not a.ours or a.name in self.given}
        about = {"attributes": attributes, "name": self.name, "type": self.type_name, "stream": self.stream}
        more = {"ttl_ms": self.ttl_ms} if self.ttl_ms else {}
        whole = self.toxicity == int(self.toxicity)
        return {**about, "toxicity": int(self.toxicity) if whole else self.toxicity, **more}
