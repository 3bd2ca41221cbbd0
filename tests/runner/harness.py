"""A harness process of its own, for tests that kill it: `python -m runner.harness FOLDER [BYTES]`, on asyncio.

Runs a fault that is held for long against a target that emits all the time, prints `inject` and `heal` with the
monotonic clock, and at the end how the run ended. BYTES is how much may be written to one file.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from typing import Any

import anyio

from chaos.api import Selector
from chaos.experiment import Hypothesis
from chaos.plan import plan
from chaos.runner import run
from chaos.trigger import At

from . import fakes


class Loud(list[str]):
    def append(self, line: str) -> None:
        print(line.split()[1] if " " in line else line, time.monotonic(), flush=True)


async def emit(target: fakes.FakeTarget) -> int:
    while True:
        await anyio.sleep(0.002)
        target.emit("step.completed", step=1, rank=0, samples=[1, 2, 3])


async def main(folder: Path, settings: dict[str, Any]) -> None:
    steady: tuple[Hypothesis, ...] = (fakes.steady(every=0.02),)
    it = fakes.experiment(
        fakes.step(when=At(seconds=0.05), hold=None, members=Selector(names=("worker-0",))),
        ends=True,
        steady=steady,
    )
    result = await run(it, plan(it), fakes.FakeDriver(script=emit), folder)
    print(result.reason, result.detail, flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
    fakes.LOG = Loud()
    anyio.run(main, Path(sys.argv[1]), {})
