"""One recorder gives the one order: every fact of a run passes through `record`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import anyio

from chaos.api import JSON
from chaos.history import Event
from chaos.journal import Journal
from chaos.runner.border import Border

KINDS_KEPT = 256
BYTES_KEPT = 1 << 20  # of each kind, as journal lines: some five thousand ordinary events


class Observer(Protocol):
    """Someone who watches a run, such as the console."""

    def event(self, event: Event) -> None:
        """Called for every event, in order, right after it was recorded; must be quick."""


class Recorder:
    """Numbers events, journals them, and tells those who listen, all before `record` returns.

    Memory stays flat over a long run: of each kind the newest events are kept for probes, the rest is in the journal.
    """

    def __init__(self, journal: Journal, observer: Observer | None = None) -> None:
        self._journal = journal
        self._observer = observer
        self._origin = anyio.current_time()
        self._seq = 0
        self._listeners: dict[str, list[Callable[[Event], None]]] = {}
        self._recent: dict[str, _Recent] = {}
        self.traces: list[str] = []  # of an observer that broke
        self.on_broken: Callable[[str], None] | None = None

    def now(self) -> float:
        """Seconds since the run began."""
        return anyio.current_time() - self._origin

    def listen(self, kinds: Iterable[str], listener: Callable[[Event], None]) -> None:
        """Call `listener` for each event of these kinds from now on."""
        for kind in kinds:
            self._listeners.setdefault(kind, []).append(listener)

    def record(self, source: str, kind: str, data: JSON, t: float | None = None) -> Event:
        """Append a fact that happened at `t` (CLOCK_MONOTONIC, now when None). Never raises."""
        if t is None or t < self._origin:  # nobody is older than the run: whoever says so has another clock
            t = anyio.current_time()
        moment = t - self._origin
        wall = time.time()
        event = Event(seq=self._seq, t=round(moment, 6), wall=round(wall, 3), source=source, kind=kind, data=data)
        self._seq += 1
        self._keep(event, self._journal.append(event))
        for listener in self._listeners.get(kind, ()):
            listener(event)
        self._show(event)
        if self._journal.broken is not None and self.on_broken is not None:
            tell, self.on_broken = self.on_broken, None
            tell(self._journal.broken)
        return event

    def recent(self, kind: str, seconds: float) -> Sequence[Event]:
        """Events of that kind with `t` in the last `seconds`, as far as they are kept."""
        recent = self._recent.get(kind)
        return recent.since(self.now() - seconds) if recent is not None else []

    def _keep(self, event: Event, size: int) -> None:
        recent = self._recent.get(event.kind)
        if recent is None:
            if len(self._recent) >= KINDS_KEPT:
                return
            recent = self._recent[event.kind] = _Recent()
        recent.append(event, size)

    def _show(self, event: Event) -> None:
        if self._observer is None:
            return
        with Border() as border:
            self._observer.event(event)
        if border.error is not None:
            self._observer = None  # a broken screen must not break a run
            self.traces.append(border.trace())


class _Recent:
    """The newest events of one kind."""

    def __init__(self) -> None:
        self._events: deque[tuple[Event, int]] = deque()
        self._bytes = 0

    def append(self, event: Event, size: int) -> None:
        self._events.append((event, size))
        self._bytes += size
        while self._bytes > BYTES_KEPT:
            self._bytes -= self._events.popleft()[1]

    def since(self, t: float) -> list[Event]:
        found = []
        for event, _ in reversed(self._events):
            if event.t >= t:
                found.append(event)
            elif event.t < t - 1:  # sources differ by milliseconds, so look a little further
                break
        found.reverse()
        return found
