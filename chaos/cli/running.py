"""`chaos run`: load → plan → runner → judge → report, for each file and each repeat."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from chaos.cli.asking import overrides
from chaos.cli.judging import judge_folder, nearby, show
from chaos.cli.once import Variation, alone, new_folder, run_in
from chaos.errors import ChaosError, Exit
from chaos.experiment import Experiment, Schedule
from chaos.judge import series
from chaos.load import load_experiment
from chaos.plan import plan, preview
from chaos.report.console import Console, Show
from chaos.result import Result
from chaos.runner import RunResult

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
    variation = Variation(overrides(call), not call.no_lab)
    with alone(experiment, variation.lab):
        folder = new_folder(Path(call.out), experiment.name)
        if not call.quiet:
            print(f"{experiment.title}\n{nearby(folder)}", flush=True)
        loud = Show.QUIET if call.quiet else Show.ALL if call.verbose else Show.NORMAL
        console = Console(experiment.title, wall=experiment.limits.wall, file=sys.stdout, show=loud)
        ran = run_in(folder, experiment, schedule, variation, console)
    show(ran.result, ran.history, dict(ran.files))
    _say_troubles(ran.how, call.verbose)
    return folder, ran.result


def _say_troubles(ran: RunResult, verbose: bool) -> None:
    for failure in ran.heal_failures:
        print(f"chaos: not healed: {failure.step}: {failure.message}; by hand: {failure.undo}", file=sys.stderr)
    for trace in ran.traces if verbose else ():
        print(trace, file=sys.stderr)


def _spread(experiment: Experiment, results: list[Result], folders: list[Path], out: Path) -> Exit:
    from chaos.cli.reporting import write_repeats
    from chaos.report.files import write_junit
    from chaos.report.summary import series_summary

    taken = series(results, experiment.budget)
    path = out.resolve() / f"{folders[0].name}-x{len(folders)}.junit.xml"
    write_junit(path, (judge_folder(folder) for folder in folders))
    summary = series_summary(taken, color=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    print(f"\n{summary}\njunit    {nearby(path)}")
    page = path.with_name(path.name.removesuffix(".junit.xml") + ".html")
    write_repeats(dict(zip(folders, results, strict=True)), experiment.budget, page)
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
