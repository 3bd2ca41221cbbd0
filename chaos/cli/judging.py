"""From a run's folder to its result and reports: at the end of `run`, and in `judge` and `report` on a later day."""

from __future__ import annotations

import gc
import hashlib
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from chaos.cli.output import columns
from chaos.errors import ChaosError, JournalError
from chaos.history import History
from chaos.journal import read
from chaos.judge import Contract, judge
from chaos.registry import installed
from chaos.result import Kind, Result

T = TypeVar("T")

JOURNAL, CONTRACT, SCHEDULE = "journal.jsonl", "contract.json", "schedule.json"


def judge_folder(folder: Path) -> tuple[Result, History]:
    """Judge what was recorded in `folder`; JournalError where journal or contract cannot be read."""
    with _uncollected():
        history = History(read(folder / JOURNAL))
        contract = _decode(folder / CONTRACT, Contract)
        _same_contract(folder / CONTRACT, history)
        find = installed().invariant
        invariants = [(a.kind, msgspec.convert(a.settings, find(a.kind))) for a in contract.invariants]
        return judge(contract, history, invariants), history


def digest(path: Path) -> str:
    """Of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _same_contract(path: Path, history: History) -> None:
    """A verdict is by what was promised when the run began, not by what was found easier afterwards."""
    begun_with = history[0].get("contract") if len(history) else None
    if begun_with not in (None, digest(path)):
        raise JournalError(f"{path}: not the contract that the run was begun with")


@contextmanager
def _uncollected() -> Iterator[None]:
    """A long history is millions of objects without a cycle; the collector would walk them again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def write_reports(folder: Path, result: Result, history: History, replay: str) -> dict[str, Path]:
    """Write verdict, JUnit and page; where everything of this run is, by what it is."""
    from chaos.report.files import write
    from chaos.report.page import Background

    schedule = _read(folder / SCHEDULE).decode(errors="replace").strip()
    landed = dict.fromkeys(str(event.get("kind")) for event in history.of("fault.landed"))
    notes = {kind: _fidelity(kind) for kind in landed}
    promises = {check.name: _promise(check.name) for check in result.of(Kind.INVARIANT)}
    written = write(folder, result, history, Background(notes, schedule, replay, promises))
    return {
        "report": written.report,
        "junit": written.junit,
        "verdict": written.verdict,
        "journal": folder / JOURNAL,
        "logs": folder / "logs",
    }


def replay_command(history: History) -> str:
    """The command that runs the same schedule again, by what the run recorded; "" where it does not say of which file.

    A secret that was put over a setting is masked in it, as in all that a run writes.
    """
    begun = history.first("run.started")
    if begun is None or not begun.get("file"):
        return ""
    path = nearby(Path(str(begun.get("file"))))
    words = ["chaos", "run", str(path)] + ([] if begun.get("seed") is None else ["--seed", str(begun.get("seed"))])
    overrides = begun.get("overrides")
    for name, value in (overrides if isinstance(overrides, dict) else {}).items():
        words += ["--set", f"{name}={value}"]
    return shlex.join(words + (["--no-lab"] if begun.get("lab") is False else []))


def contract_of(path: Path) -> Contract:
    """What a recorded run was judged by."""
    return _decode(path, Contract)


def show(result: Result, history: History, files: dict[str, Path]) -> None:
    """Print the summary, coloured on a terminal."""
    import os

    from chaos.report.summary import summary

    color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    width = max(72, min(140, columns()))
    sys.stdout.write(
        summary(result, history, files={name: nearby(path) for name, path in files.items()}, width=width, color=color)
    )


def nearby(path: Path) -> Path:
    """The path as a person here would write it: from the current folder where it is below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _fidelity(kind: str) -> str:
    try:
        return installed().fault(kind).fidelity
    except ChaosError:  # a plugin that is not installed on the machine where the report is made
        return ""


def _promise(kind: str) -> str:
    """What an invariant promises: the first sentence or two of what `chaos explain` says."""
    try:
        return (installed().invariant(kind).__doc__ or "").strip().partition("\n\n")[0]
    except ChaosError:
        return ""


def _decode(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(_read(path), type=kind)
    except msgspec.MsgspecError as error:
        raise JournalError(f"{path}: {error}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise JournalError(
            f"{path}: {error.strerror}; a run's folder holds journal.jsonl, contract.json and schedule.json"
        ) from error
