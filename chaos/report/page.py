"""`report.html`: one file that needs no network and no script, from the result and the history."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import chaos
from chaos.history import Event, History
from chaos.report import contract, summary
from chaos.report.charts import charts
from chaos.report.drawing import timeline
from chaos.report.junit import events_at
from chaos.report.lines import clean_block, describe, details, number, seconds, shorten
from chaos.result import Check, Kind, Result
from chaos.verdict import Outcome

_LINKED = 40  # events of one check that are linked
_EVENTS = 600  # rows of the event table, evidence before anything else


class Background(NamedTuple):
    """What a reader wants to know that the history does not hold."""

    notes: Mapping[str, str] = {}  # kind of fault -> its fidelity: what it stands for and what it does not show
    schedule: str = ""  # as it was written
    replay: str = ""  # the command line that runs it again


class Row(NamedTuple):
    """An event in the table."""

    event: Event
    text: str
    data: str


def encode(result: Result, history: History, background: Background) -> bytes:
    """The page."""
    line = timeline(history)
    rows = _rows(history, _wanted(result, [mark.seq for lane in line.lanes for mark in lane.marks]))
    started = history.first("run.started")
    recovery = result.worst
    return _render(
        result=result,
        version=chaos.__version__,
        when="" if result.started is None else f"{datetime.fromtimestamp(result.started, UTC):%Y-%m-%d %H:%M:%S} UTC",
        recovery=recovery,
        story=summary.story(recovery) if recovery else "",
        others=[summary.episode(r) for r in result.recoveries if r is not recovery],
        rto=contract.rto(result, recovery) if recovery else (),
        rpo=contract.rpo(result, recovery) if recovery else (),
        checks=tuple(contract.ordered(result)),
        timeline=line,
        charts=charts(history, line, _bounds(result.checks)),
        rows=rows,
        listed={row.event.seq for row in rows},
        total=len(history),
        notes=_notes(result, history, background.notes),
        schedule=background.schedule,
        replay=background.replay,
        environment=_environment(started),
    )


def _render(**values: Any) -> bytes:
    from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined

    here = Path(__file__).parent
    compiled = here / "__pycache__"  # compiling the page takes longer than all else, so keep it where modules are kept
    keep = os.access(compiled, os.W_OK) and not sys.dont_write_bytecode
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_tidy,
        loader=FileSystemLoader(here), bytecode_cache=FileSystemBytecodeCache(str(compiled)) if keep else None,
    )  # fmt: skip
    environment.filters |= {"seconds": seconds, "number": number, "measured": contract.measured}
    environment.globals |= {"width": _percent}
    return environment.get_template("page.html.j2").render(values).encode()


def _tidy(value: Any) -> Any:
    """Every value on its way into the page: no control character gets through; escaping is Jinja's part."""
    if isinstance(value, Outcome):
        return value.value
    return clean_block(value) if type(value) is str else value


def _percent(value: float | None, whole: float | None) -> str:
    """A share as a CSS width."""
    share = value / whole if value is not None and whole else 0.0
    return f"{min(max(share, 0.0), 1.0) * 100:.2f}%"


def _wanted(result: Result, marked: Iterable[int]) -> Sequence[int]:
    """Numbers of the events to list: those that prove something, then those that the timeline marks."""
    evidence = [seq for check in contract.ordered(result) for seq in check.verdict.evidence[:_LINKED]]
    measured = [seq for recovery in result.recoveries for seq in recovery.evidence.values()]
    return sorted(list(dict.fromkeys([*evidence, *measured, *marked]))[:_EVENTS])


def _rows(history: History, seqs: Sequence[int]) -> tuple[Row, ...]:
    return tuple(Row(e, describe(e), shorten(details(e.data), 400)) for e in events_at(history, seqs))


def _bounds(checks: Iterable[Check]) -> Mapping[str, Sequence[float]]:
    """The bounds of each hypothesis, to be drawn into the chart of its probe."""
    return {c.name: tuple(contract.bounds(c).values()) for c in checks if c.kind is Kind.HYPOTHESIS}


def _notes(result: Result, history: History, notes: Mapping[str, str]) -> Mapping[str, str]:
    """The fidelity of the faults that landed."""
    kinds = dict.fromkeys(str(e.get("kind")) for e in history.of("fault.landed"))
    return {kind: " ".join(notes[kind].split()) for kind in kinds if kind in notes}


def _environment(started: Event | None) -> Mapping[str, str]:
    if started is None:
        return {}
    known = ("experiment", "seed", "version", "python", "kernel", "mechanisms", "settings")
    return {key: _json(started.get(key)) for key in known if started.get(key) is not None}


def _json(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
