"""`chaos gameday report`, and the report at the end of a day."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from chaos.archive import NAME, Archive
from chaos.cli.gameday_places import meant
from chaos.cli.judging import nearby
from chaos.errors import ArchiveError, Exit, GameDayError
from chaos.gameday.pages import write
from chaos.gameday.records import DayStory
from chaos.gameday.service import outcome
from chaos.gameday.store import Store
from chaos.gameday.story import report


def main(call: argparse.Namespace) -> int:
    """Write the report of a day again; the exit code is the day's."""
    with Store(meant(call.plan, call.state)) as store:
        last = store.last()
        if last is None:
            raise GameDayError(f"{store.path}: no day has begun")
        day = last.id if call.day is None else call.day
        print(write_story(store, day))
        return outcome(store.story(day)) if store.day(day).ended is not None else Exit.INCONCLUSIVE


def write_story(store: Store, day: int) -> str:
    """Write both pages into the day's folder; what to tell about it. A full disk costs the pages, not the day."""
    story = store.story(day)
    story = msgspec.structs.replace(story, past=_past(story))
    made = report(story)
    try:
        page, _ = write(Path(story.day.folder), made)
    except OSError as error:
        return f"{made.headline}; no report: {error}; `chaos gameday report` writes it another time"
    return f"{made.headline}; report {nearby(page)}"


def _past(story: DayStory) -> dict[str, tuple[str, ...]]:
    """How the day's experiments ended before that day."""
    names = {turn.piece.name for turn in story.day.agenda.turns}
    found: dict[str, list[str]] = {}
    try:
        with Archive(Path(story.day.folder).parent / NAME) as archive:
            for run in archive.runs(experiments=sorted(names)):
                if run.started < story.day.started and not run.overrides:
                    found.setdefault(run.experiment, []).append(run.outcome.value)
    except ArchiveError:  # none yet
        return {}
    return {name: tuple(outcomes) for name, outcomes in found.items()}
