"""Events and the history they form: all that the judge may look at."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True, gc=False):
    """One recorded fact.

    `seq` is the order in which the harness recorded it: the one total order of a run, from 0, without gaps.
    `t` is when it happened: seconds of CLOCK_MONOTONIC since the run began (a member's own reading, same clock);
    so `t` may step back by a few milliseconds between sources, `seq` never does. `wall` is Unix time, seconds.
    `source` is a member's name, `harness`, `fault:<step>` or `probe:<name>`. `kind` is `noun.verb`.
    """

    seq: int
    t: float
    wall: float
    source: str
    kind: str
    data: Mapping[str, Any]

    def get(self, key: str, default: Any = None) -> Any:
        """A field of `data`."""
        return self.data.get(key, default)


class History(Sequence[Event]):
    """An immutable, ordered record of a run with the few queries that checks need. Queries cost O(answer)."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._events = tuple(events)

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return History(self._events[index])
        return self._events[index]

    @cached_property
    def _by_kind(self) -> Mapping[str, tuple[Event, ...]]:
        kinds: dict[str, list[Event]] = {}
        for event in self._events:
            kinds.setdefault(event.kind, []).append(event)
        return {kind: tuple(events) for kind, events in kinds.items()}

    def of(self, *kinds: str, **where: Any) -> tuple[Event, ...]:
        """Events of these kinds, in order, whose data equals every given field."""
        if len(kinds) == 1:
            found: Iterable[Event] = self._by_kind.get(kinds[0], ())
        else:
            found = sorted((e for k in kinds for e in self._by_kind.get(k, ())), key=lambda e: e.seq)
        if where:
            return tuple(e for e in found if all(e.data.get(k) == v for k, v in where.items()))
        return tuple(found)

    def first(self, kind: str, *, after: int = -1, **where: Any) -> Event | None:
        """The first event of that kind with seq > `after`, or None."""
        events = self._by_kind.get(kind, ())
        start = bisect_left(events, after + 1, key=lambda e: e.seq)
        for event in events[start:]:
            if all(event.data.get(k) == v for k, v in where.items()):
                return event
        return None

    def last(self, kind: str, *, before: int | None = None, **where: Any) -> Event | None:
        """The last event of that kind with seq < `before` (the end when None), or None."""
        events = self._by_kind.get(kind, ())
        stop = len(events) if before is None else bisect_left(events, before, key=lambda e: e.seq)
        for event in reversed(events[:stop]):
            if all(event.data.get(k) == v for k, v in where.items()):
                return event
        return None

    def kinds(self) -> frozenset[str]:
        """Every kind that occurs."""
        return frozenset(self._by_kind)
