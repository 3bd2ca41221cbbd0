"""The page of public bugs says of each experiment what the proof table says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from ci.proof import Cell, cells

ROOT = Path(__file__).parents[1]
TABLE = tuple(cells())


class Row(NamedTuple):
    """One bug: its promise, the experiments that show it with their defects, and what is seen."""

    bug: str
    promise: str
    experiments: list[str]
    defects: list[str]
    seen: str


def rows() -> list[Row]:
    """As they stand on the page."""
    found = []
    for line in (ROOT / "docs/bugs.md").read_text().splitlines():
        parts = [part.strip() for part in line.strip("|").split("|")]
        if line.startswith("| ") and len(parts) == 4 and parts[0] != "bug":
            defects = re.findall(r"\(`([\w-]+)`\)", parts[2])
            experiments = re.findall(r"(?<!\()`([\w/-]+)`", parts[2])
            found.append(Row(parts[0], parts[1], experiments, defects, parts[3].split(",")[0]))
    return found


def of(experiment: str) -> list[Cell]:
    return [cell for cell in TABLE if cell.experiment == experiment]


@pytest.mark.parametrize("row", rows(), ids=lambda r: r.experiments[0])
def test_each_bug_turns_its_experiment_red_by_its_promise(row: Row) -> None:
    assert all(of(name) for name in row.experiments), f"not in the proof table: {row.experiments}"
    assert row.promise in {cell.expected for cell in of(row.experiments[0])}
    assert set(row.defects) <= {cell.defect for name in row.experiments for cell in of(name)}
    is_red = next(cell.expected for cell in of(row.experiments[0]) if cell.defect is None)
    assert (row.seen == "open") == (is_red is not None)


def test_every_experiment_with_a_framework_is_on_the_page() -> None:
    shown = {name for row in rows() for name in row.experiments if name.startswith("frameworks/")}
    assert shown == {cell.experiment for cell in TABLE if cell.experiment.startswith("frameworks/")}


def test_the_versions_on_the_page_are_those_that_are_installed() -> None:
    pins = set((ROOT / "constraints.txt").read_text().splitlines())
    told = re.findall(
        r"(torch|transformers|accelerate|lightning|torchdata) (\d[\d.]*\d)", (ROOT / "docs/bugs.md").read_text()
    )
    assert len(told) == 5
    assert {f"{name}=={version}" for name, version in told} <= pins
