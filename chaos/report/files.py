"""Writes what a run leaves for people and for CI."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from chaos.history import History
from chaos.report import junit, page, record
from chaos.result import Result


class Written(NamedTuple):
    """Where the files are."""

    verdict: Path
    junit: Path
    report: Path


def write(folder: Path, result: Result, history: History, background: page.Background | None = None) -> Written:
    """Write `verdict.json`, `junit.xml` and `report.html` into `folder`, each whole or not at all."""
    paths = Written(folder / "verdict.json", folder / "junit.xml", folder / "report.html")
    put(paths.verdict, record.encode(result))
    put(paths.junit, junit.encode([(result, history)]))
    put(paths.report, page.encode(result, history, background or page.Background()))
    return paths


def write_junit(path: Path, runs: Iterable[tuple[Result, History]]) -> None:
    """One JUnit file for repeats: a suite a run. `runs` may be lazy: one history is held at a time."""
    put(path, junit.encode(runs, numbered=True))


def put(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
