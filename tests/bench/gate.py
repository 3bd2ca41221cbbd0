"""How long the gate takes with a year of runs on record: the whole command, start-up included."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.archive import NAME

from .figures import Figure, median
from .place import Place, chaos
from .processes import BenchError, said, timed
from .stored import many, project, store

RUNS, PATHS, TIMES = 10_000, 40, 7
GOAL = 2000.0  # ms


def measure(place: Place) -> Iterator[Figure]:
    """`chaos gate` over 10,000 runs of 40 paths; the control is the same command over 120."""
    for count, goal in ((3 * PATHS, None), (RUNS, GOAL)):
        folder = place.scratch(f"gate-{count}")
        project(folder, PATHS)
        store(folder / "runs" / NAME, many(folder, count, PATHS))
        taken = [timed(chaos("gate", "-q"), folder=folder).seconds for _ in range(TIMES)][1:]
        if f"{PATHS} of {PATHS} recovery paths proved" not in said(folder):
            raise BenchError(f"the gate said something else: {said(folder)}")
        note, what = f"median of {len(taken)}, {PATHS} paths", f"gate: {count:,} runs on record"
        yield Figure(what=what, unit="ms", ours=median(taken) * 1000, bound=goal, note=note)
