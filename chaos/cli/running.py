"""`chaos run`: load → plan → runner → judge → report, for each file and each repeat."""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import msgspec

from chaos.cli.archiving import keep, tested
from chaos.cli.asking import overrides
from chaos.cli.judging import CONTRACT, digest, judge_folder, nearby, replay_command, show, write_reports
from chaos.errors import ChaosError, Exit, SpecError, TargetError
from chaos.experiment import Experiment, Schedule
from chaos.journal import mask
from chaos.judge import Contract, series
from chaos.load import load_experiment
from chaos.plan import plan, preview
from chaos.registry import installed
from chaos.report.console import Console, Show
from chaos.result import Result
from chaos.runner import RunResult, run, secrets_of

# What a caller must hear of first, when several files or repeats end differently.
_GRAVITY = (Exit.PASS, Exit.INCONCLUSIVE, Exit.FAIL, Exit.USAGE, Exit.TERMINATED, Exit.INTERRUPTED, Exit.HEAL_FAILED)


def main(call: argparse.Namespace) -> int:
    """Every file is loaded and planned before the first one runs: a mistake in the last costs no run of the first."""
    chosen = overrides(call)
    loaded = [load_experiment(path, overrides=chosen, seed=call.seed) for path in call.files]
    planned = [(experiment, plan(experiment)) for experiment in loaded]
    if call.plan:
        for experiment, schedule in planned:
            _preview(experiment, schedule)
        return Exit.PASS
    codes: list[Exit] = []
    for experiment, schedule in planned:
        try:
            codes.append(_repeat(experiment, schedule, call))
        except ChaosError as error:  # what the others said, or will say, must not be lost over it
            print(f"chaos: {error}", file=sys.stderr)
            codes.append(error.exit)
        if codes[-1] in (Exit.INTERRUPTED, Exit.TERMINATED, Exit.HEAL_FAILED):
            break
    return max(codes, key=_GRAVITY.index)


def _repeat(experiment: Experiment, schedule: Schedule, call: argparse.Namespace) -> Exit:
    results: list[Result] = []
    folders: list[Path] = []
    for _ in range(call.repeat):
        folder, result = _once(experiment, schedule, call)
        folders.append(folder)
        results.append(result)
        if result.exit in (Exit.INTERRUPTED, Exit.TERMINATED, Exit.HEAL_FAILED):
            break
    if call.repeat == 1:
        return results[0].exit
    return _spread(experiment, results, folders, Path(call.out))


def _once(experiment: Experiment, schedule: Schedule, call: argparse.Namespace) -> tuple[Path, Result]:
    with _alone(experiment, lab=not call.no_lab):
        folder = _new_folder(Path(call.out), experiment.name)
        _point_latest(folder)  # before the run: if it is killed, nobody takes the reports of the last one for its own
        _write_contract(folder / CONTRACT, experiment)
        if not call.quiet:
            print(f"{experiment.title}\n{nearby(folder)}", flush=True)
        ran = _run(experiment, schedule, folder, call)
    result, history = judge_folder(folder)
    result = msgspec.structs.replace(result, exit=_exit(ran, result))
    files: dict[str, Path] = {}
    try:
        files = write_reports(folder, result, history, _replay(experiment, schedule, call))
    except OSError as error:  # mostly a full disk; a pass that leaves nothing to show for it is none
        result = msgspec.structs.replace(result, exit=result.exit or Exit.INCONCLUSIVE)
        print(f"chaos: no reports: {error}; `chaos report {folder}` writes them another time", file=sys.stderr)
    keep(folder, result, history)
    show(result, history, files)
    _say_troubles(ran, call.verbose)
    return folder, result


def _exit(ran: RunResult, result: Result) -> Exit:
    """As judged; but where the disk was full, the record does not hold how the run ended."""
    if ran.heal_failures:
        return Exit.HEAL_FAILED
    if ran.signal is not None:
        return Exit.TERMINATED if ran.signal == signal.SIGTERM else Exit.INTERRUPTED
    return result.exit


def _replay(experiment: Experiment, schedule: Schedule, call: argparse.Namespace) -> str:
    return replay_command(experiment.path, schedule, overrides(call), not call.no_lab)


def _write_contract(path: Path, experiment: Experiment) -> None:
    """What the run will be judged by, on this day or another; without secrets, as the journal."""
    contract = mask(msgspec.to_builtins(Contract.of(experiment)), secrets_of(experiment))
    path.write_bytes(msgspec.json.format(msgspec.json.encode(contract)) + b"\n")


def _run(experiment: Experiment, schedule: Schedule, folder: Path, call: argparse.Namespace) -> RunResult:
    driver = installed().driver(experiment.target.driver)()
    loud = Show.QUIET if call.quiet else Show.ALL if call.verbose else Show.NORMAL
    about = {"contract": digest(folder / CONTRACT), **tested(experiment, overrides(call))}
    with Console(experiment.title, wall=experiment.limits.wall, file=sys.stdout, show=loud) as console:

        async def watched() -> RunResult:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(console.ticks)
                try:
                    return await run(
                        experiment, schedule, driver, folder, lab=not call.no_lab, observer=console, about=about
                    )
                finally:
                    tasks.cancel_scope.cancel()
            raise AssertionError("unreachable")

        return anyio.run(watched)


def _say_troubles(ran: RunResult, verbose: bool) -> None:
    for failure in ran.heal_failures:
        print(f"chaos: not healed: {failure.step}: {failure.message}; by hand: {failure.undo}", file=sys.stderr)
    for trace in ran.traces if verbose else ():
        print(trace, file=sys.stderr)


def _new_folder(out: Path, name: str) -> Path:
    """A folder of its own for each run, whatever else runs at the same time."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = out.resolve() / f"{stamp}-{name}-{os.urandom(3).hex()}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise SpecError(f"--out {out}: {error.strerror}") from error
    return folder


def _point_latest(folder: Path) -> None:
    """A convenience: where there can be no such link, there is none."""
    draft = folder.parent / f".latest-{folder.name}"
    with suppress(OSError):
        draft.symlink_to(folder.name)
        draft.replace(folder.parent / "latest")
    draft.unlink(missing_ok=True)


@contextmanager
def _alone(experiment: Experiment, lab: bool) -> Iterator[None]:
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


def _spread(experiment: Experiment, results: list[Result], folders: list[Path], out: Path) -> Exit:
    from chaos.report.files import write_junit
    from chaos.report.summary import series_summary

    taken = series(results, experiment.budget)
    path = out.resolve() / f"{folders[0].name}-x{len(folders)}.junit.xml"
    write_junit(path, (judge_folder(folder) for folder in folders))
    summary = series_summary(taken, color=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    print(f"\n{summary}\njunit    {nearby(path)}")
    return taken.exit


def _preview(experiment: Experiment, schedule: Schedule) -> None:
    limits = experiment.limits
    print(f"{experiment.title}\nplan only: nothing is run, nothing is proved (seed {schedule.seed})")
    for row in preview(schedule, experiment):
        whom = " | ".join(", ".join(side) for side in row.sides) or ", ".join(row.members or row.nodes)
        print(f"  {row.step}: {row.kind} {row.when}; hold {row.hold}; hits {whom or 'files'}")
    if not schedule.actions:
        print("  no fault (a control run)")
    hurt = "no limit" if limits.members_hurt is None else str(limits.members_hurt)
    print(f"  limits: wall {limits.wall:g}s, stall {limits.stall:g}s, members hurt at one time: {hurt}")
