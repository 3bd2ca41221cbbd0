"""Goodput and ETTR of a run."""

from __future__ import annotations

from itertools import pairwise

from chaos.history import History
from chaos.result import Efficiency
from chaos.statistics import median
from chaos.training import Execution, lineage, strikes


def efficiency(history: History) -> Efficiency:
    """How much of the time from the first group to the last step became steps that lasted.

    Goodput: lasting steps a second over the speed of the healthy steps before the first fault (median). ETTR: the time
    that lasting steps took, each from the one before it in its group, over the whole time; a step that is the first of
    its group counts with the healthy median, so that loading and warming up are not taken for training.
    """
    line = lineage(history)
    lasting = line.lasting
    if not lasting:
        return Efficiency()
    faults = strikes(history)
    until = faults[0].injecting.seq if faults else None
    healthy = [e for e in lasting if e.group.index == 0 and (until is None or e.last.seq < until)]
    gaps = [b.last.t - a.last.t for a, b in pairwise(healthy)]
    pace = median(gaps) if gaps else None
    done = sum(len(run) for run in line.runs)
    wall = max(e.last.t for e in lasting) - line.groups[0].t
    base = Efficiency(wall=wall, lasting_steps=len(lasting), repeated_steps=done - len(lasting))
    if not pace or wall <= 0:
        return base
    spent = sum(_took(a, b, pace) for a, b in pairwise([None, *lasting]) if b is not None)
    return Efficiency(
        wall=wall,
        goodput=len(lasting) * pace / wall,
        ettr=min(spent / wall, 1.0),
        lasting_steps=len(lasting),
        repeated_steps=done - len(lasting),
    )


def _took(before: Execution | None, execution: Execution, pace: float) -> float:
    if before is None or before.group is not execution.group:
        return pace
    return max(execution.last.t - before.last.t, 0.0)
