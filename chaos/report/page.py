"""`report.html`: one file that opens from disk and needs no network, from the result and the history.

With its script it zooms, filters and links; without it, and on paper, it still shows everything that matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, NamedTuple

import msgspec

from chaos.history import Event, History
from chaos.report import contract, summary
from chaos.report.charts import charts
from chaos.report.drawing import timeline
from chaos.report.episodes import Episode, episodes
from chaos.report.glossary import glossary
from chaos.report.junit import events_at
from chaos.report.lines import describe, details, shorten
from chaos.report.picture import picture
from chaos.report.render import page
from chaos.report.story import Told, decisive, story
from chaos.result import Check, Kind, Result

STYLES = ("base", "report")
SCRIPTS = ("common", "theme", "select", "axis", "paint", "lanes", "curves", "plots", "events", "checks", "keys", "go")

_LINKED, _FEW = 40, 6  # events of one check that are linked; where there are too many checks
_FRAME, _LINK = 400, 60  # bytes of a row, and of a link
_ROOM = 300_000  # bytes for the checks; the worst come first
_UNDONE = 40  # things to undo by hand that are told one by one
_REASON = 1500  # characters of a check's reason
_ROWS = 250  # of the table on paper and without script, evidence before anything else


class Background(NamedTuple):
    """What a reader wants to know that the history does not hold."""

    notes: Mapping[str, str] = {}  # kind of fault -> its fidelity: what it stands for and what it does not show
    schedule: str = ""  # as it was written
    replay: str = ""  # the command line that runs it again
    promises: Mapping[str, str] = {}  # kind of invariant -> what it promises, in a sentence


class Row(NamedTuple):
    """An event in the table."""

    event: Event
    text: str
    data: str


class Cited(NamedTuple):
    """A check as the page shows it."""

    check: Check
    number: int
    why: str
    linked: tuple[int, ...]  # numbers of events that lead there
    more: int


def encode(result: Result, history: History, background: Background) -> bytes:
    """The page."""
    line = timeline(history)
    wanted = _wanted(result)
    rows = _rows(history, sorted([*wanted, *(m.seq for lane in line.lanes for m in lane.marks)][:_ROWS]))
    checks = tuple(_cited(result))
    bounds = _bounds(result.checks)
    found = episodes(result, line.end)
    drawn = picture(history, wanted, bounds)
    lead = decisive(result)
    return page(
        "page.html.j2", styles=STYLES, scripts=SCRIPTS,
        data={**drawn, "cited": _citations(checks), "recoveries": [_window(e) for e in found]},
        result=result,
        when="" if result.started is None else f"{datetime.fromtimestamp(result.started, UTC):%Y-%m-%d %H:%M:%S} UTC",
        about=_about(history),
        story=story(result, history, Told(background.notes, background.promises, background.replay)),
        lead=next((c.number for c in checks if c.check is lead), None),
        promises={name: " ".join(text.split()) for name, text in background.promises.items()},
        episodes=found,
        others=[summary.episode(r) for r in result.recoveries if all(r is not e.recovery for e in found)],
        checks=checks,
        unlisted=_outcomes(list(contract.ordered(result))[len(checks) :]),
        undo=[shorten(line, _REASON) for line in result.undo[:_UNDONE]],
        counts=_outcomes(result.checks),
        timeline=line,
        charts=charts(history, line, bounds),
        drawn=drawn,
        rows=rows,
        listed={row.event.seq for row in rows},
        notes=_notes(history, background.notes),
        schedule=background.schedule,
        replay=background.replay,
        environment=_environment(history.first("run.started")),
        glossary=glossary(history),
    )  # fmt: skip


def _about(history: History) -> str:
    """Target and build, where the record tells them."""
    begun = history.first("run.started")
    if begun is None:
        return ""
    build = begun.get("build")
    known = dict(build) if isinstance(build, Mapping) else {}
    commit = (
        f"commit {shorten(known.get('commit'), 11).removesuffix('…')}{' and changes' if known.get('dirty') else ''}"
    )
    parts = (shorten(begun.get("target") or "", 60), commit if known.get("commit") else "")
    return " · ".join(filter(None, parts))


def _cited(result: Result) -> Iterator[Cited]:
    """The checks, as many as there is room for: with all their links, then with a few, then none any more."""
    room = _ROOM
    for number, check in enumerate(contract.ordered(result)):
        seqs, why = check.verdict.evidence, shorten(check.verdict.reason, _REASON)
        linked = seqs[: _LINKED if room > _ROOM // 2 else _FEW]
        room -= _FRAME + len(escape(why + shorten(check.name, 200)).encode()) + _LINK * len(linked)
        if room < 0:
            return
        yield Cited(check, number, why, linked, len(seqs) - len(linked))


def _citations(checks: Iterable[Cited]) -> dict[int, list[int]]:
    """Number of an event -> the checks that it is evidence of."""
    found: dict[int, list[int]] = {}
    for cited in checks:
        for seq in cited.linked:
            found.setdefault(seq, []).append(cited.number)
    return found


def _window(episode: Episode) -> list[float]:
    began = episode.recovery.began
    return [round(began, 3), round(began + (episode.recovery.total or 0.0), 3)]


def _outcomes(checks: Iterable[Check]) -> Mapping[str, int]:
    words = [check.verdict.outcome.value for check in checks]
    return {word: words.count(word) for word in ("fail", "unknown", "pass") if word in words}


def _wanted(result: Result) -> Sequence[int]:
    """Numbers of the events that prove something, most important first; of each check its first few before the rest."""
    checks = tuple(contract.ordered(result))
    first = [seq for check in checks for seq in check.verdict.evidence[:6]]
    measured = [seq for recovery in result.recoveries for seq in recovery.evidence.values()]
    rest = [seq for check in checks for seq in check.verdict.evidence[6:_LINKED]]
    return list(dict.fromkeys([*first, *measured, *rest]))


def _rows(history: History, seqs: Sequence[int]) -> tuple[Row, ...]:
    found = events_at(history, list(dict.fromkeys(seqs)))
    return tuple(Row(e, describe(e), shorten(details(e.data), 300)) for e in found)


def _bounds(checks: Iterable[Check]) -> Mapping[str, Sequence[float]]:
    """The bounds of each hypothesis, to be drawn into the chart of its probe."""
    return {c.name: tuple(contract.bounds(c).values()) for c in checks if c.kind is Kind.HYPOTHESIS}


def _notes(history: History, notes: Mapping[str, str]) -> Mapping[str, str]:
    """The fidelity of the faults that landed."""
    kinds = dict.fromkeys(str(e.get("kind")) for e in history.of("fault.landed"))
    return {kind: " ".join(notes[kind].split()) for kind in kinds if kind in notes}


def _environment(started: Event | None) -> Mapping[str, str]:
    if started is None:
        return {}
    known = ("experiment", "target", "seed", "version", "python", "kernel", "build", "mechanisms", "settings")
    return {key: _json(started.get(key)) for key in known if started.get(key) is not None}


def _json(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
