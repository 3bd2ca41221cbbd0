"""`chaos gameday status`: what runs, what is asked, how far the day is; as text, or as JSON for a program."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from chaos.cli.gameday_places import Known, known, meant
from chaos.errors import Exit, SpecError
from chaos.gameday.children import lives
from chaos.gameday.desk import PAUSED, UNHEALED
from chaos.gameday.records import DayStory, Gate, Line, Order
from chaos.gameday.store import Store
from chaos.gameday.story import Part, report
from chaos.report.files import put
from chaos.units import counted

_LAST = 5  # lines of the timeline that are shown
_CUT_OFF, _NOT_RUN, _LEFT = "interrupted", "not run", ("to come", "running", "to be judged")


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """One turn. `outcome`: pass, fail, inconclusive, heal failed, interrupted, not run, to come, running; or `to be
    judged`: it ended while nobody ran the game day."""

    number: int
    name: str
    outcome: str
    why: str
    seed: int
    attempts: int
    folder: str


class Today(msgspec.Struct, frozen=True, kw_only=True):
    """The day that was begun last. Times are Unix seconds."""

    id: int
    state: str
    why: str
    planned: float
    started: float
    ended: float | None
    folder: str
    experiments: tuple[Experiment, ...]
    asked: tuple[Gate, ...]  # and not answered
    timeline: tuple[Line, ...]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """One game day."""

    title: str
    file: str  # its state
    plan: str
    pid: int | None  # of the process that runs it
    paused: str  # by whom and why
    unhealed: str  # what to undo by hand
    orders: tuple[Order, ...]  # that nobody was there to carry out
    timeline: tuple[Line, ...]  # of the service between days
    day: Today | None


def main(call: argparse.Namespace) -> int:
    """Of all game days where none is named."""
    entries = known()
    if call.plan is None and call.state is None:
        found = [_status(Path(entry.state), entry) for entry in entries]
    else:
        state = meant(call.plan, call.state)
        found = [_status(state, next((entry for entry in entries if Path(entry.state) == state), None))]
    encoded = msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"
    if call.json == "-":
        print(encoded.decode(), end="")
        return Exit.PASS
    if call.json:
        try:
            put(Path(call.json), encoded)
        except OSError as error:
            raise SpecError(f"--json {call.json}: {error.strerror}") from error
    print("\n".join(line for status in found for line in _lines(status)) or "no game day is known here")
    return Exit.PASS


def _status(state: Path, entry: Known | None) -> Status:
    with Store(state) as store:
        last = store.last()
        return Status(
            title=last.plan.title if last is not None else entry.title if entry is not None else state.stem,
            file=str(state),
            plan=entry.plan if entry is not None else last.plan.path if last is not None else "",
            pid=entry.pid if entry is not None and entry.alive else None,
            paused=store.fact(PAUSED),
            unhealed=store.fact(UNHEALED),
            orders=tuple(store.orders()),
            timeline=tuple(store.lines()),
            day=_today(store.story(last.id)) if last is not None else None,
        )


def _today(story: DayStory) -> Today:
    day = story.day
    return Today(
        id=day.id, state=day.state.value, why=day.why, planned=day.planned, started=day.started, ended=day.ended,
        folder=day.folder, experiments=tuple(_experiment(part, story) for part in report(story).parts),
        asked=tuple(gate for gate in story.gates if not gate.answer), timeline=story.lines,
    )  # fmt: skip


def _experiment(part: Part, story: DayStory) -> Experiment:
    outcome = part.outcome
    for attempt in story.attempts:
        if attempt.number == part.number and attempt.finding is None and attempt.pid is not None:
            outcome = "running" if lives(attempt.pid, attempt.born) else "to be judged"
    return Experiment(
        number=part.number, name=part.name, outcome=outcome, why=part.why, seed=part.seed, attempts=part.attempts,
        folder=part.folder,
    )  # fmt: skip


def _lines(status: Status) -> Iterator[str]:
    yield f"{status.title}: {'does not run' if status.pid is None else f'runs, pid {status.pid}'}"
    yield f"  state: {status.file}"
    if status.paused:  # says itself what it is
        yield f"  {status.paused}; `chaos gameday resume`"
    if status.unhealed:
        yield f"  a heal failed: {status.unhealed}; `chaos gameday resume`"
    for order in status.orders:
        yield f"  kept until it runs: {order.what}{order.of}"
    yield from (f"  {line.text}" for line in status.timeline[-3:])
    if status.day is None:
        yield "  no day has begun"
    else:
        yield from _about(status.day)


def _about(day: Today) -> Iterator[str]:
    became = day.why if day.why.startswith(day.state) else f"{day.state}: {day.why}" if day.why else day.state
    yield f"  day {day.id}, {_when(day.started)}: {became}"
    counts = Counter(experiment.outcome for experiment in day.experiments)
    ran = counts.total() - sum(counts[outcome] for outcome in (_CUT_OFF, _NOT_RUN, *_LEFT))
    said = [f"{ran} of {counted(counts.total(), 'experiment')} ran"]
    said += [f"{counted(counts[_CUT_OFF], 'was', 'were')} cut off"] if counts[_CUT_OFF] else []
    said += [f"{counted(counts[_NOT_RUN], 'is', 'are')} not run"]
    yield f"  {', '.join(said)}"
    for gate in day.asked:
        yield f"  approval asked: {gate.name}, until {_when(gate.until)}; `chaos gameday approve` or `reject`"
    yield from (f"    {_when(line.at)[11:]} {line.text}" for line in day.timeline[-_LAST:])


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
