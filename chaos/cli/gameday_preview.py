"""`chaos gameday plan`: what would happen, without anything happening; or the schedule for another scheduler."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from chaos.errors import Exit
from chaos.gameday.agenda import draw
from chaos.gameday.export import export
from chaos.gameday.terms import Plan, Turn
from chaos.gameday.timetable import Calendar
from chaos.load import load_experiment
from chaos.load.gameday import load_gameday
from chaos.plan import plan as throw
from chaos.plan import preview
from chaos.units import counted

_STARTS = 3


def main(call: argparse.Namespace) -> int:
    """Print it."""
    plan = load_gameday(call.plan)
    if call.export:
        program = [shutil.which("chaos")] if shutil.which("chaos") else [sys.executable, "-m", "chaos"]
        command = [word for word in (*program, "gameday", "run", plan.path, "--now") if word]
        print(export(plan, call.export, command, str(Path.cwd())), end="")
        return Exit.PASS
    print(f"{plan.title}\nplan only: nothing is run, nothing is proved")
    for line in (*_starts(plan), *_order(plan, call.seed)):
        print(f"  {line}")
    return Exit.PASS


def _starts(plan: Plan) -> Iterator[str]:
    calendar, after = Calendar(plan), time.time()
    if plan.timetable is None:
        yield "no schedule: begins with `chaos gameday run --now`"
    for _ in range(_STARTS):
        start = calendar.next(after)
        if start is None:
            break
        closed = calendar.closed(start)
        yield f"start {calendar.write(start)}" + (f": will not begin: {closed}" if closed else "")
        after = start


def _order(plan: Plan, seed: int | None) -> Iterator[str]:
    fixed = plan.draw is None or plan.draw.seed is not None
    fresh = seed if seed is not None else 0
    agenda = draw(plan, fresh)
    if plan.draw is not None and not fixed:
        yield f"each day throws dice of its own; these are those of seed {fresh}"
    elif plan.draw is not None:
        yield f"seed {agenda.seed}"
    walls = sum(turn.piece.wall for turn in agenda.turns)
    one, many = "experiment; by its own limits it runs", "experiments; by their own limits they run"
    yield f"{counted(len(agenda.turns), one, many)} for at most {_span(walls)}"
    if plan.ladder:
        yield f"ladder: {' → '.join(plan.ladder)}"
    for turn in agenda.turns:
        due = "" if turn.due is None else f" due {_span(turn.due)}"
        category = f" for {turn.category}" if turn.category else ""
        derived = " (derived)" if turn.piece.derived else ""
        yield f"{turn.number:3}{due} {turn.piece.name}{category}, seed {turn.seed}, rung {turn.piece.rung}{derived}"
        yield from (f"      {line}" for line in _reach(turn))
    if agenda.silent:
        share = sum(agenda.silent.values())
        yield f"{share:.1%} of the mix has no experiment: " + ", ".join(
            f"{name} {part:.1%}" for name, part in sorted(agenda.silent.items(), key=lambda item: -item[1])
        )
        yield (
            f"{counted(len(agenda.uncovered), 'failure of those was', 'failures of those were')} drawn between the "
            "others"
        )
    if agenda.never:
        yield f"not drawn this time: {', '.join(agenda.never)}"


def _reach(turn: Turn) -> Iterator[str]:
    """Whom each fault of an experiment hits, with its dice thrown."""
    experiment = load_experiment(turn.piece.file, overrides=turn.piece.settings, seed=turn.seed)
    for row in preview(throw(experiment), experiment):
        whom = " | ".join(", ".join(side) for side in row.sides) or ", ".join(row.members or row.nodes)
        yield f"{row.kind} {row.when}; hold {row.hold}; hits {whom or 'files'}"


def _span(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 600
        else f"{seconds / 60:.0f} min"
        if seconds < 36000
        else f"{seconds / 3600:.1f} h"
    )
