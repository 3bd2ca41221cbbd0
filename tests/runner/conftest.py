"""Runs in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from chaos.experiment import Experiment
from chaos.history import History
from chaos.journal import read
from chaos.plan import plan
from chaos.runner import RunResult, run

from .fakes import LOG, FakeDriver, Play, Script


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


@pytest.fixture(autouse=True)
def _empty_log() -> None:
    LOG.clear()


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Run an experiment against the fake target: its result and its history."""

    async def playing(it: Experiment, script: Script | None = None, **driver: Any) -> tuple[RunResult, History]:
        more = {k: driver.pop(k) for k in ("observer", "signals") if k in driver}
        more.setdefault("signals", False)
        result = await run(it, plan(it), FakeDriver(script=script, **driver), tmp_path, **more)
        return result, History(read(result.journal))

    return playing
