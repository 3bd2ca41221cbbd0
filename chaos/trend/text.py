"""Trends for a terminal: a line of blocks, the builds below each other, and what the newest one did."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from chaos.clean import clean
from chaos.trend.series import MORE_IS_BETTER, State, Trend, Trends
from chaos.units import counted

_BLOCKS = "▁▂▃▄▅▆▇█"
_COLORS = {State.WORSE: "1;31", State.SHIFTED: "33", State.STEADY: "32", State.TOO_FEW: "2"}
_LATEST = 12  # builds of a trend that are shown


def text(trends: Trends, *, color: bool) -> str:
    """All of it; numbers stand below each other."""
    if not trends.trends:
        return "no run on record has such a figure\n"
    blocks = ["\n".join(_block(trend, trends.alpha, color)) for trend in trends.trends]
    return "\n\n".join([*blocks, _summary(trends)]) + "\n"


def sparkline(values: Sequence[float]) -> str:
    """One block a value, the lowest and the highest of them as far apart as blocks can be; a flat one is in the
    middle."""
    low, high = min(values), max(values)
    if high == low:
        return _BLOCKS[3] * len(values)
    return "".join(_BLOCKS[round((value - low) / (high - low) * (len(_BLOCKS) - 1))] for value in values)


def _block(trend: Trend, alpha: float, color: bool) -> Iterator[str]:
    unit = f", {trend.unit}" if trend.unit else ""
    title = f"{trend.target} · {trend.experiment} · {trend.figure}{unit}"
    yield f"{clean(title)}  {sparkline([point.median for point in trend.points])}"
    left = len(trend.points) - _LATEST
    if left > 0:
        yield f"  {counted(left, 'build')} before"
    rows = [("build", "commit", "first run", "runs", "median", "p5" if trend.figure in MORE_IS_BETTER else "p95")]
    for point in trend.points[-_LATEST:]:
        commit = point.build.commit[:9] + ("+" if point.build.dirty else "")
        day = time.strftime("%Y-%m-%d", time.gmtime(point.first))
        rows.append(
            (point.build.sources[:9], commit or "–", day, str(point.runs), _number(point.median), _number(point.p95))
        )
    wide = [max(len(row[i]) for row in rows) for i in range(6)]
    for row in rows:
        words = [clean(cell).ljust(w) for cell, w in zip(row[:3], wide[:3], strict=True)]
        numbers = [cell.rjust(w) for cell, w in zip(row[3:], wide[3:], strict=True)]
        yield "  " + "  ".join([*words, *numbers])
    word = trend.state.value
    word = f"\x1b[{_COLORS[trend.state]}m{word}\x1b[0m" if color else word
    yield f"  {word}: {_why(trend)}"
    if trend.change is not None and trend.change_p is not None and trend.change_p < alpha:
        yield f"  {_change(trend)}"
    if trend.back is not None:
        yield f"  the newest run is of {trend.back.sources[:9]} again: nothing is held against that"
    if trend.left_out:
        yield (
            f"  {counted(trend.left_out, 'run')} left out: of the experiment before it was changed, or in another way "
            "(lab)"
        )


def _why(trend: Trend) -> str:
    runs = trend.points[-1].runs
    if trend.compared is None or trend.p is None:
        if len(trend.points) == 1:
            return f"{counted(runs, 'run')} of one build: there is nothing to compare with"
        return f"{counted(runs, 'run')} of the newest build; {trend.needed} could show something"
    c = trend.compared
    if trend.figure in MORE_IS_BETTER:
        shift, pairs = -c.shift, "lower"
    else:
        shift, pairs = c.shift, "higher"
    said = f"{shift:+.3g}{' ' + trend.unit if trend.unit else ''}, {pairs} in {c.superiority:.0%} of pairs"
    more = f"; {counted(trend.needed, 'run')} of the newest build could show it" if trend.needed else ""
    return f"{said}, p = {trend.p:.2g} (corrected), {c.after} against {counted(c.before, 'run')}{more}"


def _change(trend: Trend) -> str:
    assert trend.levels is not None
    assert trend.changed is not None
    before, after = trend.levels
    build = trend.changed.commit[:9] or trend.changed.sources[:9]
    unit = f" {trend.unit}" if trend.unit else ""
    return f"another level since {build}: median {_number(before)} → {_number(after)}{unit}, p = {trend.change_p:.2g}"


def _summary(trends: Trends) -> str:
    counts = [(state, sum(t.state is state for t in trends.trends)) for state in State]
    return ", ".join(f"{count} {state.value}" for state, count in counts if count)


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:.0f}"
