"""From runs on record to trends: a build after the other, per experiment and figure, and what became worse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from chaos.evidence import Build, Evidence
from chaos.statistics import quantile
from chaos.trend.ranks import Change, Compared, answerable, compare, holm, least_p, needed, pettitt

ALPHA = 0.05
MORE_IS_BETTER = ("goodput", "ettr")
_MOST = 200  # runs of a side that are compared: more tell nothing more, and all pairs are looked at


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at; everything where nothing is named. A figure may be a family: `rto` is all of `rto.…`."""

    targets: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    figures: tuple[str, ...] = ("rto.total", "rpo.steps")


class State(Enum):
    """What the newest build did to a figure."""

    WORSE = "worse"
    SHIFTED = "shifted"  # not shown against the build before, but the series has another, worse level by now
    STEADY = "steady"
    TOO_FEW = "too few"


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A build: when it was first run, and its figure over its runs."""

    build: Build
    first: float  # Unix time
    runs: int
    median: float
    p95: float


class Trend(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A figure of an experiment over builds, in the order of their first runs.

    Compared are the newest build and the one before, and as many before that as it takes to have enough runs. `p` is
    corrected for all trends that were tested together; `needed` is how many runs of the newest build could show
    something. `change_p` likewise belongs to `change`, whose place counts runs. `left_out` runs are of the experiment
    before it was changed.
    """

    target: str
    experiment: str
    figure: str
    points: tuple[Point, ...]
    state: State
    compared: Compared | None = None
    p: float | None = None
    change: Change | None = None
    change_p: float | None = None
    changed: Build | None = None  # of the first run of the new level
    levels: tuple[float, float] | None = None  # medians before and after the change
    needed: int = 0
    left_out: int = 0
    back: Build | None = None  # of the newest run, where that is an older build than the newest

    @property
    def unit(self) -> str:
        """Of the figure."""
        if self.figure in MORE_IS_BETTER:
            return ""
        return "s" if self.figure.startswith("rto.") else self.figure.rpartition(".")[2].replace("seconds", "s")


