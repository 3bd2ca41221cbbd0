"""What the page's script draws: lanes, marks, faults, curves and events, as plain data within a fixed size.

What does not fit is thinned, and the data says how: of a crowded span the first, the lowest, the highest and the last
value of a curve are kept, one event of each kind on a lane, and all evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from chaos.history import Event, History
from chaos.report.charts import CHARTS
from chaos.report.curves import Curve, curves
from chaos.report.lanes import Band, Lane, bands, end_of, lanes
from chaos.report.lines import KEY_KINDS, clean, describe, details, number, seconds, shorten
from chaos.report.panels import Panel, panels

_COLUMNS = 1200  # of a curve, and of the timeline
_POINTS = 24_000  # of all curves together
_MARKS = 1500
_FAULTS = 400
_FLAGS = 400
_ROOM = 420_000  # bytes for events
_WORDS, _FIELDS = 300, 500  # characters of an event's description, and of its data
_NAMES = 100  # kinds and sources that can be filtered by, besides those of the events in the page

Bounds = Mapping[str, Sequence[float]]


def picture(history: History, wanted: Sequence[int], bounds: Bounds) -> dict[str, Any]:
    """All of it. `wanted`: numbers of events that must be among those in the page, most important first."""
    shown, hidden = lanes(history, _COLUMNS, _MARKS)
    standing = bands(history)
    marks = [[i, m.seq, m.times] for i, lane in enumerate(shown) for m in lane.marks]
    rows, how = chosen(history, [*wanted, *(b.seq for b in standing[:_FAULTS]), *(seq for _, seq, _ in marks)])
    known = {row[0] for row in rows}
    kinds, kind_at = _table((e.kind for e in history), (history[seq].kind for seq in known))
    sources, source_at = _table((e.source for e in history), (history[seq].source for seq in known))
    commits = history.of("checkpoint.committed")
    flags = commits[:: max(len(commits) // _FLAGS, 1)]
    return {
        "end": round(max(end_of(history), 1e-3), 3),
        "lanes": [_lane(lane) for lane in shown],
        "hidden": hidden,
        "marks": [mark for mark in marks if mark[1] in known],
        "bands": [_band(band, shown) for band in standing[:_FAULTS]],
        "flags": [[round(e.t, 3), shorten(number(e.get("generation")), 20), e.seq] for e in flags],
        "charts": charts(history, bounds),
        "kinds": kinds,
        "sources": sources,
        "events": [
            [seq, round(history[seq].t, 4), source_at[history[seq].source], kind_at[history[seq].kind], text, data]
            for seq, text, data in rows
        ],
        "total": len(history),
        "chosen": how,
    }


def charts(history: History, bounds: Bounds) -> list[dict[str, Any]]:
    """What clients saw, then the curves of the run, with the bounds of the hypothesis on each."""
    seen = panels(history, 400)
    drawn = curves(history, _COLUMNS)[:CHARTS]
    layers = sum(len(p.curves) for p in seen) + len(drawn)
    if layers * 4 * _COLUMNS > _POINTS:  # as fine as all of them together may be
        columns = max(_POINTS // (4 * layers), 60)
        seen, drawn = panels(history, min(columns, 400)), curves(history, columns)[:CHARTS]
    singles = [Panel(curve.title, (curve,)) for curve in drawn]
    return [chart_of(panel, bounds.get(panel.title, ())) for panel in (*seen, *singles)]


def chart_of(panel: Panel, bounds: Sequence[float]) -> dict[str, Any]:
    """One picture for the script: its layers as points, and itself in words."""
    single = len(panel.curves) == 1 and panel.curves[0].title == panel.title
    layers = [{"name": "" if single else clean(c.title), "pieces": _pieces(c)} for c in panel.curves]
    kept = sum(len(piece) for curve in panel.curves for piece in curve.pieces)
    count = sum(curve.samples for curve in panel.curves)
    return {
        "title": shorten(panel.title, 120), "unit": panel.unit, "log": panel.log, "layers": layers,
        "bounds": list(bounds), "kept": kept, "count": max(count, kept), "told": _told(panel),
    }  # fmt: skip


def _pieces(curve: Curve) -> list[list[float]]:
    """Each piece as t, value, t, value, …"""
    return [[x for t, v in piece for x in (round(t, 3), _short(v))] for piece in curve.pieces]


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _told(panel: Panel) -> str:
    """The picture in words, for those who cannot see it."""
    parts = []
    for curve in panel.curves:
        points = [p for piece in curve.pieces for p in piece]
        if points:
            low, high = min(points, key=lambda p: p[1]), max(points, key=lambda p: p[1])
            name = "" if curve.title == panel.title else f"{clean(curve.title)}: "
            parts.append(f"{name}lowest {_value(low[1], panel)} at {low[0]:.1f} s, highest {_value(high[1], panel)} "
                         f"at {high[0]:.1f} s, last {_value(points[-1][1], panel)}")  # fmt: skip
    return "; ".join(parts)


def _value(value: float, panel: Panel) -> str:
    if panel.unit == "s":
        return seconds(value)
    return f"{value * 100:.3g} %" if panel.unit == "share" else f"{value:.4g}"


def _lane(lane: Lane) -> dict[str, Any]:
    spans = [[round(s.begin, 3), round(s.end, 3), s.state, s.epoch, clean(s.why)] for s in lane.spans]
    return {"name": shorten(lane.name, 80), "about": shorten(" ".join(filter(None, (lane.role, lane.node))), 80),
            "spans": spans}  # fmt: skip


def _band(band: Band, shown: Sequence[Lane]) -> dict[str, Any]:
    hit = set(band.members)
    return {
        "begin": round(band.begin, 3), "end": round(band.end, 3), "step": shorten(band.step, 80),
        "kind": shorten(band.kind, 80), "healed": band.healed, "seq": band.seq,
        "lanes": [i for i, lane in enumerate(shown) if lane.name in hit],
    }  # fmt: skip


def chosen(history: History, wanted: Iterable[int]) -> tuple[list[tuple[int, str, str]], str]:
    """(number, what happened, data) of the events that fit, in order; and how they were picked, "" if all are there."""
    room = _ROOM
    rows: dict[int, tuple[int, str, str]] = {}
    for seq in _queue(history, wanted):
        if seq in rows or not 0 <= seq < len(history):
            continue
        row = _row(history[seq])
        room -= len(msgspec.json.encode(row)) + 30
        if room < 0:
            break
        rows[seq] = row
    every = len(rows) == len(history)
    how = "" if every else (
        "all evidence and what the timeline marks come first, then the first and the last of every kind, "
        "then events at equal distances"
    )  # fmt: skip
    return [rows[seq] for seq in sorted(rows)], how


def _queue(history: History, wanted: Iterable[int]) -> Iterable[int]:
    yield from wanted
    for kind in sorted(history.kinds()):
        of = history.of(kind)
        yield of[0].seq
        yield of[-1].seq
    if len(history) * 60 <= _ROOM:  # they may all fit
        yield from range(len(history))
        return
    yield from (e.seq for e in history.of(*KEY_KINDS)[:1000])
    stride = 1 << (len(history) - 1).bit_length()
    while stride > 1:  # every half, every quarter, …: wherever the room ends, the distances are equal within a factor 2
        yield from range(stride // 2, len(history), stride)
        stride //= 2


def _row(event: Event) -> tuple[int, str, str]:
    return event.seq, shorten(describe(event), _WORDS), shorten(details(event.data), _FIELDS)


def _table(words: Iterable[str], seen: Iterable[str]) -> tuple[list[list[Any]], dict[str, int]]:
    """Words with how often they occur, the most frequent first and all that are `seen` among them; and their places."""
    counts = Counter(words)
    needed = set(seen)
    kept = [w for i, (w, _) in enumerate(counts.most_common()) if i < _NAMES or w in needed]
    return [[shorten(w, 80), counts[w]] for w in kept], {w: i for i, w in enumerate(kept)}
