"""One run from start to end: open the target, wait for the steady state, carry out the method, heal, end."""

from __future__ import annotations

import os
import platform
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskStatus

import chaos
from chaos.api import Driver, Fault, Launch, Target
from chaos.errors import TargetError
from chaos.experiment import Experiment, Schedule, fault_of
from chaos.history import Event
from chaos.journal import Journal, find_secrets, mask, without_secrets
from chaos.runner.debts import Debts
from chaos.runner.ending import Ending
from chaos.runner.method import HealFailure, Method
from chaos.runner.recorder import Observer, Recorder
from chaos.runner.sampling import Gate, Guard, RunScene, sample
from chaos.runner.triggers import RunStage, Triggers

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
PROGRESS = ("step.completed", "request.completed")
OVERSLEPT = 1.0  # seconds past its time at which the harness itself was stopped (Ctrl-Z), or starved
STACKS_WITHIN = 5.0  # seconds for the members of a hung target to write their stacks


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended. What it means is the judge's to say, from the journal."""

    reason: str  # finished, limit, abort, hung, interrupted or error
    detail: str
    journal: Path
    heal_failures: tuple[HealFailure, ...] = ()
    signal: int | None = None  # the first signal that asked the run to end
    traces: tuple[str, ...] = ()  # tracebacks of plugins that raised what they should not


async def run(
    experiment: Experiment,
    schedule: Schedule,
    driver: Driver,
    folder: Path,
    *,
    lab: bool = True,
    observer: Observer | None = None,
    signals: bool = True,
    about: Mapping[str, Any] | None = None,
) -> RunResult:
    """Run a schedule; writes `schedule.json` and `journal.jsonl` into `folder`, which must exist and hold no journal.

    Returns once everything is healed and the target has ended, whatever happened: a target that does not start, a fault
    that fails, a limit, an abort. With `signals` (main thread only) INT, TERM, HUP and QUIT heal and end the run; a
    second changes nothing; from the third on, `run.interrupted` tells in `left` what is not healed yet. `about` is told
    in `run.started` beside the rest. Raises only
    what is a bug of the harness or of a driver, after healing.
    """
    triggers = Triggers(schedule.actions)
    faults = [fault_of(action, experiment) for action in schedule.actions]
    secrets = secrets_of(experiment)
    journal = Journal(folder / "journal.jsonl", secrets)
    recorder = Recorder(journal, observer)
    conductor = _Conductor(experiment, schedule, faults, triggers, recorder, about or {})
    recorder.on_broken = conductor.journal_broke
    launch = Launch(
        spec=experiment.target.raw,
        settings=experiment.target.settings,
        folder=folder,
        base=Path(experiment.target.path).parent,
        points=triggers.points,
        lab=lab,
        faults=tuple(faults),
        files=triggers.files,
        seed=schedule.seed,
    )
    try:
        _write_schedule(folder / "schedule.json", schedule, secrets)
        await conductor.run(driver, launch, signals)
    finally:
        ending = conductor.ending
        ending.ask("error", "the harness failed")
        recorder.record("harness", "run.ended", {"reason": ending.reason, "detail": ending.detail})
        journal.close()
    return RunResult(
        reason=str(ending.reason),
        detail=ending.detail,
        journal=journal.path,
        heal_failures=tuple(conductor.method.failures),
        signal=conductor.signal,
        traces=(*conductor.method.traces, *recorder.traces),
    )


def secrets_of(experiment: Experiment) -> frozenset[str]:
    """Texts that nothing written by a run of this experiment may hold."""
    return (
        find_secrets(experiment.target.settings)
        | find_secrets(experiment.target.raw)
        | find_secrets(os.environ, shortest=8)  # nobody meant these for the target, so take only what looks like one
    )


