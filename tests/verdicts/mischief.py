"""Plugins that do what no plugin should; published by an entry point, as those of third parties."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar, Literal

import anyio

from chaos.api import Duration, Fault, Landing, Probe, Scene, Selection, Selector, Signals
from chaos.errors import HealFailed, NotLanded


class _OnEveryone(Fault[Signals], frozen=True, kw_only=True):
    fidelity: ClassVar[str] = "none"

    def selectors(self) -> tuple[Selector, ...]:
        return (Selector(names=("leader", "worker")),)


class Inject(_OnEveryone, frozen=True, kw_only=True):
    """Fail to inject."""

    how: Literal["refuses", "crashes", "process-exits-2", "proves-nothing"]

    @asynccontextmanager
    async def inject(self, target: Signals, *hit: Selection) -> AsyncIterator[Landing]:
        match self.how:
            case "refuses":
                raise NotLanded("it did not take")
            case "crashes":
                raise ZeroDivisionError("a bug in the injector")
            case "process-exits-2":
                await anyio.run_process([sys.executable, "-S", "-c", "raise SystemExit(2)"])
        yield Landing({})


class Heal(_OnEveryone, frozen=True, kw_only=True):
    """Fail to heal, or wait with it until somebody has opened and closed `gate`, a named pipe."""

    how: Literal["fails", "crashes", "waits"]
    gate: str = ""

    @asynccontextmanager
    async def inject(self, target: Signals, *hit: Selection) -> AsyncIterator[Landing]:
        yield Landing({"stands": True})
        match self.how:
            case "fails":
                raise HealFailed("the door is jammed", "open the door by hand")
            case "crashes":
                raise ZeroDivisionError("a bug in the heal")
            case "waits":
                pipe = os.open(self.gate, os.O_RDONLY | os.O_NONBLOCK)
                try:
                    await anyio.wait_readable(pipe)
                finally:
                    os.close(pipe)


class Long(_OnEveryone, frozen=True, kw_only=True):
    """Take long to inject."""

    instant: ClassVar[bool] = True
    takes: Duration

    @asynccontextmanager
    async def inject(self, target: Signals, *hit: Selection) -> AsyncIterator[Landing]:
        await anyio.sleep(self.takes)
        yield Landing({"took": self.takes})


class Sample(Probe, frozen=True, kw_only=True):
    """Give 1; or (from the first fault on, with `then`) something that is no measurement."""

    unit: ClassVar[str] = "ones"
    every: Duration = 0.05
    gives: Literal["one", "nothing", "nan", "true", "too-late", "raises"] = "one"
    then: bool = False

    async def sample(self, scene: Scene) -> float | None:
        if self.then and not scene.recent("fault.landed", math.inf):
            return 1
        match self.gives:
            case "nothing":
                return None
            case "nan":
                return math.nan
            case "true":
                return True
            case "too-late":
                await anyio.sleep_forever()
            case "raises":
                raise ConnectionError("nobody answers")
        return 1
