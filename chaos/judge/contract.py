"""What a run is judged by, as plain data that is stored beside its journal."""

from __future__ import annotations

from typing import Self

import msgspec

from chaos.api import JSON
from chaos.experiment import Budget, Ending, Experiment, Mode
from chaos.trigger import Condition, Every, Poisson


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """A hypothesis without its probe: the samples are in the journal under `name`."""

    name: str
    kind: str
    unit: str
    bound: Condition
    of_baseline: bool
    mode: Mode


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the method that must have landed; `endless`: as often as the run is long, at least once."""

    name: str
    kind: str
    endless: bool = False


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """An invariant with its settings, enough to build it again."""

    kind: str
    id: str
    settings: JSON


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that judging needs beside the history: encode it with `msgspec.json`, judge on any later day."""

    experiment: str
    title: str
    hypotheses: tuple[Promise, ...] = ()
    steps: tuple[Planned, ...] = ()
    budget: Budget = Budget()
    invariants: tuple[Asked, ...] = ()
    ends: bool = True  # the target ends by itself, so it must have ended with its job done
    job: Ending = "done"  # or it must have said that it cannot be done, and ended with an error

    @classmethod
    def of(cls, experiment: Experiment) -> Self:
        """The contract of an experiment."""
        return cls(
            experiment=experiment.name,
            title=experiment.title,
            hypotheses=tuple(
                Promise(
                    name=h.name, kind=h.kind, unit=h.probe.unit, bound=h.bound, of_baseline=h.of_baseline, mode=h.mode
                )
                for h in experiment.steady
            ),
            steps=tuple(
                Planned(name=s.name, kind=s.kind, endless=isinstance(s.when, Every | Poisson) and s.when.times is None)
                for s in experiment.method
            ),
            budget=experiment.budget,
            invariants=tuple(
                Asked(kind=kind, id=invariant.id, settings=msgspec.to_builtins(invariant))
                for kind, invariant in experiment.invariants
            ),
            ends=experiment.target.ends,
            job=experiment.job,
        )
