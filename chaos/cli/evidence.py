"""Evidence from several stores and folders of runs, as one; and whether what was judged is still there as it was."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from chaos.archive import NAME, Archive
from chaos.cli.archiving import Skipped, gather, untouched
from chaos.errors import JournalError
from chaos.evidence import Evidence


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """`runs`, oldest first, each once; `conflicting` are those that two stores tell differently; `remarks` are for
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
    remarks += [f"{name}: two stores tell of it differently, so it does not count" for name in sorted(conflicting)]
    runs = tuple(sorted(found.values(), key=lambda run: (run.started, run.run)))
    return Collected(runs=runs, conflicting=frozenset(conflicting), remarks=tuple(remarks))


def touched(run: Evidence) -> bool:
    """Whether the journal is another than the one that was judged; one that cannot be read is no proof either."""
    try:
        return not untouched(run)
    except JournalError:
        return True


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
