"""What the gate says: of each path and each waiver, and in all."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Literal

import msgspec

from chaos.errors import Exit
from chaos.gate.catalogue import Waiver
from chaos.paths import Spot
from chaos.result import Spread

# Most specific first: of several that hold, the first is the reason and the others are notes.
Reason = Literal[
    "waiver-expired",  # the reason that it covered is a note
    "edited",  # a journal was changed after it was judged
    "unreadable",  # a source of the target: which paths are in it is not known
    "unkept",  # listed in the target file, and no code declares it
    "gone",  # in the catalogue, and the target has it no more
    "new",  # in the code or in a record of this build, and not in the catalogue
    "undeclared",  # code that handles failures outside any declared path
    "failing",  # the newest run failed
    "flaky",  # more runs than allowed failed
    "inconclusive",  # no verdict, so no proof
    "over-budget",
    "not-exercised",  # the runs never went through the path
    "few",  # fewer runs than asked
    "stale",
    "other-build",
    "experiment-changed",
    "overridden",  # settings were put over the experiment's
    "no-lab",
    "untested",  # no run at all
]


Kind = Literal["path", "handler", "source"]  # what a ruling is about


class State(Enum):
    """Of a path, from good to bad."""

    PROVED = "proved"
    WARNED = "warned"
    WAIVED = "waived"
    BLOCKED = "blocked"


class Finding(msgspec.Struct, frozen=True):
    """Why a path is not proved, in a word and in a line."""

    reason: Reason
    detail: str


class Command(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something to do: an entry to add to or remove from the catalogue, then an experiment to run `repeat` times.

    `run` names the experiment files of which any one would do, the likeliest first; or `every` one is needed.
    """

    add: tuple[str, str] | None = None  # target:path, experiment file
    remove: str = ""
    run: tuple[str, ...] = ()
    every: bool = False
    repeat: int = 1


class Ruling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the gate says of one path, of code without one, or of a source (`kind`).

    `runs` are those that it rests on, newest first; `against` those that count against it. `commands` lead to an open
    gate when each is followed in a shell; `advice` says what no command can do.
    """

    kind: Kind = "path"
    target: str
    name: str
    where: Spot | None
    state: State
    why: Finding | None = None
    notes: tuple[Finding, ...] = ()
    asked: int = 0
    runs: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    figures: Mapping[str, Spread] = {}
    todo: Command | None = None
    commands: tuple[str, ...] = ()
    advice: str = ""
    waiver: Waiver | None = None

    @property
    def title(self) -> str:
        """`trainer:checkpoint.rollback`"""
        return f"{self.target}:{self.name}"


class WaiverUse(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a waiver; `days` are left, the last one counted, or negative."""

    waiver: Waiver
    use: Literal["used", "unused", "expired"]
    days: int
    detail: str = ""


class Verdict(Enum):
    """Of the gate."""

    OPEN = "open"
    BLOCKED = "blocked"
    NO_DATA = "no data"

    @property
    def exit(self) -> Exit:
        """The exit code that says it."""
        return {Verdict.OPEN: Exit.PASS, Verdict.BLOCKED: Exit.FAIL, Verdict.NO_DATA: Exit.INCONCLUSIVE}[self]


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. `rulings` come worst first. `vanished` are paths that the release before had, `appeared` new ones."""

    verdict: Verdict
    headline: str
    rulings: tuple[Ruling, ...] = ()
    waivers: tuple[WaiverUse, ...] = ()
    commands: tuple[str, ...] = ()
    decided: float = 0.0  # Unix time
    builds: Mapping[str, str] = {}  # target -> digest of its sources
    appeared: tuple[str, ...] | None = None
    vanished: tuple[str, ...] | None = None

    @property
    def paths(self) -> tuple[Ruling, ...]:
        """The rulings of recovery paths."""
        return tuple(r for r in self.rulings if r.kind == "path")

    @property
    def proved(self) -> int:
        """How many paths are."""
        return sum(r.state is State.PROVED for r in self.paths)

    @property
    def blocked(self) -> tuple[Ruling, ...]:
        """What keeps the gate shut."""
        return tuple(r for r in self.rulings if r.state is State.BLOCKED)

    @property
    def leaned(self) -> frozenset[str]:
        """Every run that a ruling rests on or that counts against one."""
        return frozenset(run for r in self.rulings for run in (*r.runs, *r.against))
