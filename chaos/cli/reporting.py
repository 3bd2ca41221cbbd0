"""The verb `report`: a run's page again, two runs side by side, repeats of one, and the index of all."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.archive import NAME, Archive
from chaos.cli.archiving import Skipped, gather
from chaos.cli.judging import CONTRACT, JOURNAL, contract_of, judge_folder, nearby, replay_command, show, write_reports
from chaos.errors import ChaosError, Exit, JournalError, SpecError
from chaos.evidence import Evidence
from chaos.paths import Inventory
from chaos.result import Result

REPORT, INDEX = "report.html", "index.html"


def main(call: argparse.Namespace) -> int:
    """Write what was asked for and say where it is."""
    if call.index is not None:
        if call.runs or call.repeats:
            raise SpecError("--index takes the folder of the runs, and no single ones")
        return _index(Path(call.index))
    folders = [folder_of(run) for run in call.runs]
    if call.repeats:
        return _repeats(folders, call.out)
    if len(folders) == 1 and call.out is None:
        return _one(folders[0])
    if len(folders) == 2:
        return _compare(folders[0], folders[1], call.out)
    raise SpecError(
        "give one run for its report, two to compare them, `--repeats` and several of one experiment, or `--index`"
        if len(folders) != 1
        else "--out is for comparisons and repeats: the report of a run stands in its folder"
    )


def folder_of(run: str) -> Path:
    """The folder of a run that is named by it or by its journal."""
    folder = Path(run)
    folder = folder.parent if folder.name == JOURNAL and folder.is_file() else folder
    if not folder.is_dir():
        raise JournalError(f"{run}: no such run; give its folder or its journal.jsonl")
    return folder.resolve()


def _one(folder: Path) -> int:
    result, history = judge_folder(folder)
    files = write_reports(folder, result, history, replay_command(history))
    show(result, history, files)
    return result.exit


def _compare(first: Path, second: Path, out: str | None) -> int:
    from chaos.report.compare import Side, encode

    path = _place(out, second.parent / f"{first.name}-and-{second.name}.html")
    sides = []
    for folder in (first, second):
        result, history = judge_folder(folder)
        sides.append(Side(folder.name, _link(folder, path), result, history))
    _put(path, encode(*sides))
    return Exit.PASS


def _repeats(folders: Sequence[Path], out: str | None) -> int:
    if not folders:
        raise SpecError("--repeats: give the runs")
    results = {folder: judge_folder(folder)[0] for folder in dict.fromkeys(folders)}
    names = sorted({result.experiment for result in results.values()})
    if len(names) > 1:
        raise SpecError(f"--repeats: runs of different experiments: {', '.join(names)}; two of them can be compared")
    budget = contract_of(folders[0] / CONTRACT).budget
    write_repeats(results, budget, _place(out, folders[0].with_name(f"{folders[0].name}-x{len(results)}.html")))
    return Exit.PASS


def write_repeats(results: Mapping[Path, Result], budget: Any, path: Path) -> None:
    """The page of these repeats, by their folders."""
    from chaos.judge import series
    from chaos.report.repeats import Repeat, encode

    runs = [Repeat(folder.name, _link(folder, path), result) for folder, result in results.items()]
    _put(path, encode(runs, series(list(results.values()), budget)))


def _index(folder: Path) -> int:
    from chaos.report.index import encode

    if not folder.is_dir():
        raise SpecError(f"{folder}: no such folder; `--index` takes the one that the runs are in")
    path = folder.resolve() / INDEX
    with Archive(folder / NAME, write=True) as archive:
        for found in gather(folder, archive):
            if isinstance(found, Skipped):
                print(f"left out: {nearby(found.folder)}: {found.reason}")
        runs = archive.runs()
    links = {evidence.run: _link(Path(evidence.folder), path) for evidence in runs}
    links = {run: link for run, link in links.items() if link}
    _put(path, encode(runs, _inventories(runs), now=time.time(), links=links))
    return Exit.PASS


def _inventories(runs: Iterable[Evidence]) -> dict[str, Inventory]:
    """Of each target the inventory as its files are now, found by the experiment that ran last and is still there."""
    from chaos.cli.paths import inventory_of
    from chaos.load import load_experiment

    found: dict[str, Inventory] = {}
    newest = {evidence.target: evidence.file for evidence in runs if Path(evidence.file).is_file()}
    for target, file in newest.items():
        try:
            inventory = inventory_of(load_experiment(Path(file)).target.path)
        except ChaosError as error:
            print(f"{target}: its recovery paths are not known: {error}")
            continue
        found[target] = inventory
    return found


def _link(folder: Path, page: Path) -> str:
    """From a page to the report of a run, "" where it has none."""
    from urllib.parse import quote

    report = folder / REPORT
    return quote(os.path.relpath(report, page.parent)) if report.is_file() else ""


def _place(out: str | None, default: Path) -> Path:
    return default if out is None else Path(out).resolve()


def _put(path: Path, content: bytes) -> None:
    from chaos.report.files import put

    try:
        put(path, content)
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}") from error
    print(f"report   {nearby(path)}")
