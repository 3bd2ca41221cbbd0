"""What is known of days, as plain data: between the store, the day, and the report."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from chaos.errors import Exit
from chaos.gameday.terms import Agenda, Plan


class DayState(Enum):
    """How far a day is; all but `running` are final."""

    RUNNING = "running"
    ENDED = "ended"  # every turn had its chance
    STOPPED = "stopped"  # by a stop condition of the plan
    ABORTED = "aborted"  # by a person, or a signal
    HALTED = "halted"  # a heal failed: no further day begins until somebody says `resume`
    REFUSED = "refused"  # it did not begin: a target is in use, or nobody approved


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """What a budget allows and what was measured."""

    name: str  # rto.total
    outcome: str
    value: float | None = None
    limit: float | None = None
    unit: str = ""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a run that belongs into the day's timeline."""

    at: float  # Unix time
    text: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What an experiment that is over amounts to, from its journal. `complete`: the journal has its end; else the run
    was cut off, and proves nothing. `exit` None: nobody knows, for nothing was recorded."""

    complete: bool
    exit: Exit | None = None
    headline: str = ""
    folder: str = ""  # of the run; empty where it came to none
    seconds: float | None = None
    figures: tuple[Figure, ...] = ()
    unknown: tuple[str, ...] = ()  # checks that could not be judged
    failed: tuple[str, ...] = ()
    moments: tuple[Moment, ...] = ()
    undo: tuple[str, ...] = ()  # by hand


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One start of an experiment. `begun`: a process was started for it, known by pid and the moment of its birth."""

    number: int  # of the turn
    attempt: int  # from 1
    folder: str  # its `--out`, nobody else's
    intended: float
    pid: int | None = None
    born: str = ""
    begun: float | None = None
    ended: float | None = None
    finding: Finding | None = None
    orphaned: bool = False  # it ended while no game day was watching, or one that did not start it

    @property
    def interrupted(self) -> bool:
        """Whether it was cut off."""
        return self.finding is not None and not self.finding.complete

    @property
    def passed(self) -> bool:
        """Whether it proved that all held."""
        return self.finding is not None and self.finding.complete and self.finding.exit == Exit.PASS


class Skip(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that was not run, and why."""

    number: int
    why: str
    at: float


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """An approval that was asked for; `answer` is empty while it is open, else approved, rejected or expired."""

    name: str
    asked: float
    until: float
    answer: str = ""
    by: str = ""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the timeline. `kind` is noun.verb."""

    at: float
    kind: str
    text: str


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody asked for from another terminal: pause, resume, abort, approve, reject, note."""

    id: int
    at: float
    what: str
    text: str
    by: str

    @property
    def of(self) -> str:
        """Whose it is, and why: ` by ada: smoke`."""
        return (f" by {self.by}" if self.by else "") + (f": {self.text}" if self.text else "")


class DayRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A day as it was planned, and how far it is."""

    id: int
    planned: float
    started: float
    state: DayState
    plan: Plan
    agenda: Agenda
    folder: str  # for the runs and the report
    ended: float | None = None
    why: str = ""


class DayStory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one day; enough for its report."""

    day: DayRecord
    attempts: tuple[Attempt, ...]
    skips: tuple[Skip, ...]
    gates: tuple[Gate, ...]
    lines: tuple[Line, ...]
    before: tuple[Line, ...] = ()  # of the service since the day before: starts that were missed, pauses
    past: Mapping[str, tuple[str, ...]] = {}  # experiment → outcomes of earlier runs of it, oldest first
