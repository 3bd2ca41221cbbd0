"""Carry out a schedule's actions: wait for the trigger, inject, hold, heal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import anyio
import msgspec

from chaos.api import JSON, Fault, Landing, Links, Selection, Taps, Target, capability_of
from chaos.errors import FaultError, HealFailed, NotLanded, Unsupported
from chaos.experiment import Action, Experiment
from chaos.runner.border import Border
from chaos.runner.ending import Ending
from chaos.runner.recorder import Recorder
from chaos.runner.triggers import Triggers, Watch
from chaos.selection import hurt, is_empty, select
from chaos.trigger import At, OnFile
from chaos.units import counted


class HealFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that may still stand, and what a person must do about it."""

    step: str
    message: str
    undo: str


@dataclass(eq=False)
class Injection:
    """One action on its way from armed to healed."""

    action: Action
    fault: Fault[Any]
    watch: Watch
    hit: tuple[Selection, ...] = ()
    hurts: frozenset[str] = frozenset()
    phase: str = "armed"  # then injecting, landed, over
    quiet: anyio.Event = field(default_factory=anyio.Event)  # nothing more will happen unless the run ends

    @property
    def source(self) -> str:
        return f"fault:{self.action.step}"

    def whom(self) -> JSON:
        """All that it hits; where it parts sides, also the nodes of each."""
        return {
            "members": list(dict.fromkeys(m.name for s in self.hit for m in s.members)),
            "nodes": list(dict.fromkeys(n for s in self.hit for n in s.nodes)),
            **({"sides": [list(s.nodes) for s in self.hit]} if len(self.hit) > 1 else {}),
        }

    def undo(self) -> str:
        """What a person has to look at when the heal cannot be trusted."""
        members = ", ".join(f"{m.name} (pid {m.pid})" for s in self.hit for m in s.members)
        nodes = ", ".join(dict.fromkeys(n for s in self.hit for n in s.nodes))
        return f"undo {self.action.kind} on {members or nodes}" + (f" (nodes {nodes})" if members and nodes else "")