class _Conductor:
    """The course of one run."""

    def __init__(
        self,
        experiment: Experiment,
        schedule: Schedule,
        faults: Sequence[Fault[Any]],
        triggers: Triggers,
        recorder: Recorder,
        about: Mapping[str, Any],
    ) -> None:
        self._experiment = experiment
        self._about = about
        self._limits = experiment.limits
        self._schedule = schedule
        self._recorder = recorder
        self.ending = Ending()
        self._triggers = triggers
        self.method = Method(experiment, schedule.actions, faults, triggers, recorder, self.ending)
        self.signal: int | None = None
        self._ready = anyio.Event()
        self._finished = anyio.Event()
        self._progressed = anyio.Event()
        self._progress = 0.0  # when the target last got on

    def _record(self, kind: str, **data: Any) -> Event:
        return self._recorder.record("harness", kind, data)

    def journal_broke(self, why: str) -> None:
        """A run that cannot be judged is not worth its faults: heal and end."""
        why = f"the journal cannot be written: {why}"
        if not self.ending.ask("error", why) and self.ending.reason == "finished":
            self.ending.reason, self.ending.detail = "error", why

    async def run(self, driver: Driver, launch: Launch, signals: bool) -> None:
        """From `run.started` to the end of the target."""
        self._record("run.started", **_facts(self._experiment, self._schedule, launch), **self._about)
        self._triggers.listen(self._recorder)
        self._recorder.listen(PROGRESS, self._got_on)
        Guard(self._experiment.abort, self._recorder, self.ending)
        try:
            async with anyio.create_task_group() as tasks:
                if signals:
                    await tasks.start(self._heed_signals)
                tasks.start_soon(self._limit, "wall", self._limits.wall, anyio.Event())
                tasks.start_soon(self._limit, "ready", self._limits.ready, self._ready)
                with self.ending.cuts():
                    await self._open(driver, launch)
                tasks.cancel_scope.cancel()
        except* TargetError as group:
            self.ending.ask("error", "; ".join(map(str, _leaves(group))))

    async def _open(self, driver: Driver, launch: Launch) -> None:
        self._record("target.starting")
        debts = Debts(launch.folder)
        try:
            await self._live(driver, launch, RunStage(self._recorder, self._triggers, debts))
        finally:
            debts.close()

    async def _live(self, driver: Driver, launch: Launch, stage: RunStage) -> None:
        async with driver.open(launch, stage) as target:
            with self.ending.cuts():
                try:
                    await self._conduct(target)
                finally:
                    self._triggers.release()
            self.ending.ask("finished")
            if self.ending.reason != "finished":
                self._record("final.started", reason=self.ending.reason)
            if not self._finished.is_set():  # what its members do from here on is not about a failure
                self._record("target.stopping")

    async def _conduct(self, target: Target) -> None:
        if refused := self.method.refuse(target):
            self.ending.ask("error", "; ".join(refused))
            return
        scene = RunScene(target, self._recorder)
        async with anyio.create_task_group() as watch:
            for hypothesis in self._experiment.abort:
                watch.start_soon(sample, hypothesis, scene, self._recorder)
            await target.wait_ready()
            self._ready.set()
            self._record("target.ready", mechanisms=_mechanisms(target))
            gate = Gate(self._experiment.steady, self._recorder)
            for hypothesis in self._experiment.steady:
                watch.start_soon(sample, hypothesis, scene, self._recorder)
            watch.start_soon(self._await_finish, target)
            watch.start_soon(self._await_stall, target)
            if await self._steady(gate):
                await self.method.run(target, self._method_over)
                self._record("final.started", reason="finished")
                with anyio.move_on_after(self._limits.settle):
                    await self._finished.wait()
            watch.cancel_scope.cancel()

    async def _steady(self, gate: Gate) -> bool:
        """Wait for the steady state before any fault; when it is missed, nothing is injected and the run ends."""
        with anyio.move_on_after(self._limits.baseline):
            await _first(gate.opened.wait, self._finished.wait)
        if gate.opened.is_set():
            if met := gate.values():  # without a hypothesis nothing was met
                self._recorder.record("harness", "baseline.met", met)
            return True
        self._recorder.record("harness", "baseline.missed", gate.why_closed())
        if self._finished.is_set():
            self.ending.ask("finished", "the target finished before its steady state was met")
        else:
            self.ending.ask("limit", f"the steady state was not met within {self._limits.baseline:g}s")
        return False

    async def _method_over(self) -> None:
        """Return when the faults that still stand are to be healed."""
        if self._experiment.target.ends:
            await self._finished.wait()
        else:
            await _first(self._method_ended, self._finished.wait)

    async def _method_ended(self) -> None:
        await self.method.ended.wait()
        if self.method.standing:
            await anyio.sleep(self._limits.settle)

    # --- watches -----------------------------------------------------------------------------------------------------

    async def _heed_signals(self, *, task_status: TaskStatus[None]) -> None:
        # Under nohup a hang-up is no reason to end.
        heeded = [s for s in SIGNALS if s != signal.SIGHUP or signal.getsignal(s) != signal.SIG_IGN]
        with anyio.open_signal_receiver(*heeded) as received:
            task_status.started()
            count = 0
            async for signum in received:
                count += 1
                self.signal = self.signal or signum
                self.ending.ask("interrupted", signum.name)
                left = {"left": [i.undo() for i in self.method.standing]} if count > 2 else {}
                self._record("run.interrupted", signal=signum.name, **left)

    async def _limit(self, name: str, seconds: float, reached: anyio.Event) -> None:
        with anyio.move_on_after(seconds):
            await reached.wait()
            return
        if self.ending.ask("limit", f"limits.{name} of {seconds:g}s reached"):
            self._record("limit.reached", name=name, value=seconds)

    async def _await_finish(self, target: Target) -> None:
        finished = await target.wait_finished()
        self._record("target.finished", code=finished.code, member=finished.member)
        self._finished.set()

    def _got_on(self, event: Event) -> None:
        self._progress = anyio.current_time()
        if not self._progressed.is_set():
            self._progressed.set()

    async def _await_stall(self, target: Target) -> None:
        """A target that got on once and then does not for too long hangs: say so, keep its stacks, end the run."""
        await self._progressed.wait()
        idle = 0.0
        while idle < self._limits.stall:
            wake = anyio.current_time() + self._limits.stall - idle
            await anyio.sleep_until(wake)
            if anyio.current_time() - wake > OVERSLEPT:  # stopped ourselves: what was said meanwhile is not yet heard
                self._progress = anyio.current_time()
            idle = anyio.current_time() - self._progress
        if self._finished.is_set():
            return
        self._record("target.hung", seconds=round(idle, 3), alive=[m.name for m in target.members()])
        with anyio.move_on_after(STACKS_WITHIN):
            await target.dump_stacks()
        self.ending.ask("hung", f"no progress for {idle:.1f}s")


async def _first(*waits: Callable[[], Awaitable[Any]]) -> None:
    """Return when the first of these does."""

    async def one(wait: Callable[[], Awaitable[Any]]) -> None:
        await wait()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for wait in waits:
            tasks.start_soon(one, wait)


def _write_schedule(path: Path, schedule: Schedule, secrets: Iterable[str]) -> None:
    hidden = msgspec.structs.replace(schedule, settings=without_secrets(schedule.settings))
    masked = mask(msgspec.to_builtins(hidden), secrets)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(masked)) + b"\n")


def _facts(experiment: Experiment, schedule: Schedule, launch: Launch) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "target": experiment.target.name,
        "seed": schedule.seed,
        "version": chaos.__version__,
        "settings": without_secrets(experiment.target.settings),
        "slots": [msgspec.to_builtins(slot) for slot in experiment.target.slots],
        "limits": msgspec.to_builtins(experiment.limits),
        "lab": launch.lab,
        "python": platform.python_version(),
        "kernel": os.uname().release,
    }


def _mechanisms(target: Target) -> dict[str, str]:
    """How this machine does what the driver offers, where the driver says so."""
    tell = getattr(target, "mechanisms", None)
    return dict(tell()) if tell is not None else {}


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