class Trends(msgspec.Struct, frozen=True, kw_only=True):
    """All of them, the worst first; `alpha` is the chance that any of them is called worse where nothing changed."""

    trends: tuple[Trend, ...]
    alpha: float = ALPHA

    @property
    def worse(self) -> tuple[Trend, ...]:
        """Those that the newest build made worse: against the build before, or as the beginning of another level. A
        level that began with an earlier build is told, and not held against this one; nor is anything where the newest
        run is of an older build again."""
        return tuple(
            t
            for t in self.trends
            if t.back is None
            and (t.state is State.WORSE or (t.state is State.SHIFTED and t.changed == t.points[-1].build))
        )

    @property
    def tested(self) -> bool:
        """Whether there was enough to say anything at all."""
        return any(t.state is not State.TOO_FEW for t in self.trends)


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one trend, in order, with their values, larger being worse."""

    target: str
    experiment: str
    figure: str
    runs: tuple[Evidence, ...]
    left_out: int

    def values(self, runs: Iterable[Evidence] | None = None) -> list[float]:
        sign = -1.0 if self.figure in MORE_IS_BETTER else 1.0
        return [sign * run.figures[self.figure] for run in (self.runs if runs is None else runs)]


def trends(runs: Sequence[Evidence], asked: Asked, alpha: float = ALPHA) -> Trends:
    """The trends of runs, given oldest first.

    Failed runs count as well: without them a figure would look better than it is. Runs without a verdict, with other
    settings than the experiment's, or from before it was changed do not. Of the values of one build no order is known,
    so it is their ranks that are compared.
    """
    lines = list(_lines(runs, asked))
    pairs = [_sides(line, alpha) for line in lines]
    able = answerable([least_p(len(before), len(after)) for before, after in pairs], alpha)
    compared = {i: compare(lines[i].values(pairs[i][0]), lines[i].values(pairs[i][1])) for i in able}
    corrected = dict(zip(able, holm([compared[i].p for i in able]), strict=True))
    changes = {i: change for i, line in enumerate(lines) if (change := pettitt(line.values())) is not None}
    changed = dict(zip(changes, holm([change.p for change in changes.values()]), strict=True))
    many = max(sum(bool(before) for before, _ in pairs), 1)
    found = [
        _trend(
            line, compared.get(i), corrected.get(i), changes.get(i), changed.get(i), alpha,
            len(able) if i in compared else many,
        )
        for i, line in enumerate(lines)
    ]  # fmt: skip
    order = list(State)
    found.sort(key=lambda t: (order.index(t.state), t.target, t.experiment, t.figure))
    return Trends(trends=tuple(found), alpha=alpha)


def builds(runs: Sequence[Evidence]) -> list[Build]:
    """The builds, by the digest of what was tested, in the order of their first runs."""
    found: dict[str, Build] = {}
    for run in runs:
        found.setdefault(run.build.sources, run.build)
    return list(found.values())


def _lines(runs: Sequence[Evidence], asked: Asked) -> Iterable[_Line]:
    grouped: dict[tuple[str, str], list[Evidence]] = {}
    for run in runs:
        if run.conclusive and not run.overrides and _wanted(run, asked):
            grouped.setdefault((run.target, run.experiment), []).append(run)
    for (target, experiment), group in sorted(grouped.items()):
        alike = [run for run in group if (run.recipe, run.lab) == (group[-1].recipe, group[-1].lab)]
        for figure in sorted({name for run in alike for name in run.figures if _is(name, asked.figures)}):
            known = tuple(run for run in alike if figure in run.figures)
            yield _Line(
                target=target, experiment=experiment, figure=figure, runs=known, left_out=len(group) - len(alike)
            )


def _wanted(run: Evidence, asked: Asked) -> bool:
    return (not asked.targets or run.target in asked.targets) and (
        not asked.experiments or run.experiment in asked.experiments
    )


def _is(name: str, figures: Iterable[str]) -> bool:
    return any(name == figure or name.startswith(f"{figure}.") for figure in figures)


def _sides(line: _Line, alpha: float) -> tuple[list[Evidence], list[Evidence]]:
    """The runs of the newest build, and those before that they are compared with."""
    order = [build.sources for build in builds(line.runs)]
    after = [run for run in line.runs if run.build.sources == order[-1]][-_MOST:]
    before: list[Evidence] = []
    for sources in reversed(order[:-1]):
        before = [*(run for run in line.runs if run.build.sources == sources), *before][-_MOST:]
        if least_p(len(before), len(after)) <= alpha:
            break
    return before, after


def _trend(
    line: _Line, compared: Compared | None, p: float | None, change: Change | None, change_p: float | None,
    alpha: float, tested: int,
) -> Trend:  # fmt: skip
    points = tuple(_point(line, build) for build in builds(line.runs))
    before, after = _sides(line, alpha)
    values = line.values()
    levels = None
    if change is not None:
        levels = (quantile(sorted(values[: change.at]), 0.5), quantile(sorted(values[change.at :]), 0.5))
    sign = -1.0 if line.figure in MORE_IS_BETTER else 1.0
    shifted = change_p is not None and levels is not None and change_p <= alpha and levels[1] > levels[0]
    state = State.TOO_FEW
    if p is not None:
        state = State.WORSE if p <= alpha else State.STEADY
    if state is not State.WORSE and shifted and len(points) > 1:
        state = State.SHIFTED
    return Trend(
        target=line.target,
        experiment=line.experiment,
        figure=line.figure,
        points=points,
        state=state,
        compared=compared,
        p=p,
        change=change,
        change_p=change_p,
        changed=_build_of(points, line.runs[change.at]) if change is not None else None,
        levels=(sign * levels[0], sign * levels[1]) if levels else None,
        needed=needed(len(before), alpha / tested) if len(after) < needed(len(before), alpha / tested) else 0,
        left_out=line.left_out,
        back=last if (last := _build_of(points, line.runs[-1])) != points[-1].build else None,
    )


def _point(line: _Line, build: Build) -> Point:
    runs = [run for run in line.runs if run.build.sources == build.sources]
    values = sorted(run.figures[line.figure] for run in runs)
    worst = 0.05 if line.figure in MORE_IS_BETTER else 0.95
    return Point(
        build=build, first=runs[0].started, runs=len(runs), median=quantile(values, 0.5), p95=quantile(values, worst)
    )


def _build_of(points: Sequence[Point], run: Evidence) -> Build:
    return next(point.build for point in points if point.build.sources == run.build.sources)
