"""What a run amounts to: the plain data between the judge, the reports and CI."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import msgspec

from chaos.errors import Exit
from chaos.verdict import Outcome, Verdict


class Kind(Enum):
    """What a check is about."""

    RUN = "run"  # the run itself: complete, progress, ended with its job done
    HYPOTHESIS = "hypothesis"
    FAULT = "fault"  # one a step of the method: it landed and was healed
    BUDGET = "budget"  # rpo.steps, rpo.samples, rpo.seconds, rto.total, rto.detect, …
    INVARIANT = "invariant"


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question that was put to the history.

    `name` is unique within its kind: the hypothesis, step, invariant or budget as the experiment's file calls it;
    `id` the catalogue's number where there is one (T9). `measured` is plain data behind the verdict; numbers with a
    bound use the keys `value`, `limit` and `unit` (`s`, `steps`, `samples`).
    """

    name: str
    kind: Kind
    verdict: Verdict
    id: str = ""
    measured: Mapping[str, Any] = {}


class Need(Enum):
    """Why the group was formed again, or that it was not."""

    FAILURE = "failure"  # after a fault that landed
    PLANNED = "planned"  # growth back, without any failure
    UNPROVOKED = "unprovoked"  # the target declared a failure that no fault explains
    NONE = "none"  # the fault landed and work simply went on


class Recovery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One episode, measured from the history; None where the history does not tell (or it never came to that).

    The terms share their borders, so `total = detect + restart + load + warmup` where all are known.
    """

    need: Need
    faults: tuple[str, ...] = ()  # steps of the method that landed in it, in order
    members: tuple[str, ...] = ()  # those that the faults hit
    began: float = 0.0  # `t` of its first border: first fault landed (planned, unprovoked: re-formation declared)
    complete: bool = False  # whether it reached its last border before the history ended
    serving: bool = False  # what clients saw of a service: only `detect` and `total`, no group, no steps
    epoch: int | None = None  # of the group that went on
    world: tuple[int | None, int | None] = (None, None)  # ranks before and after
    formations: int = 0  # how many times a group was formed until work went on
    # RTO, seconds
    detect: float | None = None
    restart: float | None = None
    load: float | None = None
    warmup: float | None = None
    total: float | None = None
    resume: float | None = None  # fault → first step completed by the new group
    catch_up: float | None = None  # fault → first step beyond the frontier
    # RPO
    frontier: int | None = None  # last step completed by any rank at the fault
    restored: int | None = None  # step of the state that the new group began with
    generation: int | None = None  # 0: began afresh
    lost_steps: int | None = None
    lost_samples: int | None = None
    lost_seconds: float | None = None  # between the restored cut and the frontier
    lost_member_seconds: float | None = None  # ranks × (lost_seconds + resume): all that did not last
    note: str = ""  # anything a reader must know to take the figures right
    evidence: Mapping[str, int] = {}  # border or figure -> seq of the event that shows it


class Efficiency(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much of the run's time became progress that lasted; None where it cannot be told.

    `ettr` (effective training time ratio) is productive time over wall time from the first group formed to the last
    step. `goodput` is lasting steps per second in that span over the rate of the healthy steps before the first fault.
    """

    wall: float | None = None
    goodput: float | None = None
    ettr: float | None = None
    lasting_steps: int | None = None
    repeated_steps: int | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The judged run. `headline` says in one line why `outcome` is what it is."""

    experiment: str
    outcome: Outcome
    exit: Exit
    headline: str
    checks: tuple[Check, ...]
    title: str = ""
    seed: int | None = None
    seconds: float | None = None  # length of the run
    started: float | None = None  # Unix time
    recoveries: tuple[Recovery, ...] = ()
    efficiency: Efficiency = Efficiency()
    others: float | None = None  # share of the machine's processor time that other work took, from the method on
    undo: tuple[str, ...] = ()  # what a person must undo by hand after a heal that failed

    def of(self, kind: Kind) -> tuple[Check, ...]:
        """The checks of that kind, in the file's order."""
        return tuple(c for c in self.checks if c.kind is kind)

    @property
    def worst(self) -> Recovery | None:
        """The episode to show first: the failure that took longest (an unfinished one before any other)."""
        return worst(r for r in self.recoveries if r.need in (Need.FAILURE, Need.UNPROVOKED))


def worst(recoveries: Iterable[Recovery]) -> Recovery | None:
    """The one that took longest; unfinished counts as longest."""
    return max(recoveries, key=lambda r: float("inf") if r.total is None else r.total, default=None)


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A figure over repeats. `low`/`high`: bootstrap interval of the p95 (95 %), seeded."""

    count: int
    median: float
    p95: float
    maximum: float
    low: float
    high: float


class Series(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """N runs of one experiment. `rate` is the pass rate with its 95 % Wilson interval (value, low, high)."""

    experiment: str
    outcome: Outcome
    exit: Exit
    headline: str
    runs: int
    passes: int
    rate: tuple[float, float, float]
    spreads: Mapping[str, Spread] = {}  # rto.total, rto.detect, …, rpo.steps, rpo.samples, rpo.seconds
    checks: tuple[Check, ...] = ()  # the budgets on p95, judged on the interval's upper bound
