"""One experiment, once: a folder of its own, run, judged, reported, kept. For `chaos run` and for a test suite."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec

from chaos.cli.archiving import keep, tested
from chaos.cli.judging import CONTRACT, digest, judge_folder, replay_command, write_reports
from chaos.errors import Exit, SpecError, TargetError
from chaos.experiment import Experiment, Schedule
from chaos.history import History
from chaos.journal import mask
from chaos.judge import Contract
from chaos.registry import installed
from chaos.report.console import Console
from chaos.result import Result
from chaos.runner import RunResult, run, secrets_of


class Variation(NamedTuple):
    """What the caller put over the experiment's file."""

    overrides: Mapping[str, str] = {}  # settings, as text
    lab: bool = True


class Ran(NamedTuple):
    """A run that is over, judged. `files`: where its reports are, by what they are; none where they could not be."""

    folder: Path
    result: Result
    history: History
    files: Mapping[str, Path]
    how: RunResult


def new_folder(out: Path, name: str) -> Path:
    """A folder of its own for each run, whatever else runs at the same time; `out/latest` points to it at once: if the
    run is killed, nobody takes the reports of the last one for its own. SpecError where there can be none."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = out.resolve() / f"{stamp}-{name}-{os.urandom(3).hex()}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise SpecError(f"--out {out}: {error.strerror}") from error
    draft = folder.parent / f".latest-{folder.name}"
    with suppress(OSError):  # a convenience: where there can be no such link, there is none
        draft.symlink_to(folder.name)
        draft.replace(folder.parent / "latest")
    draft.unlink(missing_ok=True)
    return folder


@contextmanager
def alone(experiment: Experiment, lab: bool) -> Iterator[None]:
    """Without a lab, runs of one target share addresses and would hurt each other: only one at a time."""
    if lab:
        yield
        return
    file = os.open(experiment.target.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TargetError(
                f"{experiment.target.path}: another run without a lab uses this target; wait for it, or run in a lab"
            ) from None
        yield
    finally:
        os.close(file)


def run_in(folder: Path, experiment: Experiment, schedule: Schedule, variation: Variation, console: Console) -> Ran:
    """Run in `folder`, judge the record, write the reports, and keep the evidence in the store beside the folder.

    Blocks; on the main thread INT, TERM, HUP and QUIT heal and end the run. A signal, a heal that failed and a disk
    that was full are in the exit of the result.
    """
    _write_contract(folder / CONTRACT, experiment)
    how = _run(folder, experiment, schedule, variation, console)
    result, history = judge_folder(folder)
    result = msgspec.structs.replace(result, exit=_exit(how, result))
    files: dict[str, Path] = {}
    try:
        files = write_reports(folder, result, history, replay_command(history))
    except OSError as error:  # mostly a full disk; a pass that leaves nothing to show for it is none
        result = msgspec.structs.replace(result, exit=result.exit or Exit.INCONCLUSIVE)
        print(f"chaos: no reports: {error}; `chaos report {folder}` writes them another time", file=sys.stderr)
    keep(folder, result, history)
    return Ran(folder, result, history, files, how)


def _exit(ran: RunResult, result: Result) -> Exit:
    """As judged; but where the disk was full, the record does not hold how the run ended."""
    if ran.heal_failures:
        return Exit.HEAL_FAILED
    if ran.signal is not None:
        return Exit.TERMINATED if ran.signal == signal.SIGTERM else Exit.INTERRUPTED
    return result.exit


def _write_contract(path: Path, experiment: Experiment) -> None:
    """What the run will be judged by, on this day or another; without secrets, as the journal."""
    contract = mask(msgspec.to_builtins(Contract.of(experiment)), secrets_of(experiment))
    path.write_bytes(msgspec.json.format(msgspec.json.encode(contract)) + b"\n")


def _run(folder: Path, experiment: Experiment, schedule: Schedule, variation: Variation, console: Console) -> RunResult:
    driver = installed().driver(experiment.target.driver)()
    about = {"contract": digest(folder / CONTRACT), **tested(experiment, variation.overrides)}

    async def watched() -> RunResult:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(console.ticks)
            try:
                return await run(experiment, schedule, driver, folder, lab=variation.lab, observer=console, about=about)
            finally:
                tasks.cancel_scope.cancel()
        raise AssertionError("unreachable")

    with console:
        return anyio.run(watched)
