"""What each member went through: spans of life with their epoch, freezes and ends, for the timeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from chaos.history import Event, History
from chaos.report.board import is_freeze
from chaos.report.lines import KEY_KINDS, describe, how_ended, items, struck

_MARKED = KEY_KINDS - {"member.started"} | {"epoch.rejected", "failure.suspected"}
_MOST_LANES = 60
_MOST_SHAPES = 2000  # spans, and marks


class Span(NamedTuple):
    """A stretch of a member's life. `state`: alive, frozen, dead, stopped or gone (unknown how)."""

    begin: float
    end: float
    state: str
    epoch: int | None
    why: str = ""


class Mark(NamedTuple):
    """An event on a lane; `times` of the same kind fell on this spot."""

    t: float
    seq: int
    kind: str
    text: str
    times: int


class Band(NamedTuple):
    """A fault from landing to heal; an instant one begins where it ends."""

    begin: float
    end: float
    step: str
    kind: str
    members: tuple[str, ...]
    healed: bool
    seq: int


class Lane(NamedTuple):
    """One member, or the harness."""

    name: str
    role: str
    node: str
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...]


def end_of(history: History) -> float:
    """The length of the run in seconds: sources differ by milliseconds, so the last events decide."""
    return max((e.t for e in history[-100:]), default=0.0)


def bands(history: History) -> tuple[Band, ...]:
    """The faults that landed, in order."""
    end = end_of(history)
    nodes = {str(e.get("member") or e.source): str(e.get("node")) for e in history.of("member.started")}
    open_, found = dict[str, Event](), list[Band]()
    for event in history.of("fault.landed", "fault.healed"):
        if event.kind == "fault.landed" and not event.get("instant"):
            open_[event.source] = event
        elif event.kind == "fault.landed":
            found.append(_band(event, event.t, healed=True, nodes=nodes))
        elif landed := open_.pop(event.source, None):
            found.append(_band(landed, event.t, healed=True, nodes=nodes))
    found += [_band(landed, end, healed=False, nodes=nodes) for landed in open_.values()]
    return tuple(sorted(found, key=lambda band: band.seq))


def lanes(history: History, columns: int = 400, most: int = _MOST_SHAPES) -> tuple[tuple[Lane, ...], int]:
    """The lanes in order of first appearance, the harness first; and how many members more there were.

    What lies closer than a column, in a crowded run closer than a few, is shown once; no more than `most` spans, and
    no more marks.
    """
    end = max(end_of(history), 1e-9)
    tracks = {_HARNESS: _Track(_HARNESS)}
    for event in history.of(*_WATCHED):
        _follow(tracks, event)
    marked = history.of(*_MARKED)
    busy = {_lane_of(tracks, event) for event in marked}
    shown = sorted(tracks.values(), key=lambda track: (track.name != _HARNESS, track.name not in busy))[:_MOST_LANES]
    names = {track.name for track in shown}
    marks = _marks([(where, e) for e in marked if (where := _lane_of(tracks, e)) in names], end, columns, most)
    spans = _thinned({track.name: track.finish(end) for track in shown}, end, columns, most)
    found = tuple(
        Lane(t.name, t.role, t.node, spans[t.name], tuple(m for where, m in marks if where == t.name))
        for t in tracks.values()
        if t.name in spans
    )
    return found, len(tracks) - len(found)


def _thinned(spans: dict[str, list[Span]], end: float, columns: int, most: int) -> dict[str, tuple[Span, ...]]:
    """Of stretches shorter than a column (made wider until all fit) one of each state a spot."""
    width = end / columns
    while sum(map(len, spans.values())) > most and width < 2 * end:
        spans = {
            name: list(
                {(s.state, int(s.begin / width), s.begin if s.end - s.begin > width else 0): s for s in of}.values()
            )
            for name, of in spans.items()
        }
        width *= 2
    return {name: tuple(of) for name, of in spans.items()}


