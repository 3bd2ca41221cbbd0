"""The index of cases is complete, and leads to tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from .harness import TESTS
from .rows import FILES, ROWS, SIGNALS, TIME, VERDICT


@cache
def functions(path: Path) -> frozenset[str]:
    tree = ast.walk(ast.parse(path.read_text()))
    return frozenset(node.name for node in tree if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize(("row", "tests"), ROWS, ids=[row for row, _ in ROWS])
def test_a_row_names_tests_that_exist(row: str, tests: list[str]) -> None:
    assert tests
    for test in tests:
        file, name, case = re.fullmatch(r"([^:]+)::(\w+)(?:\[(.+)\])?", test).groups()  # type: ignore[union-attr]
        assert name in functions(TESTS / file)
        assert case is None or f'"{case}"' in (TESTS / file).read_text()


def test_every_row_of_every_table_is_there() -> None:
    assert [len(table) for table in (VERDICT, SIGNALS, TIME, FILES)] == [14, 7, 4, 30]


def test_every_test_of_a_verdict_is_in_the_index() -> None:
    named = {test.partition("[")[0] for _, tests in ROWS for test in tests}
    here = [Path(__file__).with_name(f"test_{table}.py") for table in ("verdict", "signals", "time", "files")]
    found = {f"verdicts/{p.name}::{name}" for p in here for name in functions(p) if name.startswith("test_")}
    extra = {
        "verdicts/test_verdict.py::test_a_run_without_trouble_is_green",
        "verdicts/test_verdict.py::"
        "test_a_target_that_does_not_start_proves_nothing_and_one_that_does_not_end_well_fails",
        "verdicts/test_verdict.py::test_a_verdict_that_nobody_reads_is_the_same",
        "verdicts/test_verdict.py::test_of_several_runs_the_worst_decides",
    }
    assert found - named == extra
