"""Curves as shapes with coordinates, on the timeline's axis: what the page's template draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from chaos.history import History
from chaos.report.curves import Curve, Point, curves
from chaos.report.drawing import Timeline, x_of
from chaos.report.lines import number, seconds
from chaos.report.panels import Panel, panels

_HEIGHT = 110.0
CHARTS = 8  # of probes and the like, besides the panels
_COLUMNS = 150  # of the drawing that does not zoom
_LEAST = 1e-3  # of a value on a logarithmic scale: what is below is drawn there

Scale = Callable[[float], float]  # a value to its y


class Label(NamedTuple):
    """A value at the axis, with a line across where it is a `rule`."""

    y: float
    text: str
    rule: bool = False


class Layer(NamedTuple):
    """One curve as drawn; without a name where it is the only one."""

    name: str
    lines: tuple[str, ...]  # points of polylines


class Chart(NamedTuple):
    """One picture: a curve, or several on the same axes, in the order in which they are drawn."""

    title: str
    layers: tuple[Layer, ...]
    labels: tuple[Label, ...]
    bounds: tuple[float, ...]  # their y


def charts(history: History, line: Timeline, bounds: Mapping[str, Sequence[float]]) -> tuple[Chart, ...]:
    """What clients saw, then the curves of the run; `bounds` by the curve's title."""
    seen = [_panel(panel, line.end) for panel in panels(history, _COLUMNS)]
    return (
        *seen,
        *(_single(curve, line.end, bounds.get(curve.title, ())) for curve in curves(history, _COLUMNS)[:CHARTS]),
    )


def _single(curve: Curve, end: float, bounds: Sequence[float]) -> Chart:
    low = 0.0 if curve.low >= 0 and (curve.low < curve.high / 2 or curve.low == curve.high) else curve.low
    low, high = min((low, *bounds)), max((curve.high, *bounds))
    scale = _linear(low, high)
    labels = (Label(14.0, number(high)), Label(106.0, number(low)))
    return Chart(curve.title, (_layer("", curve, scale, end),), labels, tuple(map(scale, bounds)))


def _panel(panel: Panel, end: float) -> Chart:
    high = max(curve.high for curve in panel.curves)
    if panel.log:
        low = min(curve.low for curve in panel.curves if curve.pieces)
        scale, labels = _logarithmic(low, high)
    else:
        top = 1.0 if panel.unit == "share" and high > 0.5 else high or 1.0
        scale = _linear(0.0, top)
        labels = (Label(14.0, _text(top, panel.unit)), Label(106.0, _text(0.0, panel.unit)))
    return Chart(panel.title, tuple(_layer(c.title, c, scale, end) for c in panel.curves), labels, ())


def _layer(name: str, curve: Curve, scale: Scale, end: float) -> Layer:
    def line(piece: tuple[Point, ...]) -> str:
        if len(piece) == 1:  # a point alone would not be seen
            piece = (*piece, (piece[0][0] + end / 400, piece[0][1]))
        return " ".join(f"{x_of(t, end)},{scale(v)}" for t, v in piece)

    return Layer(name, tuple(map(line, curve.pieces)))


def _linear(low: float, high: float) -> Scale:
    span = high - low or 1.0
    return lambda value: round(_HEIGHT - 6 - (_HEIGHT - 16) * (value - low) / span, 1)


def _logarithmic(low: float, high: float) -> tuple[Scale, tuple[Label, ...]]:
    """Whole decades around what there is, each with a rule."""
    first = math.floor(math.log10(max(low, _LEAST)))
    last = max(math.ceil(math.log10(max(high, _LEAST))), first + 1)
    linear = _linear(first, last)

    def scale(value: float) -> float:
        return linear(math.log10(max(value, 10.0**first)))

    labels = (Label(scale(10.0**power), seconds(10.0**power), rule=True) for power in range(first, last + 1))
    return scale, tuple(labels)


def _text(value: float, unit: str) -> str:
    return f"{number(value * 100)} %" if unit == "share" else number(value)