_HARNESS = "harness"
_EPOCHS = ("step.completed", "checkpoint.loaded", "checkpoint.loading", "group.forming", "group.formed")
_WATCHED = ("member.started", "member.exited", "fault.landed", "fault.healed", "epoch.issued", *_EPOCHS)


class _Track(msgspec.Struct):
    """A lane in the making: what the member is since when."""

    name: str
    role: str = ""
    node: str = ""
    pid: object = None
    state: str = ""
    why: str = ""
    epoch: int | None = None
    since: float = 0.0
    spans: list[Span] = []

    def turn(self, t: float, state: str, why: str = "") -> None:
        if state != self.state:
            self._cut(t)
            self.state, self.why = state, why

    def enter(self, t: float, epoch: int) -> None:
        if epoch != self.epoch:
            self._cut(t)
            self.epoch = epoch

    def finish(self, end: float) -> list[Span]:
        self._cut(end)
        return self.spans

    def _cut(self, t: float) -> None:
        if self.state and t > self.since:
            self.spans.append(Span(self.since, t, self.state, self.epoch, self.why))
        self.since = t


def _follow(tracks: dict[str, _Track], event: Event) -> None:
    d = event.data
    name = str(d.get("member") or event.source)
    if event.kind == "member.started":
        track = tracks.setdefault(name, _Track(name))
        track.role, track.node, track.pid = str(d.get("role") or ""), str(d.get("node") or ""), d.get("pid")
        track.turn(event.t, "alive")
    elif event.kind == "member.exited":
        if name in tracks and tracks[name].pid in (None, d.get("pid")):
            how = how_ended(d)
            tracks[name].turn(event.t, how if how in ("stopped", "gone") else "dead", how)
    elif event.kind.startswith("fault."):
        _freeze(tracks, event)
    else:
        who = str(d.get("holder")) if event.kind == "epoch.issued" else event.source
        epoch = d.get("epoch")
        if who in tracks and isinstance(epoch, int):
            tracks[who].enter(event.t, epoch)


def _freeze(tracks: dict[str, _Track], event: Event) -> None:
    if not is_freeze(str(event.get("kind"))):
        return
    if event.kind == "fault.landed":
        for name in map(str, items(event.get("members"))):
            if name in tracks and tracks[name].state == "alive":
                tracks[name].turn(event.t, "frozen", event.source)
    else:
        for track in tracks.values():
            if track.state == "frozen" and track.why == event.source:
                track.turn(event.t, "alive")


def _band(landed: Event, end: float, *, healed: bool, nodes: Mapping[str, str]) -> Band:
    step = landed.source.removeprefix("fault:")
    return Band(
        landed.t, max(end, landed.t), step, str(landed.get("kind")), struck(landed.data, nodes), healed, landed.seq
    )


def _lane_of(tracks: Mapping[str, _Track], event: Event) -> str:
    where = str(event.get("member")) if event.kind == "member.exited" else event.source
    return where if where in tracks else _HARNESS


def _marks(marked: Sequence[tuple[str, Event]], end: float, columns: int, most: int) -> list[tuple[str, Mark]]:
    """The key events with their lane, one mark for all of a kind that fall on the same spot."""
    width = end / columns
    while len(spots := _spots(marked, width)) > most and width < end:
        width *= 2
    first = list(spots.items())[:most]
    return [(where, Mark(e.t, e.seq, kind, describe(e), count)) for (where, kind, _), (e, count) in first]


def _spots(marked: Iterable[tuple[str, Event]], width: float) -> dict[tuple[str, str, int], tuple[Event, int]]:
    """The first event of each kind on each spot of a lane, and how many there are."""
    spots: dict[tuple[str, str, int], tuple[Event, int]] = {}
    for where, event in marked:
        spot = where, event.kind, int(event.t / width)
        first, count = spots.get(spot, (event, 0))
        spots[spot] = (first, count + 1)
    return spots
