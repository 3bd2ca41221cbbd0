"""Lanes as shapes with coordinates: what the page shows on paper and without its script, without a word of markup."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from chaos.history import History
from chaos.report.lanes import Band, Lane, bands, end_of, lanes
from chaos.report.lines import number, seconds

LEFT, RIGHT = 150.0, 990.0  # of the plot, in a picture 1000 wide
ROW = 22.0  # height of a lane
TOP = 40.0
_FAULTS = 100
_FLAGS = 60
_COLUMNS, _SHAPES = 300, 500
_COLORS = 5  # epochs share so many colours


class Box(NamedTuple):
    """A rectangle with what it says."""

    x: float
    width: float
    style: str
    title: str


class Dot(NamedTuple):
    """A mark on a lane."""

    x: float
    style: str
    title: str
    seq: int


class Track(NamedTuple):
    """A lane as drawn."""

    name: str
    about: str
    y: float
    boxes: tuple[Box, ...]
    marks: tuple[Dot, ...]


class Tick(NamedTuple):
    """A line of the grid."""

    x: float
    label: str


class Shade(NamedTuple):
    """A fault across the whole picture."""

    x: float
    width: float
    label: str
    title: str


class Timeline(NamedTuple):
    """All members over the run."""

    lanes: tuple[Track, ...]
    shades: tuple[Shade, ...]
    ticks: tuple[Tick, ...]
    flags: tuple[Dot, ...]  # generations that were committed
    height: float
    hidden: int  # members without a lane
    undrawn: int  # faults beyond those that are drawn
    end: float


def timeline(history: History) -> Timeline:
    """The members' lives as boxes, key events as marks, faults as shades."""
    end = max(end_of(history), 1e-3)
    shown, hidden = lanes(history, _COLUMNS, _SHAPES)
    faults = bands(history)
    standing = faults[:_FAULTS]
    tracks = tuple(_track(lane, TOP + i * ROW, end, standing) for i, lane in enumerate(shown))
    commits = history.of("checkpoint.committed")
    every = math.ceil(len(commits) / _FLAGS) if commits else 1
    flags = tuple(
        Dot(x_of(e.t, end), "generation", f"generation {e.get('generation')}, step {e.get('step')}", e.seq)
        for e in commits[::every]
    )
    shades = tuple(_shade(band, end) for band in standing)
    return Timeline(
        tracks, shades, tuple(_ticks(end)), flags, TOP + len(shown) * ROW + 8, hidden, len(faults) - len(standing), end
    )


def x_of(t: float, end: float) -> float:
    """Where a moment lies."""
    return round(LEFT + (RIGHT - LEFT) * min(max(t / end, 0.0), 1.0), 1)


def _track(lane: Lane, y: float, end: float, standing: tuple[Band, ...]) -> Track:
    boxes = []
    for begin, stop, state, epoch, why in lane.spans:
        style = f"{state} e{(epoch - 1) % _COLORS}" if state == "alive" and epoch else state
        told = f"{lane.name}: {why if state == 'dead' else state}" + (f", epoch {epoch}" if epoch is not None else "")
        title = f"{told}, {seconds(begin)} to {seconds(stop)}"
        boxes.append(Box(x_of(begin, end), _width(begin, stop, end), style, title))
    for band in standing:
        if lane.name in band.members:
            boxes.append(Box(x_of(band.begin, end), _width(band.begin, band.end, end), "hit", f"{band.step} stands"))
    marks = tuple(
        Dot(x_of(m.t, end), m.kind.partition(".")[0], f"#{m.seq} {m.t:.3f} s {m.text}{_times(m.times)}", m.seq)
        for m in lane.marks
    )
    return Track(lane.name, " ".join(filter(None, (lane.role, lane.node))), y, tuple(boxes), marks)


def _times(count: int) -> str:
    return f" (× {count} here)" if count > 1 else ""


def _width(begin: float, end: float, whole: float) -> float:
    return round(max(x_of(end, whole) - x_of(begin, whole), 1.0), 1)


def _shade(band: Band, end: float) -> Shade:
    how = f"healed after {seconds(band.end - band.begin)}" if band.end > band.begin else "instant"
    title = f"#{band.seq} {band.kind} at {band.begin:.3f} s, {how if band.healed else 'never healed'}"
    return Shade(x_of(band.begin, end), _width(band.begin, band.end, end), band.step, title)


def _ticks(end: float) -> Iterator[Tick]:
    rough = end / 8
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough)
    for i in range(int(end / step) + 1):
        yield Tick(x_of(i * step, end), f"{number(round(i * step, 6))} s")
