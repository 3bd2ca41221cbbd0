"""A clock that runs at another speed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import anyio

from chaos.api import Fault, Landing, Member, Selection, Selector
from chaos.capabilities import Clocks
from chaos.errors import NotLanded
from chaos.faults.clock._shifts import FIDELITY, MECHANISM, Asked, Speed, mend, told
from chaos.faults.process._signals import members_of

EVERY = 0.05  # seconds between two corrections
SEEN_WITHIN = 20.0  # seconds until a drift can be measured at the latest
SEEN = 0.002  # seconds of it: what a measurement may be wrong by


class Drift(Fault[Clocks], frozen=True, kw_only=True):
    """Have the wall clock of members run fast or slow: with `rate: 1%` it gains 10 ms each second.

    In steps of 50 ms.

    Every question for the time that is asked meanwhile is counted. Where none is, nothing is proved, and the run is
    inconclusive; with `asked: optional`, for programs that are to go without, the verdict says it and may be green.

    Proof: the clock functions in each member's memory, run, say a time that has moved away from the true one.

    Heal: they say the true time, at once; the evidence tells how far it had got.
    """

    fidelity = f"an oscillator that is off, a virtual machine that loses ticks. {FIDELITY}"

    members: Selector
    rate: Speed
    direction: Literal["fast", "slow"] = "fast"
    asked: Asked = "required"

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Clocks, *hit: Selection) -> AsyncIterator[Landing]:
        members, rate = members_of(hit[0]), self.rate if self.direction == "fast" else -self.rate
        shifted: list[Member] = []
        began, turn = anyio.current_time(), 0

        async def correct() -> None:
            nonlocal turn
            turn += 1
            await anyio.sleep_until(began + turn * EVERY)
            for member in members:
                await target.shift_clock(member, rate * (anyio.current_time() - began))
                if member not in shifted:
                    shifted.append(member)

        async def keep() -> None:
            while True:
                try:
                    await correct()
                except NotLanded:
                    await anyio.sleep(EVERY)  # it has gone

        landing = Landing({}, keep)
        try:
            while not shifted or any(abs(target.clock_ahead(member)) < SEEN for member in members):
                if anyio.current_time() - began > SEEN_WITHIN:
                    raise NotLanded(f"the clocks have not moved in {SEEN_WITHIN:g} s")
                await correct()
            said = [{"member": m.name, "pid": m.pid, "ahead": target.clock_ahead(m)} for m in members]
            landing.evidence = {"mechanism": MECHANISM, "rate": rate, "members": said}
            yield landing
        finally:
            with anyio.CancelScope(shield=True):
                reached = rate * (anyio.current_time() - began)
                landing.healed = {**await mend(target, shifted), "reached": round(reached, 3)}
                told(landing, self.asked == "required")
