"""From the folder of an attempt to what it amounts to: always by its journal, whoever was there when it ended."""

from __future__ import annotations

import fcntl
from pathlib import Path

from chaos.archive import NAME, Archive
from chaos.cli.archiving import evidence_of
from chaos.cli.judging import CONTRACT, judge_folder, write_reports
from chaos.errors import ArchiveError, ChaosError, Exit
from chaos.gameday.children import SAID
from chaos.gameday.records import Figure, Finding, Moment
from chaos.guardian import NAME as DEBTS
from chaos.guardian import Ledger, settle
from chaos.history import History
from chaos.report.lines import describe
from chaos.result import Kind, Result
from chaos.verdict import Outcome

_KINDS = ("fault.landed", "fault.healed", "fault.failed", "run.interrupted")
_MOST = 40  # moments of one run in the day's timeline


def examine(folder: Path, code: int | None, out: Path) -> Finding:
    """Judge what an experiment left in `folder`, add it to the results store in `out`, write reports that are missing.

    `code` is its exit code where somebody saw it end. A run that was cut off is healed first, where it had changed
    anything outside its lab.
    """
    seen = Exit(code) if code is not None and code in list(Exit) else None
    runs = sorted(path.parent for path in folder.glob(f"*/{CONTRACT}") if not path.parent.is_symlink())
    if not runs:
        return Finding(complete=seen is not None, exit=seen, headline=_last_words(folder))
    run = runs[-1]
    undo = _settled(run)
    try:
        result, history = judge_folder(run)
    except (ChaosError, ValueError) as error:  # killed before its first line
        return Finding(
            complete=seen is not None, exit=Exit.HEAL_FAILED if undo else seen, headline=str(error), folder=str(run),
            undo=undo,
        )  # fmt: skip
    ended = history.last("run.ended") is not None
    if ended:
        _file(run, result, history, out)
    exit_ = seen if seen is not None else result.exit
    return Finding(
        complete=ended or seen is not None,
        exit=Exit.HEAL_FAILED if undo else exit_,
        headline=result.headline,
        folder=str(run),
        seconds=result.seconds,
        figures=tuple(_figures(result)),
        unknown=tuple(check.name for check in result.checks if check.verdict.outcome is Outcome.UNKNOWN),
        failed=tuple(check.name for check in result.checks if check.verdict.outcome is Outcome.FAIL),
        moments=tuple(_moments(history)),
        undo=(*result.undo, *undo),
    )


def _last_words(folder: Path) -> str:
    said = folder / SAID
    lines = said.read_text(errors="replace").strip().splitlines() if said.exists() else []
    return lines[-1] if lines else "it left no record"


def _settled(run: Path) -> tuple[str, ...]:
    """Wait for the run's guardian, undo what it left; what could not be undone."""
    if not (run / DEBTS).exists():
        return ()
    ledger = Ledger(str(run))
    try:
        if not ledger.owed():
            return ()
        fcntl.flock(ledger.file, fcntl.LOCK_EX)
        return tuple(f"{debt['what']}: {reason} (`chaos undo {run}`)" for debt, reason in settle(ledger, "game day"))
    finally:
        ledger.close()


def _file(run: Path, result: Result, history: History, out: Path) -> None:
    """What the run would have done itself, had it lived: its reports; and its place in the day's results store."""
    try:
        if not (run / "report.html").exists():
            write_reports(run, result, history, "")
        with Archive(out / NAME, write=True) as archive:
            archive.add(evidence_of(run, result, history))
    except (ArchiveError, OSError, ValueError):
        pass  # the verdict stands without them; `chaos gate --runs` finds the folder


def _figures(result: Result) -> list[Figure]:
    return [
        Figure(
            name=check.name, outcome=check.verdict.outcome.value, value=_number(check.measured.get("value")),
            limit=_number(check.measured.get("limit")), unit=str(check.measured.get("unit", "")),
        )
        for check in result.of(Kind.BUDGET)
    ]  # fmt: skip


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _moments(history: History) -> list[Moment]:
    events = [event for kind in _KINDS for event in history.of(kind)]
    return [Moment(at=e.wall, text=describe(e)) for e in sorted(events, key=lambda e: e.seq)[:_MOST]]
