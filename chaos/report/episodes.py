"""The recoveries of a run as the page shows them: bars on one scale, the worst first."""

from __future__ import annotations

from typing import NamedTuple

from chaos.report import contract
from chaos.report.contract import Figure
from chaos.report.lines import seconds
from chaos.report.render import percent
from chaos.result import Need, Recovery, Result

MOST = 12  # shown in full
_LABELLED = 0.09  # of the bar: a term that is narrower has no room for its name


class Segment(NamedTuple):
    """A term as a piece of the stacked bar."""

    number: int  # 1: detect, …
    label: str
    width: str
    told: str
    roomy: bool


class Episode(NamedTuple):
    """One recovery with everything that is drawn of it."""

    number: int
    title: str
    recovery: Recovery
    figures: tuple[Figure, ...]  # the total first
    losses: tuple[Figure, ...]
    segments: tuple[Segment, ...]
    limit_at: str  # where the budget ends on the bar, "" without one
    mark: Figure  # the total
    told: str  # the bar in words
    took: str  # `5.3 s to recover`, or that it is not over
    open: str  # width of the stretch in which nothing came to an end, "" where it is over


def episodes(result: Result, end: float, least: float = 0.0) -> tuple[Episode, ...]:
    """Those that needed a recovery: the failures, the worst first, then planned ones; `MOST` of them. `end`: of the
    record, until which one that is not over has lasted; `least`: seconds that the bars have room for at the least."""
    rank = {Need.FAILURE: 0, Need.UNPROVOKED: 0, Need.PLANNED: 1}
    found = [r for r in result.recoveries if r.need in rank]
    found.sort(key=lambda r: (rank[r.need], -(float("inf") if r.total is None else r.total)))
    return tuple(_episode(result, r, n, end, least) for n, r in enumerate(found[:MOST]))


def _episode(result: Result, recovery: Recovery, number: int, end: float, least: float) -> Episode:
    figures = contract.rto(result, recovery)
    total = figures[0]
    if recovery.need is Need.PLANNED:  # no budget is about it
        figures = tuple(f._replace(limit=None, outcome=None) for f in figures)
        total = figures[0]
    spent = sum(f.value or 0.0 for f in figures[1:])
    lasted = 0.0 if recovery.complete else max(end - recovery.began, 0.0)
    scale = max(total.value or 0.0, spent, lasted, least, total.limit or 0.0) * 1.04
    terms = figures[1:]
    if recovery.serving and total.value is not None:  # the rest of the way has no terms of its own
        terms = (*terms, Figure("", "until served as before", total.value - spent, None, "s", None))
    segments = tuple(_segment(n, f, scale) for n, f in enumerate(terms, 1) if (f.value or 0.0) > 0.0)
    return Episode(
        number, _title(recovery), recovery, figures, contract.rpo(result, recovery), segments,
        percent(total.limit, scale) if total.limit else "", total, _told(figures),
        f"{total.amount} to recover" if total.value is not None else f"not recovered {seconds(lasted)} after the fault",
        percent(lasted - spent, scale) if lasted > spent else "",
    )  # fmt: skip


def _segment(number: int, figure: Figure, scale: float) -> Segment:
    share = (figure.value or 0.0) / scale if scale else 0.0
    told = f"{figure.label}: {figure}"
    return Segment(number, figure.label, percent(figure.value, scale), told, share > _LABELLED)


def _title(recovery: Recovery) -> str:
    name = " and ".join(recovery.faults) or ("growth back, planned" if recovery.need is Need.PLANNED else "unprovoked")
    return f"{name} at {recovery.began:.1f} s: {seconds(recovery.total) if recovery.complete else 'not over'}"


def _told(figures: tuple[Figure, ...]) -> str:
    return "; ".join(f"{f.label} {f}" for f in figures)
