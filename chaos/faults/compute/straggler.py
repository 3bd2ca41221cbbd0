"""Correct, and slower than the others."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Literal, cast

import anyio
from msgspec import Meta

from chaos.api import JSON, Duration, Fault, Landing, Member, Selection, Selector, Signals
from chaos.capabilities import Groups
from chaos.errors import HealFailed, NotLanded
from chaos.faults.process._signals import members_of, prove, send
from chaos.faults.process.freeze import thaw

LANDS_WITHIN = 10.0  # seconds in which a member that has something to compute is throttled for the first time
LOOK = 0.01


class Straggler(Fault[Signals], frozen=True, kw_only=True):
    """Slow members down to one `slowdown`th: 1.1 is ten per cent slower, 10 is tenfold.

    By a `quota` of processor time (`cores` says how many a member keeps busy) where the machine has control groups,
    else by a `duty-cycle`: stopped for a share of each `period`. A quota of a member that the harness started slows
    what it forked as well; a duty cycle hits the process alone.

    Proof: the kernel has throttled each member at least once; or each was stopped, all of its threads, and the heal
    says for how much of the time.

    Heal: no quota any more; or SIGCONT, and it runs.
    """

    fidelity = (
        "a weak device, a machine that throttles, a noisy neighbour. A quota leaves waiting as fast as it was and "
        "slows computing alone, as such machines do; a duty cycle stops all that the process does, its heartbeats too."
    )

    members: Selector
    slowdown: Annotated[float, Meta(gt=1, le=100, description="times slower, such as 1.1, 2 or 10")] = 4.0
    by: Literal["auto", "quota", "duty-cycle"] = "auto"
    cores: Annotated[float, Meta(gt=0, description="cores that a member keeps busy")] = 1.0
    period: Duration = 0.1

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    def needs(self) -> tuple[type, ...]:
        return (Groups,) if self.by == "quota" else ()

    def uses(self) -> tuple[type, ...]:
        return (Groups,) if self.by == "auto" else ()

    @asynccontextmanager
    async def inject(self, target: Signals, *hit: Selection) -> AsyncIterator[Landing]:
        members = members_of(hit[0])
        grouped = isinstance(target, Groups) and "cpu" in target.controllers()
        if self.by == "quota" or (self.by == "auto" and grouped):
            way = self._quota(cast(Groups, target), members)
        else:
            way = self._duty_cycle(target, members)
        async with way as landing:
            yield landing

    @asynccontextmanager
    async def _quota(self, target: Groups, members: Sequence[Member]) -> AsyncIterator[Landing]:
        landing = Landing({})
        limited: list[Member] = []
        try:
            said = []
            for member in members:
                said.append(await target.restrict(member, "cpu", self.cores / self.slowdown))
                limited.append(member)
            counts = [await _throttled(target, member) for member in members]
            landing.evidence = {
                "mechanism": "quota of processor time", "slowdown": self.slowdown,
                "members": [{**one, **count} for one, count in zip(said, counts, strict=True)],
            }  # fmt: skip
            yield landing
        finally:
            with anyio.CancelScope(shield=True):
                landing.healed = await lift_all(target, limited, "cpu")

    @asynccontextmanager
    async def _duty_cycle(self, target: Signals, members: Sequence[Member]) -> AsyncIterator[Landing]:
        if stopped := [m.name for m in members if target.state(m) == "T"]:
            raise NotLanded(f"stopped already: {', '.join(stopped)}; the heal would end what somebody else began")
        rhythm = _Rhythm(target, members, self.period, self.period * (1 - 1 / self.slowdown))
        landing = Landing({}, rhythm.keep)
        try:
            reached = await rhythm.begin()
            landing.evidence = {
                "mechanism": "duty cycle of SIGSTOP and SIGCONT", "slowdown": self.slowdown, "period": self.period,
                "stopped": round(rhythm.stop, 6), "members": await prove(target, reached, "T"),
            }  # fmt: skip
            yield landing
        finally:
            with anyio.CancelScope(shield=True):
                await thaw(target, members, landing)
            landing.healed |= rhythm.told()


async def _throttled(target: Groups, member: Member) -> JSON:
    before = target.account(member, "cpu")
    with anyio.move_on_after(LANDS_WITHIN):
        while (now := target.account(member, "cpu"))["throttled"] <= before["throttled"]:  # noqa: ASYNC110
            await anyio.sleep(LOOK)
        return now
    raise NotLanded(f"{member.name} was not throttled once in {LANDS_WITHIN:g} s: it computes less than its quota")


async def lift_all(target: Groups, members: Sequence[Member], controller: str) -> JSON:
    """Lift the limit of each, whatever the others do; what each said, or one HealFailed for all."""
    said, failures = [], []
    for member in members:
        try:
            said.append(await target.lift(member, controller))
        except HealFailed as error:
            failures.append(error)
    if failures:
        raise HealFailed("; ".join(map(str, failures)), "; ".join(error.undo for error in failures))
    return {"members": said}


class _Rhythm:
    """Stops members at the beginning of each period, on an absolute schedule."""

    def __init__(self, target: Signals, members: Sequence[Member], period: float, stop: float) -> None:
        self.stop = stop
        self._target, self._members, self._period = target, members, period
        self._began = self._until = 0.0
        self._cycles, self._stopped = 0, 0.0

    async def begin(self) -> tuple[Member, ...]:
        """The first stop; whom it reached."""
        self._began = self._until = anyio.current_time()
        return await send(self._target, self._members, signal.SIGSTOP)

    async def keep(self) -> None:
        """Go on for ever; those that have gone are left out."""
        while True:
            stopped = self._began + self._cycles * self._period
            await anyio.sleep_until(stopped + self.stop)
            await self._send(signal.SIGCONT)
            self._stopped += anyio.current_time() - max(stopped, self._until)
            # A harness that was held up leaves out what it has missed: two stops in a row would be a freeze.
            self._cycles = max(self._cycles + 1, int((anyio.current_time() - self._began) / self._period + 1))
            await anyio.sleep_until(self._began + self._cycles * self._period)
            self._until = anyio.current_time()
            await self._send(signal.SIGSTOP)

    async def _send(self, number: signal.Signals) -> None:
        for member in self._members:
            try:
                await self._target.signal(member, number)
            except NotLanded:
                continue  # it has gone

    def told(self) -> JSON:
        """How it went."""
        spent = max(anyio.current_time() - self._began, 1e-9)
        return {"cycles": self._cycles, "stopped_share": round(min(self._stopped / spent, 1.0), 3)}