class Method:
    """The actions of a schedule. Whatever ends the run, every fault that was injected is healed."""

    def __init__(
        self,
        experiment: Experiment,
        actions: Sequence[Action],
        faults: Sequence[Fault[Any]],
        triggers: Triggers,
        recorder: Recorder,
        ending: Ending,
    ) -> None:
        self._limits = experiment.limits
        self._slots = experiment.target.slots
        self._recorder = recorder
        self._ending = ending
        self._injections = [
            Injection(action, fault, watch)
            for action, fault, watch in zip(actions, faults, triggers.watches, strict=True)
        ]
        self.ended = anyio.Event()  # nothing more comes: every fault is healed, failed, or stays until the end
        self.standing: list[Injection] = []  # injected, not yet healed
        self.failures: list[HealFailure] = []
        self.traces: list[str] = []  # of what plugins raised unexpectedly

    def refuse(self, target: Target) -> tuple[str, ...]:
        """What this target cannot carry, recorded; empty when it can carry every fault of the method."""
        refused = []
        for injection in self._injections:
            fault = injection.fault
            stops = (Taps,) if isinstance(injection.action.when, OnFile) else ()
            lacks = (n for n in (capability_of(type(fault)), *fault.needs(), *stops) if n is not None)
            if need := next((n for n in lacks if not isinstance(target, n)), None):
                means = (need.__doc__ or "").partition(".")[0]
                lack = "; ".join(refusals(target)) or "this target does not offer it"
                reason = f"{injection.action.kind} cannot be done: {lack} (it needs {need.__name__}: {means})"
                self._failed(injection, "inject", Unsupported(reason))
                refused.append(reason)
        return tuple(dict.fromkeys(refused))

    async def run(self, target: Target, over: Callable[[], Awaitable[None]]) -> None:
        """Arm every action, carry them out until `over()` returns, heal what stands."""
        start = anyio.current_time()
        self._recorder.record("harness", "method.started", {})
        try:
            async with anyio.create_task_group() as tasks:
                for injection in self._injections:
                    action = injection.action
                    about = {"kind": action.kind, "settings": action.settings, "hold": action.hold}
                    self._recorder.record(injection.source, "fault.armed", about)
                    if isinstance(action.when, At):
                        injection.watch.fire(start + action.when.seconds)
                    tasks.start_soon(self._carry_out, injection, target)
                tasks.start_soon(self._await_end)
                await over()
                tasks.cancel_scope.cancel()
        finally:
            for injection in self._injections:
                if injection.phase == "armed":
                    self._missed(injection, "the run ended before its trigger fired")
                elif injection.phase == "injecting":
                    self._failed(injection, "inject", NotLanded("the run ended before it had landed"))
            self._end()

    async def _await_end(self) -> None:
        for injection in self._injections:
            await injection.quiet.wait()
        self._end()

    def _end(self) -> None:
        if not self.ended.is_set():
            self.ended.set()
            self._recorder.record("harness", "method.ended", {})

    # --- one action --------------------------------------------------------------------------------------------------

    async def _carry_out(self, injection: Injection, target: Target) -> None:
        watch = injection.watch
        try:
            await watch.fired.wait()
            if watch.hopeless is not None:
                self._missed(injection, watch.hopeless)
            else:
                await anyio.sleep_until(watch.moment + injection.action.when.delay)
                await self._inject(injection, target)
            injection.quiet.set()
        finally:
            watch.released.set()

    async def _inject(self, injection: Injection, target: Target) -> None:
        with Border() as border:
            self._aim(injection, target)
            self._injecting(injection)
            context = injection.fault.inject(target, *injection.hit)
            landing = await self._enter(injection, context)
        if isinstance(border.error, HealFailed):  # what had been done before the failure could not be undone
            self._heal_failed(injection, border.error, border.trace())
            return
        if border.error is not None:
            self._failed(injection, "inject", border.error, border.trace())
            return
        unproved = Border()
        try:
            if landing.hit is not None:
                await self._meet(injection, landing, unproved)
            if landing.evidence:
                await self._hold(injection, landing)
        finally:
            await self._heal(injection, context, landing)
            if not landing.evidence:
                why = "was armed, and nobody ran into it" if landing.hit else "gave no proof that it landed"
                error = unproved.error or NotLanded(f"{injection.action.kind} {why}")
                self._failed(injection, "inject", error, unproved.trace())

    async def _meet(self, injection: Injection, landing: Landing, border: Border) -> None:
        """Wait until somebody has run into a fault that is armed; the proof becomes its evidence."""
        assert landing.hit is not None
        injection.watch.released.set()
        with border:
            landing.evidence = await landing.hit(lambda: self._injecting(injection))

    def _injecting(self, injection: Injection) -> None:
        cause = {} if injection.watch.cause is None else {"trigger": injection.watch.cause}
        self._recorder.record(injection.source, "fault.injecting", {**injection.whom(), **cause})

    async def _enter(self, injection: Injection, context: AbstractAsyncContextManager[Landing]) -> Landing:
        injection.phase = "injecting"
        self.standing.append(injection)
        try:
            landing = await context.__aenter__()
            injection.phase = "landed"
        finally:
            if injection.phase == "injecting":
                self.standing.remove(injection)
        return landing if isinstance(landing, Landing) else Landing({})  # a fault that yields nothing proves nothing

    def _aim(self, injection: Injection, target: Target) -> None:
        """Resolve the selectors against those who live now."""
        selectors = injection.fault.selectors()
        nodes = target.nodes() if isinstance(target, Links) else ()
        injection.hit = select(selectors, self._slots, target.members(), nodes)
        if any(is_empty(s, hit) for s, hit in zip(selectors, injection.hit, strict=True)):
            raise NotLanded("no member selected")
        held, names = injection.watch.holds, {m.name for s in injection.hit for m in s.members}
        if injection.fault.awaits and held in names:
            why = f"it lands only once {held} has done something, and {held} stands at its trigger until it has"
            raise NotLanded(f"{injection.action.kind} cannot land: {why}")
        injection.hurts = hurt(selectors, injection.hit)
        everyone = injection.hurts.union(*(other.hurts for other in self.standing))
        most = self._limits.members_hurt
        if most is not None and len(everyone) > most:
            name = {"name": "members-hurt", "value": len(everyone)}
            if self._ending.ask(
                "limit", f"{counted(len(everyone), 'member')} would be hurt at one time, the limit is {most}"
            ):
                self._recorder.record("harness", "limit.reached", name)
            raise FaultError(f"would hurt {counted(len(everyone), 'member')} at one time, the limit is {most}")

    async def _hold(self, injection: Injection, landing: Landing) -> None:
        fault, action = injection.fault, injection.action
        about = {"kind": action.kind, **injection.whom(), "evidence": landing.evidence, "instant": fault.instant}
        landed = anyio.current_time()
        self._recorder.record(injection.source, "fault.landed", about)
        injection.watch.released.set()
        if fault.instant:
            return
        async with anyio.create_task_group() as tasks:
            if landing.upkeep is not None:
                tasks.start_soon(self._keep_up, injection, landing.upkeep)
            if action.hold is None:
                injection.quiet.set()
                await anyio.sleep_forever()
            else:
                await anyio.sleep_until(landed + action.hold)
            tasks.cancel_scope.cancel()

    async def _keep_up(self, injection: Injection, upkeep: Callable[[], Awaitable[None]]) -> None:
        with Border() as border:
            await upkeep()
        if border.error is not None:
            self._failed(injection, "hold", border.error, border.trace())

    async def _heal(
        self, injection: Injection, context: AbstractAsyncContextManager[Landing], landing: Landing
    ) -> None:
        began = anyio.current_time()
        with anyio.move_on_after(self._limits.heal, shield=True) as limit, Border() as border:
            await context.__aexit__(None, None, None)
        error = border.error
        if limit.cancelled_caught:
            error = HealFailed(f"the heal took longer than {self._limits.heal:g}s", injection.undo())
        self.standing.remove(injection)
        injection.phase = "over"
        if error is not None:
            self._heal_failed(injection, error, border.trace())
        elif landing.evidence and not injection.fault.instant:
            seconds = round(anyio.current_time() - began, 6)
            met = {} if landing.met is None else {"met": landing.met}
            about = {"kind": injection.action.kind, "evidence": landing.healed, "seconds": seconds, **met}
            self._recorder.record(injection.source, "fault.healed", about)

    # --- what went wrong ---------------------------------------------------------------------------------------------

    def _missed(self, injection: Injection, reason: str) -> None:
        injection.phase = "over"
        self._recorder.record(injection.source, "fault.missed", {"reason": reason})

    def _heal_failed(self, injection: Injection, error: Exception, trace: str) -> None:
        undo = error.undo if isinstance(error, HealFailed) else injection.undo()
        self.failures.append(HealFailure(step=injection.action.step, message=str(error), undo=undo))
        self._ending.ask("error", f"a heal failed: {error}")
        self._failed(injection, "heal", error, trace, undo)

    def _failed(self, injection: Injection, phase: str, error: Exception, trace: str = "", undo: str = "") -> None:
        injection.phase = "over"
        injection.watch.released.set()
        about: JSON = {"phase": phase, "error": type(error).__name__, "message": str(error), "undo": undo}
        if not isinstance(error, FaultError):
            self._ending.ask("error", f"{injection.action.kind} raised {type(error).__name__}: {error}")
            self.traces.append(trace)
            about["traceback"] = trace[-4000:]
        self._recorder.record(injection.source, "fault.failed", about)


def refusals(target: Target) -> tuple[str, ...]:
    """Why this machine does not do what the driver could offer, as far as the driver says so; each reason once."""
    mechanisms: dict[str, str] = getattr(target, "mechanisms", dict)()
    return tuple(dict.fromkeys(why for name, why in mechanisms.items() if name.endswith("-refused")))
