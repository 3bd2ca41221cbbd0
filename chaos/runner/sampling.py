"""Probes at a fixed rate, and what follows from their samples: the gate before the method, and the abort."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import anyio

from chaos.api import Target
from chaos.experiment import Hypothesis, Mode
from chaos.history import Event
from chaos.runner.border import Border
from chaos.runner.ending import Ending
from chaos.runner.recorder import Recorder
from chaos.trigger import Condition

STREAK = 3  # samples in a row that meet a bound before a fault may be armed


class RunScene:
    """What a probe may look at: see `chaos.api.Scene`."""

    def __init__(self, target: Target, recorder: Recorder) -> None:
        self._target = target
        self.now = recorder.now
        self.recent = recorder.recent

    @property
    def target(self) -> Target:
        return self._target


async def sample(hypothesis: Hypothesis, scene: RunScene, recorder: Recorder) -> None:
    """Sample for ever on an absolute schedule: however long a probe takes, the next tick stays where it was.

    A probe that is not back by its next tick is given up for this one: a late sample without a value.
    """
    source, every = f"probe:{hypothesis.name}", hypothesis.probe.every
    start, tick = anyio.current_time(), 0
    while True:
        await anyio.sleep_until(start + tick * every)
        value: Any = None
        with anyio.CancelScope(deadline=start + (tick + 1) * every) as period, Border() as border:
            value = await hypothesis.probe.sample(scene)
        recorder.record(source, "probe.sampled", _sample(value, border.error, late=period.cancelled_caught))
        tick = max(tick + 1, math.ceil((anyio.current_time() - start) / every - 1e-6))


def _sample(value: Any, error: Exception | None, *, late: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"value": None}
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if error is not None:
        data["error"] = f"{type(error).__name__}: {error}"
    elif number and math.isfinite(value):
        data["value"] = round(value, 6) if isinstance(value, float) and abs(value) > 1e-3 else value
    elif value is not None:
        data["error"] = f"not a finite number: {value!r}"
    if late:
        data["late"] = True
    return data


class Gate:
    """Opens when every hypothesis that must hold before a fault has held for some samples in a row.

    A bound that is relative to the baseline asks only for data: there is no baseline yet.
    """

    def __init__(self, hypotheses: Sequence[Hypothesis], recorder: Recorder) -> None:
        before = (Mode.BEFORE, Mode.EDGE, Mode.CONTINUOUS)
        self._asked = {f"probe:{h.name}": h for h in hypotheses if h.mode in before or h.of_baseline}
        self._values: dict[str, list[float]] = {source: [] for source in self._asked}
        self._last: dict[str, Event] = {}
        self.opened = anyio.Event()
        recorder.listen(["probe.sampled"], self._sampled)
        self._look()

    def values(self) -> dict[str, Any]:
        """The samples that opened it, by hypothesis."""
        return {h.name: self._values[source][-STREAK:] for source, h in self._asked.items()}

    def why_closed(self) -> dict[str, Any]:
        """What is not met, by hypothesis."""
        return {h.name: self._why(source) for source, h in self._asked.items() if len(self._values[source]) < STREAK}

    def _why(self, source: str) -> str:
        last = self._last.get(source)
        if last is None:
            return "never sampled"
        if last.get("value") is None:
            return last.get("error") or ("late" if last.get("late") else "no data")
        return f"last value {last.get('value')}, {len(self._values[source])} of {STREAK} in a row met the bound"

    def _sampled(self, event: Event) -> None:
        hypothesis = self._asked.get(event.source)
        if hypothesis is None or self.opened.is_set():
            return
        self._last[event.source] = event
        value, streak = event.get("value"), self._values[event.source]
        data = value is not None and not event.get("late")
        if data and (hypothesis.of_baseline or hypothesis.bound.holds(value)):
            streak.append(value)
        else:
            streak.clear()
        self._look()

    def _look(self) -> None:
        if all(len(values) >= STREAK for values in self._values.values()):
            self.opened.set()


class Guard:
    """Ends the run at the first sample that leaves a bound of `abort`. A sample without a value is no reason to.

    Until the target is ready nothing is too little yet: only `at-most` counts. A bound that is relative to the baseline
    counts from the start of the method, against the median until then.
    """

    def __init__(self, hypotheses: Sequence[Hypothesis], recorder: Recorder, ending: Ending) -> None:
        self._guards = {f"probe:{h.name}": h for h in hypotheses}
        self._before: dict[str, list[float]] = {source: [] for source, h in self._guards.items() if h.of_baseline}
        self._bounds = {source: h.bound for source, h in self._guards.items() if not h.of_baseline}
        self._ready = False
        self._recorder = recorder
        self._ending = ending
        recorder.listen(["probe.sampled"], self._sampled)
        recorder.listen(["target.ready"], self._target_ready)
        recorder.listen(["method.started"], self._method_started)

    def _target_ready(self, _: Event) -> None:
        self._ready = True

    def _method_started(self, _: Event) -> None:
        for source, values in self._before.items():
            if values:
                from statistics import median  # costs start-up more than all else here

                self._bounds[source] = _times(self._guards[source].bound, median(values))
        self._before.clear()

    def _sampled(self, event: Event) -> None:
        value, bound = event.get("value"), self._bounds.get(event.source)
        if value is None:
            return
        if event.source in self._before:
            self._before[event.source].append(value)
        elif bound is not None and not (bound if self._ready else Condition(at_most=bound.at_most)).holds(value):
            name = self._guards[event.source].name
            if self._ending.ask("abort", f"{name} is {value}"):
                self._recorder.record("harness", "abort.triggered", {"name": name, "value": value})


def _times(bound: Condition, factor: float) -> Condition:
    return Condition(
        at_least=None if bound.at_least is None else bound.at_least * factor,
        at_most=None if bound.at_most is None else bound.at_most * factor,
    )
