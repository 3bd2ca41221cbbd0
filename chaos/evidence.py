"""What one run proves, as plain data: between a run's folder, the results store, the gate, trends and the index."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Self

import msgspec

from chaos.errors import Exit
from chaos.history import History
from chaos.result import Need, Result
from chaos.verdict import Outcome

# Figures of a recovery that are kept: the worst of a run, by the names that budgets use.
TERMS = ("detect", "restart", "load", "warmup", "total")
LOSSES = {"steps": "lost_steps", "samples": "lost_samples", "seconds": "lost_seconds"}


class Build(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What exactly was tested. `sources` is a digest over the target's files, its target file with the default settings
    among them; `commit` is the repository's, "" where there is none, and `dirty` whether files differed from it."""

    sources: str
    commit: str = ""
    dirty: bool = False


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One judged run. Times are Unix seconds.

    `recipe` is a digest of the experiment file: a run of an experiment that was changed since proves nothing of the new
    one. `overrides` are the settings that the command line put over the file's: with any, the run is of another system
    than the file says; another seed throws other dice in the same experiment. `journal` is the digest of the whole
    journal file, "" where it did not end.
    """

    run: str  # the name of its folder: unique
    folder: str  # absolute
    experiment: str  # name: the file's stem
    file: str  # absolute path of the experiment file
    target: str  # name
    recipe: str
    build: Build
    started: float
    outcome: Outcome
    exit: Exit
    headline: str
    title: str = ""
    seconds: float = 0.0  # length of the run
    seed: int = 0
    overrides: Mapping[str, str] = {}
    paths: tuple[str, ...] = ()  # recovery paths that were exercised to their end, after a fault, in order of name
    entered: tuple[str, ...] = ()  # that were entered and not left well in any visit
    figures: Mapping[str, float] = {}  # the worst of the run: rto.total, rto.detect, …, rpo.steps, …; goodput, ettr
    journal: str = ""
    version: str = ""  # of chaos
    lab: bool = True

    @property
    def conclusive(self) -> bool:
        """Whether it passed or failed: not inconclusive, interrupted, or with a heal that failed."""
        return self.exit in (Exit.PASS, Exit.FAIL)

    @classmethod
    def of(cls, folder: str, result: Result, history: History, journal: str) -> Self:
        """The evidence of a judged run; ValueError where its record does not say what was tested (an older version)."""
        begun = history.first("run.started")
        if begun is None or "build" not in begun.data:
            raise ValueError("the record does not say which build was tested")
        done, entered = _paths(history, "path.exercised"), _paths(history, "path.entered")
        return cls(
            run=folder.rstrip("/").rpartition("/")[2],
            folder=folder,
            experiment=result.experiment,
            file=str(begun.get("file", "")),
            target=str(begun.get("target", "")),
            recipe=str(begun.get("recipe", "")),
            build=msgspec.convert(begun.get("build"), Build),
            started=result.started or begun.wall,
            outcome=result.outcome,
            exit=result.exit,
            headline=result.headline,
            title=result.title,
            seconds=result.seconds or 0.0,
            seed=result.seed or 0,
            overrides={str(k): str(v) for k, v in dict(begun.get("overrides", {})).items()},
            paths=tuple(sorted(done)),
            entered=tuple(sorted(entered - done)),
            figures=figures(result),
            journal=journal,
            version=str(begun.get("version", "")),
            lab=bool(begun.get("lab", True)),
        )


def figures(result: Result) -> dict[str, float]:
    """The worst of each figure over the run's failures, and its efficiency; what is not known is left out.

    A figure that some recovery does not tell is not known of the run: the worst of the others would flatter it.
    """
    failures = [r for r in result.recoveries if r.need in (Need.FAILURE, Need.UNPROVOKED)]
    asked = {f"rto.{term}": term for term in TERMS} | {f"rpo.{unit}": field for unit, field in LOSSES.items()}
    found: dict[str, float] = {}
    for name, field in asked.items():
        values = [_finite(getattr(recovery, field)) for recovery in failures]
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            found[name] = max(known)
    for name in ("goodput", "ettr"):
        if (share := getattr(result.efficiency, name)) is not None:
            found[name] = share
    return found


def _finite(value: float | None) -> float | None:
    """A figure as a number that can be kept; a target may count to anything."""
    try:
        return float(value) if value is not None and isfinite(value) else None
    except OverflowError:
        return None


def _paths(history: History, kind: str) -> set[str]:
    """What was taken because something had failed: after the first fault began, and before the target's own end.

    A branch that every start or every stop goes through has proved nothing of a failure. Of an experiment without a
    fault, whose load or settings are the trouble, it is what came after the start.
    """
    faults = history.first("fault.armed") is not None
    since = history.first("fault.injecting" if faults else "method.started")
    if since is None:
        return set()
    until = history.first("target.finished") or history.first("target.stopping")
    end = until.seq if until is not None else float("inf")
    return {str(event.get("name")) for event in history.of(kind) if since.seq < event.seq < end}
