"""Two runs side by side: verdicts, recoveries on one scale, changes of terms and checks, curves over each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chaos.history import History
from chaos.report import contract
from chaos.report.contract import amount
from chaos.report.curves import Curve, curves
from chaos.report.episodes import Episode, episodes
from chaos.report.lanes import bands, end_of
from chaos.report.lines import clean, shorten
from chaos.report.panels import Panel, panels
from chaos.report.picture import chart_of
from chaos.report.render import page
from chaos.report.story import Story, Told, story
from chaos.result import Kind, Result
from chaos.verdict import Outcome

_CHARTS = 12
_COLUMNS = 600
_SAME = 0.02  # of the larger: less is no difference
_CHANCE = 0.1  # less may be chance between two single runs: told, and called neither better nor worse
_SCRIPTS = ("common", "theme", "axis", "paint", "curves", "plots", "compare")


class Side(NamedTuple):
    """One of the two runs; `link` leads to its own report, "" where there is none."""

    name: str
    link: str
    result: Result
    history: History


class Term(NamedTuple):
    """A figure in both runs."""

    label: str
    first: str
    second: str
    change: str
    mood: str  # better, worse or nothing
    limit: str


class Changed(NamedTuple):
    """A check whose outcome differs, or that only one run has."""

    name: str
    kind: str
    first: Outcome | None
    second: Outcome | None
    why: str


class Half(NamedTuple):
    """A side as the page shows it."""

    letter: str
    side: Side
    story: Story
    episode: Episode | None


def encode(first: Side, second: Side) -> bytes:
    """The page."""
    scale = max((s.result.worst.total or 0.0 for s in (first, second) if s.result.worst), default=0.0)
    halves = tuple(_half(letter, side, scale) for letter, side in (("A", first), ("B", second)))
    changed = tuple(changes(first.result, second.result))
    return page(
        "compare.html.j2", styles=("base", "index"), scripts=_SCRIPTS,
        data=overlaid(first.history, second.history), halves=halves, terms=tuple(terms(first.result, second.result)),
        changed=changed, same=_same_in(first.result, second.result),
        title=first.result.title or first.result.experiment, others=first.result.experiment != second.result.experiment,
    )  # fmt: skip


def _half(letter: str, side: Side, scale: float) -> Half:
    found = [e for e in episodes(side.result, end_of(side.history), scale) if e.recovery is side.result.worst]
    return Half(letter, side, story(side.result, side.history, Told({}, {}, "")), found[0] if found else None)


def terms(first: Result, second: Result) -> Iterator[Term]:
    """The figures of the worst recovery of each, and how the second differs."""
    if first.worst is None or second.worst is None:
        return
    a = (*contract.rto(first, first.worst), *contract.rpo(first, first.worst))
    b = {f.name: f for f in (*contract.rto(second, second.worst), *contract.rpo(second, second.worst))}
    for figure in a:
        if (other := b.get(figure.name)) is not None:
            change, mood = difference(figure.value, other.value, figure.unit)
            limit = amount(figure.limit, figure.unit) if figure.limit is not None else "–"
            if figure.limit != other.limit:
                limit += f" / {amount(other.limit, other.unit)}"
            yield Term(figure.label, figure.amount, other.amount, change, mood, limit)
    for label, share, beside in (
        ("goodput", first.efficiency.goodput, second.efficiency.goodput),
        ("ETTR", first.efficiency.ettr, second.efficiency.ettr),
    ):
        if share is not None and beside is not None:
            change, mood = difference(round(share * 100), round(beside * 100), "%")
            yield Term(label, f"{share * 100:.0f} %", f"{beside * 100:.0f} %", change, _OTHER.get(mood, ""), "–")
    yield from _beside(first, second)


def _beside(first: Result, second: Result) -> Iterator[Term]:
    """What else the machines did: a reason for differences."""
    if first.others is not None and second.others is not None:
        a, b = round(first.others * 100), round(second.others * 100)
        yield Term("other work on the machine", f"{a} %", f"{b} %", difference(a, b, "%")[0], "", "–")


_MOODS = {True: "worse", False: "better"}
_OTHER = {"better": "worse", "worse": "better"}  # of what should be large


def difference(first: float | None, second: float | None, unit: str) -> tuple[str, str]:
    """How much more the second is, in words, and whether that is better where less is better."""
    if first is None or second is None:
        return ("same" if first is second else "only one is known"), ""
    if abs(second - first) <= _SAME * max(abs(first), abs(second)):
        return "same", ""
    more = second - first
    share = f" ({more / first * 100:+.0f} %)".replace("-", "−") if first and unit != "%" else ""
    chance = abs(more) <= _CHANCE * max(abs(first), abs(second))
    return f"{'+' if more > 0 else '−'}{amount(abs(more), unit)}{share}", "" if chance else _MOODS[more > 0]


def _outcomes(result: Result) -> set[tuple[Kind, str, Outcome]]:
    return {(c.kind, c.name, c.verdict.outcome) for c in result.checks}


def _same_in(first: Result, second: Result) -> int:
    """How many checks say the same in both."""
    return len(_outcomes(first) & _outcomes(second))


def changes(first: Result, second: Result) -> Iterator[Changed]:
    """The checks that do not say the same in both."""
    a, b = ({(c.kind, c.name): c for c in result.checks} for result in (first, second))
    for kind, name in dict.fromkeys([*a, *b]):
        one, other = a.get((kind, name)), b.get((kind, name))
        before = one.verdict.outcome if one else None
        after = other.verdict.outcome if other else None
        if before is not after:
            told = other if other and after is not Outcome.PASS else one or other
            yield Changed(name, kind.value, before, after, shorten(told.verdict.reason if told else "", 300))


def overlaid(first: History, second: History) -> dict[str, Any]:
    """The curves of both on one axis, on which each run's first fault lies at 0."""
    starts = [_start(h) for h in (first, second)]
    drawn: dict[str, list[tuple[str, Panel]]] = {}
    for letter, history in (("A", first), ("B", second)):
        singles = [Panel(c.title, (c,)) for c in curves(history, _COLUMNS)]
        for panel in (*panels(history, 300), *singles):
            drawn.setdefault(panel.title, []).append((letter, panel))
    both = [chart_of(_merged(title, of, dict(zip("AB", starts, strict=True))), ()) for title, of in drawn.items()]
    ends = [max(end_of(h), 1e-3) - start for h, start in zip((first, second), starts, strict=True)]
    found = [b for h in (first, second) for b in bands(h)[:1]]
    length = max((b.end - b.begin for b in found), default=0.0)
    return {
        "from": round(-max(starts), 3), "end": round(max(ends), 3), "charts": both[:_CHARTS], "lanes": [], "marks": [],
        "bands": [{"begin": 0, "end": round(length, 3), "step": "fault", "lanes": [], "seq": -1}] if found else [],
    }  # fmt: skip


def _start(history: History) -> float:
    found = bands(history)
    return found[0].begin if found else 0.0


def _merged(title: str, of: Sequence[tuple[str, Panel]], starts: Mapping[str, float]) -> Panel:
    layers: list[Curve] = []
    for letter, panel in of:
        for curve in panel.curves:
            name = letter if curve.title == panel.title else f"{letter}: {clean(curve.title)}"
            pieces = tuple(tuple((t - starts[letter], v) for t, v in piece) for piece in curve.pieces)
            layers.append(curve._replace(title=name, pieces=pieces))
    return Panel(title, tuple(layers), of[0][1].log, of[0][1].unit)
