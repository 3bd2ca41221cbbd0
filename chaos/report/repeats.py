"""Repeats of one experiment: how RTO terms and RPO spread, every run a point that leads to its report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from chaos.evidence import figures
from chaos.report.contract import amount
from chaos.report.lines import shorten
from chaos.report.render import page
from chaos.report.story import ICONS, WORDS
from chaos.result import Kind, Result, Series
from chaos.statistics import quantile, spread
from chaos.units import counted

_LEFT, _RIGHT = 10.0, 980.0
_FAR = 2.5
_ROWS = 5  # heights over which points spread, so that equal ones do not cover each other
_NAMES = {
    "rto.total": "RTO, in all", "rto.detect": "detect", "rto.restart": "restart", "rto.load": "load",
    "rto.warmup": "warm-up", "rpo.steps": "RPO, steps", "rpo.samples": "RPO, samples", "rpo.seconds": "RPO, seconds",
}  # fmt: skip


class Repeat(NamedTuple):
    """One of the runs; `link` leads to its own report, "" where there is none."""

    name: str
    link: str
    result: Result


class Dot(NamedTuple):
    """A run in a picture."""

    x: float
    y: float
    repeat: Repeat
    told: str


class Strip(NamedTuple):
    """A figure over all runs: points, box (quartiles), whiskers (all), the interval of the p95, the budget."""

    name: str
    label: str
    dots: tuple[Dot, ...]
    box: tuple[float, float]
    middle: float
    whiskers: tuple[float, float]
    interval: tuple[float, float]
    limit: float | None
    far: bool  # whether the budget lies beyond the right border
    told: str
    cells: tuple[str, ...]  # runs, median, p95, its interval, maximum, budget
    ticks: tuple[tuple[float, str], ...]
    missing: int  # runs that do not have it
    over: bool  # whether the budget is broken by the p95


def encode(runs: Sequence[Repeat], series: Series) -> bytes:
    """The page. `series` is what the judge says of them together."""
    ordered = sorted(runs, key=lambda r: r.name)
    rate, low, high = series.rate
    title = next((r.result.title for r in ordered if r.result.title), series.experiment)
    return page(
        "repeats.html.j2", styles=("base", "index"), scripts=("common", "theme"), data={}, runs=ordered, series=series,
        strips=tuple(strips(ordered)), title=title, word=WORDS[series.outcome], icon=ICONS[series.outcome],
        rate=f"{rate * 100:.0f} %", interval=f"{low * 100:.0f} and {high * 100:.0f} %",
        figures=[_told(figures(r.result)) for r in ordered],
    )  # fmt: skip


def strips(runs: Sequence[Repeat]) -> Iterator[Strip]:
    """One a figure that at least one of the runs has."""
    found = [(figures(r.result), r) for r in runs]  # names of folders may be equal, where runs are from two places
    limits = _limits(runs)
    for name in _NAMES:
        known = [(own[name], run) for own, run in found if name in own]
        if known:
            yield _strip(name, known, limits.get(name), len(runs) - len(known))


def _strip(name: str, known: Sequence[tuple[float, Repeat]], limit: float | None, missing: int) -> Strip:
    values = sorted(value for value, _ in known)
    said, unit = spread(values), unit_of(name)
    most = max(values[-1], said.high)
    far = limit is not None and limit > _FAR * most > 0  # the points would lie on each other at the left
    top = (most * 1.3 if far else max(most, limit or 0.0) * 1.05) or 1.0

    def x(value: float) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * value / top, 1)

    dots = tuple(
        Dot(x(v), 22.0 + 7.0 * (i % _ROWS), r, f"{r.name}: {amount(v, unit)}") for i, (v, r) in enumerate(known)
    )
    cells = (
        str(len(values)), amount(said.median, unit), amount(said.p95, unit),
        f"{amount(said.low, unit)} to {amount(said.high, unit)}", amount(said.maximum, unit),
        "–" if limit is None else amount(limit, unit),
    )  # fmt: skip
    told = (
        f"median {cells[1]}, p95 {cells[2]} ({cells[3]}), maximum {cells[4]}, budget {cells[5]}, "
        f"{counted(cells[0], 'run')}"
    )
    return Strip(
        name, _NAMES[name], dots, (x(quantile(values, 0.25)), x(quantile(values, 0.75))), x(said.median),
        (x(values[0]), x(values[-1])), (x(said.low), x(said.high)), None if limit is None else min(x(limit), _RIGHT),
        far, told, cells, tuple((x(tick), amount(tick, unit)) for tick in _ticks(top)), missing,
        limit is not None and said.high > limit,
    )  # fmt: skip


def _ticks(top: float) -> Iterator[float]:
    """Round values from 0 to `top`, few enough for their labels."""
    rough = top / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough)
    yield from (round(i * step, 9) for i in range(int(top / step) + 1))


def unit_of(name: str) -> str:
    """The unit of a figure by its name."""
    return "s" if name.startswith("rto") or name.endswith("seconds") else name.rpartition(".")[2]


def _limits(runs: Sequence[Repeat]) -> Mapping[str, float]:
    checks = [check for run in runs for check in run.result.of(Kind.BUDGET)]
    return {c.name: float(c.measured["limit"]) for c in checks if isinstance(c.measured.get("limit"), int | float)}


def _told(found: Mapping[str, float]) -> str:
    parts = [
        f"{_NAMES[name]} {amount(found[name], unit_of(name))}" for name in ("rto.total", "rpo.steps") if name in found
    ]
    return shorten(", ".join(parts))
