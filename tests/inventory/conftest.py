from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from chaos.cli.paths import inventory_of
from chaos.paths import Inventory

Take = Callable[..., Inventory]


@pytest.fixture
def take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Take:
    """The inventory of a target that is made of the sources given; `listed` are lines of its `recovery-paths`."""
    monkeypatch.chdir(tmp_path)

    def taken(source: str = "", *, listed: str = "[]", **others: str) -> Inventory:
        for name, text in {"main": source, **others}.items():  # `a__b` is a/b.py
            file = tmp_path / f"{name.replace('__', '/')}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(dedent(text))
        (tmp_path / "target.yaml").write_text(f"name: sample\ndriver: process\nrecovery-paths: {listed}\n")
        return inventory_of("target.yaml")

    return taken
