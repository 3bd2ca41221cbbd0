"""Which paths of a program that was not changed were taken, by the lines that coverage.py saw run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path as File

import msgspec

from chaos.errors import SpecError
from chaos.paths import Inventory, Path

Lines = Mapping[str, frozenset[int]]


def exercised(inventory: Inventory, lines: Lines, base: File) -> dict[str, bool]:
    """By path with `code:`, whether a line of it was run. `base`: the folder that relative files of places count from.

    Data of another machine names files elsewhere: one that ends like the source below its folder is meant.
    """
    found: dict[str, bool] = {}
    root = (base / inventory.file).resolve().parent
    for path in inventory.paths:
        if path.code is not None:
            ran = _of_file((base / path.code.file).resolve(), root, lines)
            found[path.name] = any(path.code.first <= line <= path.code.last for line in ran)
    return found


def told_otherwise(inventory: Inventory) -> tuple[Path, ...]:
    """Paths that the program itself tells: coverage says nothing about them."""
    return tuple(path for path in inventory.paths if path.code is None)


def _of_file(path: File, root: File, lines: Lines) -> frozenset[int]:
    if str(path) in lines:
        return lines[str(path)]
    tail = os.sep + os.path.relpath(path, root)
    alike = [name for name in lines if name.replace("\\", "/").endswith(tail)]
    return lines[alike[0]] if len(alike) == 1 else frozenset()


def read_lines(files: Iterable[File]) -> dict[str, frozenset[int]]:
    """The lines that ran, by absolute file, over all data files: `.coverage` or the output of `coverage json`.

    SpecError where one is neither, or holds no line.
    """
    total: dict[str, set[int]] = {}
    for file in files:
        read = _json(file) if _is_json(file) else _data(file)
        if not read:
            raise SpecError(f"{file}: the coverage data names no file: was anything measured?")
        for name, ran in read.items():
            total.setdefault(name, set()).update(ran)
    return {name: frozenset(ran) for name, ran in total.items()}


def _is_json(file: File) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(1) == b"{"
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror}") from error


class _Measured(msgspec.Struct):
    executed_lines: list[int]


class _Report(msgspec.Struct):
    files: dict[str, _Measured]


def _json(file: File) -> dict[str, list[int]]:
    try:
        report = msgspec.json.decode(file.read_bytes(), type=_Report)
    except msgspec.DecodeError as error:
        raise SpecError(f"{file}: not the output of `coverage json`: {error}") from error
    return {str(File(name).resolve()): each.executed_lines for name, each in report.files.items()}


def _data(file: File) -> dict[str, list[int]]:
    try:
        from coverage import CoverageData
        from coverage.exceptions import CoverageException
    except ImportError as error:
        raise SpecError(f"{file}: reading it needs coverage.py: pip install 'mlchaos[paths]'") from error
    data = CoverageData(basename=str(file))
    try:
        data.read()
        return {str(File(name).resolve()): list(data.lines(name) or ()) for name in data.measured_files()}
    except CoverageException as error:
        raise SpecError(f"{file}: no coverage data: {error}") from error
    finally:
        data.close()
