"""What is hidden behind words is a finding, never left out."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from chaos.cli.paths import inventory_of

from .conftest import Take


@pytest.mark.parametrize(
    "source",
    [
        "from chaos import inside\ngetattr(inside, 'recovery_path')('a.b')",
        "import chaos.inside\nvars(chaos.inside)['recovers']('a.b')",
        "import importlib\nimportlib.import_module('chaos.inside').recovery_path('a.b')",
        "__import__('chaos.inside').inside.recovery_path('a.b')",
        "import chaos.inside\neval(\"chaos.inside.recovery_path('a.b')\")",
        "class Vault:\n    from chaos import inside\n    enter = inside.recovery_path\nwith Vault.enter('a.b'): pass",
        "from chaos.inside import emit\nkind = 'path.exercised'\nemit(kind, name='a.b')",
        'print(\'{"kind": "path.exercised", "name": "%s"}\' % name)',
        "from chaos.inside import recovery_path\nnames = []\nnames.append(f())\nfor n in names:\n    recovery_path(n)",
        "from chaos.inside import recovery_path\nn = ['a.b']\nn += f()\nfor x in n:\n    recovery_path(x)",
        "from chaos.inside import recovery_path\nT = {}\nT.update(x=f())\nrecovery_path(T['x'])",
    ],
)
def test_a_hidden_path_is_a_problem_with_its_line(take: Take, source: str) -> None:
    (problem, *_) = take(source).problems
    assert problem.startswith("main.py:")


@pytest.mark.parametrize(
    "source",
    [
        'print(\'{"kind": "path.exercised", "name": "a.b"}\')',
        "import json\nprint(json.dumps({'kind': 'path.exercised', 'name': 'a.b'}))",
        "NAME = 'a.b'\nfact = {'kind': 'path.entered', 'name': NAME}",
    ],
)
def test_a_fact_that_is_printed_declares_its_path(take: Take, source: str) -> None:
    inventory = take(source)
    assert ([path.name for path in inventory.paths], inventory.problems) == (["a.b"], ())


@pytest.mark.parametrize(
    "source",
    [
        '"""Says `path.exercised` through recovery_path."""',
        "def f():\n    'recovery_path'",
        "__all__ = ['recovery_path']",
        "if kind == 'path.exercised': pass",
        "log('recovery_path was not taken')",
    ],
)
def test_words_about_it_are_none(take: Take, source: str) -> None:
    inventory = take(source)
    assert (inventory.paths, inventory.problems) == ((), ())


def test_a_script_without_a_suffix_is_read(take: Take, tmp_path: Path) -> None:
    take()
    text = "from chaos.inside import recovery_path\nwith recovery_path('a.b'): pass\n"
    (tmp_path / "worker").write_text(f"#!/usr/bin/env python3\n{text}")
    (tmp_path / "notes").write_text(text)
    (tmp_path / "window.pyw").write_text(text.replace("a.b", "a.c"))
    assert [str(path.where) for path in inventory_of("target.yaml").paths] == ["worker:3", "window.pyw:2"]


@pytest.mark.parametrize("name", ["''", "' '", "'a\\nb'", "'a\\x1b[31m'", "'\\ud800'"])
def test_a_name_that_nobody_could_write_elsewhere_is_a_problem(take: Take, name: str) -> None:
    inventory = take(f"from chaos.inside import recovery_path\nwith recovery_path({name}): pass")
    assert inventory.paths == ()
    (problem,) = inventory.problems
    assert problem.startswith("main.py:2: a recovery path is called")
    assert problem.isprintable()


def test_a_file_may_be_called_by_any_bytes(take: Take, tmp_path: Path) -> None:
    text = "from chaos.inside import recovery_path\nwith recovery_path('a.b'): pass\n"
    take()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.py")).write_text(text)
    inventory = inventory_of("target.yaml")
    assert [str(path.where) for path in inventory.paths] == ["\\xff.py:2"]
    msgspec.json.encode(inventory)
