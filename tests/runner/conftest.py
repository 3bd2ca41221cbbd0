"""Runs in virtual time."""

from __future__ import annotations

import asyncio
import selectors
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


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio in virtual time: when nothing is ready, the clock jumps to the next timer."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Jump(self))

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds


class _Jump(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout if timeout is None else 0)
        if not ready and timeout:
            self._loop.jump(timeout)
        return ready


@pytest.fixture(params=["trio", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Both: a run is on asyncio, trio tells mistakes that asyncio forgives."""
    if request.param == "asyncio":
        return "asyncio", {"loop_factory": VirtualLoop}
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
