"""A typed experiment and the schedule that a plan makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from chaos.api import JSON, Duration, Fault, Invariant, Probe, Ratio, Selector, Slot
from chaos.errors import SpecError
from chaos.trigger import AnyTrigger, Condition

Count = Annotated[int, Meta(ge=0)]


class Mode(Enum):
    """When a hypothesis must hold (Litmus meanings)."""

    BEFORE = "before"  # on the last samples before the first fault
    AFTER = "after"  # on the samples after the last heal, once recovered
    EDGE = "edge"  # before and after
    CONTINUOUS = "continuous"  # on every sample of the run
    DURING = "during"  # on every sample while a fault stands


class Hypothesis(msgspec.Struct, frozen=True, kw_only=True):
    """A probe and the bound that its samples must meet. Exactly one bound is given.

    With `of_baseline`, bounds are multiples of the median of the samples before the first fault.
    """

    name: str  # unique in the experiment; the probe's kind where only one uses it
    kind: str  # the probe's kind, such as training.throughput
    probe: Probe
    bound: Condition
    of_baseline: bool = False
    mode: Mode = Mode.EDGE


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the method. `hold` None: until the final phase (or instant faults: nothing to hold)."""

    name: str  # unique; the fault's kind where only one step uses it
    kind: str  # the fault's kind, such as network.partition
    fault: Fault[Any]
    when: AnyTrigger
    hold: float | None = None


class Rpo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The most work that a recovery may lose."""

    steps: Count | None = None
    samples: Count | None = None
    seconds: Duration | None = None


class Rto(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The longest that a recovery may take, seconds: in total and per term."""

    total: Duration | None = None
    detect: Duration | None = None
    restart: Duration | None = None
    load: Duration | None = None
    warmup: Duration | None = None


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The recovery contract: what the system under test may lose."""

    rpo: Rpo | None = None
    rto: Rto | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Safety of the run itself, not of the system: reaching one ends the run, healed."""

    wall: Duration = 300.0  # the whole run
    ready: Duration = 60.0  # until the target is ready
    baseline: Duration = 60.0  # until the steady state is met before the first fault
    stall: Duration = 30.0  # without any progress of the target (event `step.completed` or `request.completed`)
    settle: Duration = 60.0  # after the last heal, for a target that does not end by itself
    heal: Duration = 10.0  # for one heal
    members_hurt: Count | None = None  # most members hit at one time; refused at plan time where it can be known


class TargetSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a target file declares, as far as the engine cares; the driver decodes the rest from `raw`."""

    name: str
    path: str  # absolute path of target.yaml
    driver: str
    settings: JSON  # defaults with the experiment's and --set's values on top
    slots: tuple[Slot, ...]
    events: Mapping[str, tuple[str, ...]]  # kind -> fields
    points: Mapping[str, tuple[str, ...]]  # failpoint -> fields
    recovery_paths: tuple[str, ...]
    ends: bool  # whether the target ends by itself
    raw: JSON
    sources: tuple[str, ...] = (".",)  # files and folders that the target is made of, relative to its file


# How the job must end: with its work done, or saying that it cannot be done.
Ending = Annotated[Literal["done", "fails"], Meta(description="fails: the job must say that it cannot go on")]


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment, checked; `source` is the file's text for the record."""

    name: str  # the file's stem
    path: str
    title: str
    description: str
    tags: tuple[str, ...]
    target: TargetSpec
    seed: int
    steady: tuple[Hypothesis, ...]
    method: tuple[Step, ...]
    budget: Budget
    invariants: tuple[tuple[str, Invariant], ...]  # (kind, invariant)
    abort: tuple[Hypothesis, ...]
    limits: Limits
    job: Ending = "done"


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One injection of the schedule: a step with every die thrown. `settings` holds the fault's fields."""

    step: str
    kind: str
    settings: JSON
    when: AnyTrigger  # At, OnEvent, OnPoint, OnLog, OnProbe or After: no dice left
    hold: float | None = None


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """The experiment as it will be run: written before the run starts, enough to run it again."""

    experiment: str  # name
    seed: int
    settings: JSON
    actions: tuple[Action, ...]


def fault_of(action: Action, experiment: Experiment) -> Fault[Any]:
    """The fault of a scheduled injection. Raises SpecError where experiment and schedule do not belong together."""
    for step in experiment.method:
        if step.name == action.step and step.kind == action.kind:
            try:
                fault: Fault[Any] = msgspec.convert(action.settings, type(step.fault))
                return fault
            except msgspec.ValidationError as error:
                raise SpecError(f"schedule, step {action.step}: {error}") from error
    raise SpecError(f"the schedule has a step {action.step} ({action.kind}) that the experiment has not")


__all__ = [
    "Action", "Budget", "Duration", "Ending", "Experiment", "Hypothesis", "Limits", "Mode", "Ratio", "Rpo", "Rto",
    "Schedule", "Selector", "Step", "TargetSpec", "fault_of",
]  # fmt: skip
