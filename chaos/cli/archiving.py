"""From runs to the results store: each run as it ends, and the folders of runs that came from elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from chaos.archive import NAME, Archive
from chaos.build import build_of
from chaos.cli.judging import JOURNAL, digest, judge_folder
from chaos.errors import ArchiveError, ChaosError, JournalError
from chaos.evidence import Evidence
from chaos.experiment import Experiment
from chaos.history import History
from chaos.journal import LAST, without_secrets
from chaos.result import Result


class Skipped(NamedTuple):
    """A folder that looks like a run and proves nothing."""

    folder: Path
    reason: str


def tested(experiment: Experiment, overrides: Mapping[str, str]) -> dict[str, Any]:
    """What `run.started` says of what is tested: build, experiment file and its digest, overrides."""
    target = Path(experiment.target.path)
    return {
        "build": msgspec.to_builtins(build_of(target, experiment.target.sources)),
        "file": str(Path(experiment.path).resolve()),
        "recipe": digest(Path(experiment.path)),
        "overrides": without_secrets(overrides),
    }


def keep(folder: Path, result: Result, history: History) -> None:
    """Add a run to the store beside its folder. What cannot be kept is said; the verdict does not hang on it."""
    try:
        with Archive(folder.parent / NAME, write=True) as archive:
            archive.add(evidence_of(folder, result, history))
    except ArchiveError as error:
        print(f"chaos: not in the results store: {error}; `chaos gate --runs` finds the folder", file=sys.stderr)


def gather(runs: Path, archive: Archive) -> Iterator[Evidence | Skipped]:
    """Judge and add every run below `runs` that the store does not know yet, one at a time.

    The verdict is always made from the journal: what a `verdict.json` says counts nothing.
    """
    known = archive.known()
    for journal in sorted(runs.glob(f"*/{JOURNAL}")):
        folder = journal.parent
        if folder.is_symlink() or folder.name in known:
            continue
        try:
            result, history = judge_folder(folder.resolve())
            evidence = evidence_of(folder.resolve(), result, history)
        except (ChaosError, ValueError, TypeError, LookupError, AttributeError, msgspec.MsgspecError) as error:
            # What somebody else wrote may be anything; one folder must not keep all others from being judged.
            yield Skipped(folder, str(error) or type(error).__name__)
            continue
        archive.add(evidence)
        yield evidence


def evidence_of(folder: Path, result: Result, history: History) -> Evidence:
    """The evidence of a judged folder; ValueError where its record does not say which build was tested, and by which
    contract it is to be judged. A record that does not end with the digest of itself did not end."""
    if not len(history):
        raise ValueError("the record holds nothing")
    if not history[0].get("contract"):
        raise ValueError("the record does not say by what contract the run was begun")
    ended = history.last(LAST)
    sealed = ended is not None and "digest" in ended.data
    return Evidence.of(str(folder), result, history, digest(folder / JOURNAL) if sealed else "")


def untouched(evidence: Evidence) -> bool:
    """Whether the journal is still the one that was judged; a folder that was removed since leaves its record as it is.

    JournalError where the file is there and cannot be read.
    """
    path = Path(evidence.folder, JOURNAL)
    try:
        return not path.exists() or not evidence.journal or digest(path) == evidence.journal
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror}") from error
