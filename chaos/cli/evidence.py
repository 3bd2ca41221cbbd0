"""Evidence from several stores and folders of runs, as one; and whether what was judged is still there as it was."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from chaos.archive import NAME, Archive
from chaos.cli.archiving import Skipped, evidence_of, gather, untouched
from chaos.cli.judging import JOURNAL, judge_folder
from chaos.errors import ChaosError, Exit, JournalError
from chaos.evidence import Evidence


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """`runs`, oldest first, each once; `conflicting` are those that are told of in two ways; `remarks` are for
    people."""

    runs: tuple[Evidence, ...] = ()
    conflicting: frozenset[str] = frozenset()
    remarks: tuple[str, ...] = ()


def collect(stores: Sequence[Path], folders: Sequence[Path]) -> Collected:
    """All runs of the stores, and those of the folders: what their own store does not know is judged and added.

    A store that is not there holds no runs, which is said; ArchiveError where one cannot be read.
    """
    found: dict[str, Evidence] = {}
    conflicting: set[str] = set()
    remarks: list[str] = []
    for folder in folders:
        if not folder.is_dir():
            remarks.append(f"{folder}: no such folder of runs")
            continue
        with Archive(folder / NAME, write=True) as archive:
            remarks += _judged(folder, archive)
    for path in dict.fromkeys((*stores, *(folder / NAME for folder in folders))):
        if not path.exists():
            remarks += [] if path.parent in folders else [f"{path}: no results store yet; `chaos run` keeps one"]
            continue
        with Archive(path) as archive:
            for run in archive.runs():
                if _told(found.setdefault(run.run, run)) != _told(run):
                    conflicting.add(run.run)
    runs = sorted(found.values(), key=lambda run: (run.started, run.run))
    copies = _copies(runs, conflicting)
    remarks += [f"{name}: the record of {first}, copied: it counts once" for name, first in copies.items()]
    remarks += [f"{name}: it is told of in two ways, so it does not count" for name in sorted(conflicting)]
    runs = [run for run in runs if run.run not in copies]
    return Collected(runs=tuple(runs), conflicting=frozenset(conflicting), remarks=tuple(remarks))


def _copies(runs: Sequence[Evidence], conflicting: set[str]) -> dict[str, str]:
    """Runs whose journal is, to the byte, that of another one, by whose it is; where the two are told of differently,
    both are conflicting and neither is left out."""
    first: dict[str, Evidence] = {}
    copies: dict[str, str] = {}
    for run in runs:
        other = first.setdefault(run.journal, run) if run.journal else run
        if other is run:
            continue
        if msgspec.structs.replace(_told(run), run=other.run) == _told(other):
            copies[run.run] = other.run
        else:
            conflicting |= {run.run, other.run}
    return copies


def touched(run: Evidence) -> bool:
    """Whether the journal is another than the one that was judged; one that cannot be read is no proof either."""
    try:
        return not untouched(run)
    except JournalError:
        return True


def contradicted(run: Evidence) -> bool:
    """Whether the journal, judged again, says something else than the store; never of a folder that is gone.

    A row of a store can be changed by anybody who can write to it, and its journal need not know. How a run that could
    not write its record ended is only known to the store, so that another exit code is no contradiction but of a pass.
    """
    folder = Path(run.folder)
    if not (folder / JOURNAL).exists():
        return False
    try:
        again = evidence_of(folder, *judge_folder(folder))
    except (ChaosError, ValueError, msgspec.MsgspecError):
        return True
    return _proof(again) != _proof(run) or (not run.exit and bool(again.exit))


def _proof(run: Evidence) -> Evidence:
    """What a gate looks at, of what a journal alone can say."""
    return msgspec.structs.replace(
        _told(run), run="", exit=Exit.PASS, headline="", title="", version="", entered=(), started=round(run.started),
        seconds=0.0, figures={name: round(value, 6) for name, value in run.figures.items()},
    )  # fmt: skip


def _told(run: Evidence) -> Evidence:
    """What a run proves, wherever its folder lies."""
    return msgspec.structs.replace(run, folder="", file="")


def _judged(folder: Path, archive: Archive) -> list[str]:
    """Judge what the store does not know, with a line that counts on a terminal; what was set aside, and why."""
    skipped, terminal = [], sys.stderr.isatty()
    for count, one in enumerate(gather(folder, archive), 1):
        if isinstance(one, Skipped):
            skipped.append(f"{one.folder}: set aside: {one.reason}")
        if terminal:
            print(f"\rjudging the runs of {folder}: {count}", end="", file=sys.stderr, flush=True)
    if terminal and archive.known():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return skipped
