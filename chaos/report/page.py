"""`report.html`: one file that needs no network and no script, from the result and the history."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import chaos
from chaos.history import Event, History
from chaos.report import contract, summary
from chaos.report.contract import Figure
from chaos.report.drawing import charts, timeline
from chaos.report.junit import events_at
from chaos.report.lines import describe, details, number, seconds, shorten
from chaos.report.markup import Content, Markup, join, tag
from chaos.report.picture import draw_chart, draw_timeline, link
from chaos.result import Check, Kind, Recovery, Result
from chaos.verdict import Outcome

_LINKED = 40  # events of one check that are linked
_SHOWN = 6  # of those, with the check
_EVENTS = 600  # rows of the event table, evidence before anything else


class Background(NamedTuple):
    """What a reader wants to know that the history does not hold."""

    notes: Mapping[str, str] = {}  # kind of fault -> its fidelity: what it stands for and what it does not show
    schedule: str = ""  # as it was written
    replay: str = ""  # the command line that runs it again


def encode(result: Result, history: History, background: Background) -> bytes:
    """The page."""
    line = timeline(history)
    events = events_at(history, _wanted(result, [mark.seq for lane in line.lanes for mark in lane.marks]))
    listed = {event.seq for event in events}
    curves = [draw_chart(chart, line) for chart in charts(history, line, _bounds(result.checks))]
    main = tag(
        "main",
        _verdict(result),
        _recoveries(result),
        _card("Checks", *_checks(result, listed)),
        _card("Timeline", *draw_timeline(line, listed), *curves, _THINNED if curves else None),
        _table("What the faults stand for", _notes(history, background.notes)),
        _again(background),
        _table("Environment", {k: tag("pre", v) for k, v in _environment(history.first("run.started")).items()}),
        _card("Events", *_events(events, len(history))),
    )
    return f"<!DOCTYPE html>\n{tag('html', _head(result), tag('body', main), lang='en')}\n".encode()


_THINNED = tag(
    "p", "Curves are thinned for drawing; the lowest and the highest value of every span are kept. Gaps are gaps in "
    "the data.", class_="soft",
)  # fmt: skip


def _head(result: Result) -> Markup:
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{result.outcome.value}: {_title(result)}"),
        tag("style", Markup(style)),
    )


def _title(result: Result) -> str:
    return result.title or result.experiment


def _card(title: str, *content: Content) -> Markup:
    return join((tag("h2", title), tag("div", *content, class_="card")))


def _table(title: str, rows: Mapping[str, str]) -> Markup:
    """A card with what is known; nothing where that is nothing."""
    lines = [_tr(tag("td", key), tag("td", value, class_="wide")) for key, value in rows.items()]
    return _card(title, tag("table", lines)) if rows else Markup()


def _tr(*cells: Content, id: str | None = None) -> Markup:
    return join((tag("tr", *cells, id=id), Markup("\n")))


def _badge(outcome: Outcome, text: str = "") -> Markup:
    return tag("span", text or outcome.value, class_=f"badge {outcome.value}")


def _verdict(result: Result) -> Markup:
    when = "" if result.started is None else f"{datetime.fromtimestamp(result.started, UTC):%Y-%m-%d %H:%M:%S} UTC"
    facts = (
        result.experiment, f"seed {number(result.seed)}", seconds(result.seconds), when,
        f"exit code {int(result.exit)}", f"chaos {chaos.__version__}",
    )  # fmt: skip
    return tag(
        "section",
        tag("h1", tag("span", result.outcome.value, class_="badge"), " ", result.headline),
        tag("p", _title(result)),
        tag("p", " · ".join(facts), class_="soft"),
        [tag("p", _badge(Outcome.FAIL, "undo by hand"), " ", line) for line in result.undo],
        class_=f"verdict {result.outcome.value}",
    )


# --- recovery contract -----------------------------------------------------------------------------------------------


def _recoveries(result: Result) -> Iterator[Markup]:
    """The worst episode beside its budget, the others on a line each."""
    worst = result.worst
    if worst:
        yield _card("Recovery contract", *_contract(result, worst))
    others = [tag("div", summary.episode(r)) for r in result.recoveries if r is not worst]
    if others:
        yield _card("Other episodes" if worst else "Episodes", *others)


def _contract(result: Result, recovery: Recovery) -> Iterator[Markup]:
    rto, rpo = contract.rto(result, recovery), contract.rpo(result, recovery)
    yield tag("p", summary.story(recovery), style="margin-top:0")
    yield tag("div", _total(rto), [_figure(f, f"t{i}" if f in rto else "") for i, f in enumerate(rto + rpo) if i],
              class_="budget")  # fmt: skip
    efficiency = result.efficiency
    facts = [f"resume {seconds(recovery.resume)}", f"catch-up {seconds(recovery.catch_up)}"]
    for name, share in (("goodput", efficiency.goodput), ("ETTR", efficiency.ettr)):
        facts += [] if share is None else [f"{name} {round(share * 100)} %"]
    facts.append(f"lost {number(recovery.lost_member_seconds)} member-seconds")
    note = (tag("br"), recovery.note) if recovery.note else None
    yield tag("p", " · ".join(facts), note, class_="soft", style="margin-bottom:0")


def _total(rto: Sequence[Figure]) -> Iterator[Markup]:
    """The whole as a bar of its terms."""
    total, *terms = rto
    scale = max(total.value or 0, total.limit or 0)
    yield from _label(total)
    yield tag(
        "span",
        [
            tag("i", class_=f"t{i}", style=_wide(term.value, scale), title=f"{term.label}: {term}")
            for i, term in enumerate(terms, 1)
        ],
        class_="bar terms",
    )


def _figure(figure: Figure, key: str) -> Iterator[Markup]:
    """A figure, and how much of its budget it is."""
    yield from _label(figure, key)
    if figure.limit is None:
        yield tag("span")
    else:
        spent = tag("i", class_="fail" if figure.share > 1 else "spent", style=_wide(figure.value, figure.limit))
        yield tag("span", spent, class_="bar")


def _label(figure: Figure, key: str = "") -> Iterator[Markup]:
    yield tag("span", tag("i", class_=f"key {key}") if key else None, figure.label)
    yield tag("span", str(figure), (" ", _badge(figure.outcome)) if figure.outcome else None)


def _wide(value: float | None, whole: float | None) -> str:
    """A share as a CSS width."""
    share = value / whole if value is not None and whole else 0.0
    return f"width:{min(max(share, 0.0), 1.0) * 100:.2f}%"


# --- checks and events -----------------------------------------------------------------------------------------------


def _checks(result: Result, listed: Collection[int]) -> Iterator[Content]:
    checks = tuple(contract.ordered(result))
    if not checks:
        yield "Nothing was checked, so nothing was shown."
        return
    head = [tag("th", word) for word in ("outcome", "about", "check", "why", "evidence")]
    yield tag("table", _tr(head), [_check(check, listed) for check in checks])


def _check(check: Check, listed: Collection[int]) -> Markup:
    verdict, measured = check.verdict, contract.measured(check)
    more = len(verdict.evidence) - _SHOWN
    return _tr(
        tag("td", _badge(verdict.outcome)),
        tag("td", check.kind.value),
        tag("td", check.name, (" ", tag("span", check.id, class_="soft")) if check.id else None),
        tag("td", (tag("b", measured), " · ") if measured else None, verdict.reason, class_="wide"),
        tag("td", [(link(seq, listed, f"#{seq}"), " ") for seq in verdict.evidence[:_SHOWN]],
            f"and {more} more" if more > 0 else None, class_="short"),
    )  # fmt: skip


def _wanted(result: Result, marked: Iterable[int]) -> Sequence[int]:
    """Numbers of the events to list: those that prove something, then those that the timeline marks."""
    evidence = [seq for check in contract.ordered(result) for seq in check.verdict.evidence[:_LINKED]]
    measured = [seq for recovery in result.recoveries for seq in recovery.evidence.values()]
    return sorted(list(dict.fromkeys([*evidence, *measured, *marked]))[:_EVENTS])


def _events(events: Sequence[Event], total: int) -> Iterator[Markup]:
    told = f"Evidence and key events: {len(events)} of {total}; the rest is in "
    yield tag("p", told, tag("code", "journal.jsonl"), ".", class_="soft", style="margin-top:0")
    numbers = [tag("th", word, class_="num") for word in ("#", "time")]
    head = [tag("th", word) for word in ("source", "kind", "what happened", "data")]
    yield tag("table", _tr(numbers, head), map(_event, events), class_="events")


def _event(event: Event) -> Markup:
    return _tr(
        tag("td", event.seq, class_="num"),
        tag("td", f"{event.t:.3f}", class_="num"),
        tag("td", event.source),
        tag("td", event.kind),
        tag("td", describe(event), class_="text"),
        tag("td", shorten(details(event.data), 400), class_="data"),
        id=f"e{event.seq}",
    )


def _bounds(checks: Iterable[Check]) -> Mapping[str, Sequence[float]]:
    """The bounds of each hypothesis, to be drawn into the chart of its probe."""
    return {c.name: tuple(contract.bounds(c).values()) for c in checks if c.kind is Kind.HYPOTHESIS}


# --- what the run stands on ------------------------------------------------------------------------------------------


def _notes(history: History, notes: Mapping[str, str]) -> Mapping[str, str]:
    """The fidelity of the faults that landed."""
    kinds = dict.fromkeys(str(e.get("kind")) for e in history.of("fault.landed"))
    return {kind: " ".join(notes[kind].split()) for kind in kinds if kind in notes}


def _again(background: Background) -> Markup:
    content: list[Markup] = [tag("pre", background.replay)] if background.replay else []
    if background.schedule:
        content.append(tag("p", "The schedule, every die thrown:", class_="soft"))
        content.append(tag("pre", background.schedule))
    return _card("Run it again", *content) if content else Markup()


def _environment(started: Event | None) -> Mapping[str, str]:
    if started is None:
        return {}
    known = ("experiment", "seed", "version", "python", "kernel", "mechanisms", "settings")
    return {key: _json(started.get(key)) for key in known if started.get(key) is not None}


def _json(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
