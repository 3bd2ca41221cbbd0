"""A folder with a target of many paths, a catalogue of them, and a results store of runs that were never run."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from chaos.archive import Archive
from chaos.cli.judging import digest
from chaos.cli.paths import inventory_of
from chaos.errors import Exit
from chaos.evidence import Build, Evidence
from chaos.verdict import Outcome

_PROGRAM = "from chaos.inside import recovery_path\n\n\ndef heal() -> None:\n"


def project(folder: Path, paths: int = 1, repeats: int = 3) -> None:
    """`app` with so many recovery paths, each with an experiment of its own, in a catalogue."""
    names = [f"link.p{n}" for n in range(paths)]
    files = {
        "app/app.py": _PROGRAM + "".join(f'    with recovery_path("{name}"):\n        pass\n' for name in names),
        "app/target.yaml": f"name: app\ndriver: process\nmembers: []\nrecovery-paths: [{', '.join(names)}]\n",
        "ci/recovery_paths.yaml": f"targets: [../app]\npolicy: {{runs: {repeats}}}\npaths:\n  app:\n"
        + "".join(f"    {name}: {{experiments: [../experiments/{name}.yaml]}}\n" for name in names),
    } | {f"experiments/{n}.yaml": f"title: {n}\ntarget: ../app/target.yaml\nmethod: []\n" for n in names}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def evidence(folder: Path, number: int, path: str, ago: float = 3600.0, exit: Exit = Exit.PASS) -> Evidence:
    """A run of the path's experiment, on the build that the target has now."""
    outcome = {Exit.PASS: Outcome.PASS, Exit.FAIL: Outcome.FAIL}.get(exit, Outcome.UNKNOWN)
    return Evidence(
        run=f"run-{number}",
        folder=str(folder / f"runs/run-{number}"),
        experiment=path,
        file=str(folder / f"experiments/{path}.yaml"),
        target="app",
        recipe=digest(folder / f"experiments/{path}.yaml"),
        build=Build(sources=inventory_of(folder / "app").sources),
        started=time.time() - ago,
        outcome=outcome,
        exit=exit,
        headline="a headline",
        paths=(path,),
        figures={"rto.total": 1.0 + number % 7, "rpo.steps": float(number % 11)},
        journal=f"j{number}",
    )


def many(folder: Path, count: int, paths: int) -> Iterable[Evidence]:
    """So many runs, spread over the paths, a minute apart, the last ones newest."""
    models = [evidence(folder, 0, f"link.p{n}") for n in range(paths)]
    now = time.time()
    for n in range(count):
        yield msgspec.structs.replace(
            models[n % paths], run=f"run-{n}", journal=f"j{n}", folder=str(folder / f"runs/run-{n}"),
            started=now - 60.0 * (count - n), figures={"rto.total": 1.0 + n % 7},
        )  # fmt: skip


def store(path: Path, runs: Iterable[Evidence]) -> None:
    """A results store that holds them; in one transaction, as many runs over a year are not."""
    Archive(path, write=True).close()
    rows = [(r.run, r.target, r.experiment, r.started, msgspec.json.encode(r)) for r in runs]
    with sqlite3.connect(path) as file:
        file.executemany("insert into runs values (?, ?, ?, ?, ?)", rows)
    file.close()
