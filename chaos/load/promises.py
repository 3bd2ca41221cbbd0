"""What an experiment promises and how far it reaches, in the words of whoever plans a game day."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from chaos.api import Selector
from chaos.experiment import Experiment, Hypothesis
from chaos.gameday.terms import RUNGS
from chaos.units import format_duration


def promises(experiment: Experiment) -> tuple[str, ...]:
    """The recovery budget, the hypotheses and the invariants."""
    return (*_budget(experiment), *map(_hypothesis, experiment.steady), *(kind for kind, _ in experiment.invariants))


def _budget(experiment: Experiment) -> Iterator[str]:
    for word, part in (("RTO", experiment.budget.rto), ("RPO", experiment.budget.rpo)):
        for name, limit in msgspec.structs.asdict(part).items() if part is not None else ():
            if limit is not None:
                seconds = word == "RTO" or name == "seconds"
                yield f"{word} {name} ≤ {format_duration(limit) if seconds else limit}"


def _hypothesis(one: Hypothesis) -> str:
    bounds = msgspec.to_builtins(one.bound)
    words = ", ".join(f"{key.replace('-', ' ')} {value}" for key, value in bounds.items())
    return f"{one.name} {words}{' of baseline' if one.of_baseline else ''} ({one.mode.value})"


def rung_of(experiment: Experiment, ladder: tuple[str, ...]) -> str:
    """The highest rung that a fault of it reaches; a rung that the ladder does not know is above all."""
    order = ladder or RUNGS
    reached = [rung for step in experiment.method for selector in step.fault.selectors() for rung in _reach(selector)]
    return max(reached, key=lambda rung: order.index(rung) if rung in order else len(order), default=RUNGS[0])


def _reach(selector: Selector) -> tuple[str, ...]:
    if selector.names or selector.roles or selector.ranks:
        return ("member",)
    return tuple(selector.domains) or (("node",) if selector.nodes or selector.rest else ("member",))
