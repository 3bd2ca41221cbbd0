"""What a judge is asked for in tests: contracts, and one check of the result."""

from __future__ import annotations

from typing import Any

from chaos.experiment import Mode
from chaos.judge import Contract
from chaos.judge.contract import Planned, Promise
from chaos.result import Check, Result
from chaos.trigger import Condition

KILL = Planned(name="process.kill", kind="process.kill")


def promise(mode: Mode = Mode.EDGE, *, of_baseline: bool = False, **bound: Any) -> Promise:
    return Promise(
        name="speed", kind="training.throughput", unit="samples/s", bound=Condition(**bound or {"at_least": 50.0}),
        of_baseline=of_baseline, mode=mode,
    )  # fmt: skip


def contract(*hypotheses: Promise, steps: tuple[Planned, ...] = (KILL,), **more: Any) -> Contract:
    return Contract(experiment="e", title="E", hypotheses=hypotheses, steps=steps, **more)


def check(result: Result, name: str) -> Check:
    return next(c for c in result.checks if c.name == name)
