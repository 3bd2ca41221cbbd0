"""Series over time, thinned for drawing without losing an extreme."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from chaos.history import Event, History
from chaos.report.lines import items

Point = tuple[float, float]  # (t, value)


class Curve(NamedTuple):
    """One series, in pieces: a piece ends where data is missing."""

    title: str
    pieces: tuple[tuple[Point, ...], ...]
    low: float
    high: float
    samples: int = 0  # with a value, before thinning


def curves(history: History, columns: int = 400) -> tuple[Curve, ...]:
    """Every probe of the run, the throughput (from steps, where no probe has it) and the loss."""
    series: dict[str, list[tuple[float, float | None]]] = {}
    for event in history.of("probe.sampled"):
        name = event.source.removeprefix("probe:")
        series.setdefault(name, []).append((event.t, _finite(event.get("value"))))
    steps = history.of("step.completed")
    if steps and not any("throughput" in name for name in series):
        series["throughput (samples per second)"] = throughput(steps, columns // 2)
    series["loss"] = [(e.t, _finite(e.get("loss"))) for e in steps]
    found = (curve(name, points, columns) for name, points in series.items())
    return tuple(c for c in found if c is not None)


def curve(title: str, series: Iterable[tuple[float, float | None]], columns: int) -> Curve | None:
    """A curve of at most 4 × `columns` points; None without data. Gaps stay gaps."""
    ordered = sorted(series, key=lambda p: p[0])
    values = [v for _, v in ordered if v is not None]
    if not values:
        return None
    begin, end = ordered[0][0], ordered[-1][0]
    width = max(end - begin, 1e-9) / columns
    gap = max(5 * (end - begin) / len(ordered), 4 * width, 1.0)
    pieces = tuple(thin(piece, begin, width) for piece in _pieces(ordered, gap))
    return Curve(title, pieces, min(values), max(values), len(values))


def thin(points: Sequence[Point], begin: float, width: float) -> tuple[Point, ...]:
    """Of every `width` seconds keep the first, the lowest, the highest and the last point."""
    kept: list[Point] = []
    bucket: list[Point] = []
    column = None
    for point in points:
        now = int((point[0] - begin) / width)
        if now != column:
            kept += _corners(bucket)
            bucket, column = [], now
        bucket.append(point)
    return tuple(kept + _corners(bucket))


def throughput(steps: Sequence[Event], columns: int) -> list[tuple[float, float | None]]:
    """Samples per second of all ranks in equal spans of time, zero where nothing was completed."""
    begin = min(e.t for e in steps)
    width = max((max(e.t for e in steps) - begin) / columns, 0.25)
    spans: dict[int, int] = {}
    for event in steps:
        column = int((event.t - begin) / width)
        spans[column] = spans.get(column, 0) + len(items(event.get("samples")))
    return [(begin + (i + 0.5) * width, spans.get(i, 0) / width) for i in range(max(spans))]  # the last span is cut


def _corners(bucket: list[Point]) -> list[Point]:
    if len(bucket) <= 4:
        return bucket
    low, high = min(bucket, key=lambda p: p[1]), max(bucket, key=lambda p: p[1])
    return sorted({bucket[0], low, high, bucket[-1]})


def _pieces(points: Iterable[tuple[float, float | None]], gap: float) -> Iterable[list[Point]]:
    piece: list[Point] = []
    for t, value in points:
        if piece and (value is None or t - piece[-1][0] > gap):
            yield piece
            piece = []
        if value is not None:
            piece.append((t, value))
    if piece:
        yield piece


def _finite(value: object) -> float | None:
    """A number that can be drawn; losses come as text in full precision."""
    try:
        number = float(value)  # type: ignore[arg-type]  # anything may stand in a field
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) < float("inf") else None
