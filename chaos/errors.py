"""Every error the harness raises, and the exit code it leads to.

    ChaosError
    ├ SpecError       the file or the call is wrong: place, reason, fix      exit 2
    ├ PluginError     unknown, defined twice, does not load                  exit 2
    ├ JournalError    not a journal, or torn before its end                  exit 2
    ├ ArchiveError    not a results store, or it cannot be read or written   exit 2
    ├ GameDayError    a game day that cannot begin or be reached             exit 2
    ├ TargetError     could not be started or made ready                     exit 3
    └ FaultError
      ├ Unsupported   this machine or this target cannot do it               exit 3
      ├ NotLanded     injected, but nothing proves that it took effect       exit 3
      └ HealFailed    says what to undo by hand; stops the run               exit 4

Errors are for trouble of the harness only. A member that dies, a budget that ends, an invariant that
breaks are data: an event, an event, a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple


class Exit(IntEnum):
    """What the process exits with; `INTERRUPTED` and `TERMINATED` follow the shell's 128 + signal."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    INCONCLUSIVE = 3
    HEAL_FAILED = 4
    INTERRUPTED = 130
    TERMINATED = 143


class ChaosError(Exception):
    """Root of all errors of the harness. `fix` is what to do, where that can be told apart from the reason."""

    exit = Exit.INCONCLUSIVE

    def __init__(self, reason: str = "", fix: str = "") -> None:
        super().__init__(f"{reason}; {fix}" if fix else reason)
        self.reason, self.fix = reason, fix


class Problem(NamedTuple):
    """One mistake in a file: where it stands, what is wrong, how to mend it."""

    path: str
    line: int  # 1-based; 0 where the whole file is meant
    column: int  # 1-based; 0 where the whole file is meant
    reason: str
    fix: str = ""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}:{self.column}" if self.line else self.path
        return f"{place}: {self.reason}" + (f" ({self.fix})" if self.fix else "")


class SpecError(ChaosError):
    """The experiment, a target file or the command line is wrong. Carries every mistake found, in file order."""

    exit = Exit.USAGE

    def __init__(self, problems: Sequence[Problem] | str) -> None:
        self.problems = (Problem("", 0, 0, problems),) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(str(p).removeprefix(": ") for p in self.problems))


class PluginError(ChaosError):
    """A fault, probe, invariant or driver is unknown, defined twice, or does not load."""

    exit = Exit.USAGE


class JournalError(ChaosError):
    """A file is no journal, or is damaged before its last line."""

    exit = Exit.USAGE


class ArchiveError(ChaosError):
    """A file is no results store, or cannot be read or written."""

    exit = Exit.USAGE


class GameDayError(ChaosError):
    """A game day cannot begin or be reached, or its state cannot be read or written."""

    exit = Exit.USAGE


class TargetError(ChaosError):
    """The system under test could not be started or did not become ready."""


class FaultError(ChaosError):
    """A fault did not do what it says."""


class Unsupported(FaultError):
    """This machine or this target cannot carry the fault; says why and what to do."""


class NotLanded(FaultError):
    """The injection returned, but nothing proves that it took effect: no proof, no green."""


class HealFailed(FaultError):
    """A heal did not take. `undo` says in one line what a person must do."""

    exit = Exit.HEAL_FAILED

    def __init__(self, message: str, undo: str) -> None:
        super().__init__(message)
        self.undo = undo
