"""Faults run in virtual time here, on a target without processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from chaos.api import Fault, Selection
from chaos.selection import select
from chaos.testing import FakeTarget


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


def saved(folder: Path, generations: int = 3) -> Path:
    """A folder with that many committed generations of two shards each, as `FakeTarget` declares its layout."""
    for number in range(1, generations + 1):
        generation = folder / f"gen-{number:03}"
        (generation / "shards").mkdir(parents=True)
        for rank in range(2):
            (generation / "shards" / f"rank{rank}").write_bytes(f"shard {rank} of {number}, long enough".encode())
        (generation / "manifest.json").write_text(f'{{"generation": {number}}}')
        (generation / "COMMITTED").write_text("yes")
    (folder / "latest").write_text(f"gen-{generations:03}\n")
    return folder


@pytest.fixture
def target() -> FakeTarget:
    return FakeTarget()


@pytest.fixture
def dcgmi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name on the path, which writes down what it was asked for."""
    program, said = tmp_path / "bin" / "dcgmi", tmp_path / "asked"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {said}\necho "Successfully injected field info."\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return said


Hit = Callable[[Fault[Any], FakeTarget], tuple[Selection, ...]]


@pytest.fixture
def hit() -> Hit:
    """What a fault's selectors mean in a target now."""
    return lambda fault, target: select(fault.selectors(), target.slots, target.members(), target.nodes())
