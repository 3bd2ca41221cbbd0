"""Another time from one moment to the next."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import anyio

from chaos.api import Duration, Fault, Landing, Member, Selection, Selector
from chaos.capabilities import Clocks
from chaos.faults.clock._shifts import FIDELITY, MECHANISM, Asked, Shift, mend, shift, told
from chaos.faults.process._signals import members_of


class Jump(Fault[Clocks], frozen=True, kw_only=True):
    """Set the wall clock of members ahead or behind `by` so much at once; with `every` to and fro, again and again.

    The heal sets it right at once, too: a jump the other way.

    Every question for the time that is asked meanwhile is counted. Where none is, nothing is proved, and the run is
    inconclusive; with `asked: optional`, for programs that are to go without, the verdict says it and may be green.

    Proof: the clock functions in each member's memory, run, say the other time.

    Heal: they say the true time.
    """

    fidelity = f"a clock that is stepped, by an operator, a wrong time server or the end of a pause. {FIDELITY}"

    members: Selector
    by: Shift
    direction: Literal["ahead", "behind"] = "ahead"
    every: Duration = 0.0
    asked: Asked = "required"

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Clocks, *hit: Selection) -> AsyncIterator[Landing]:
        members, seconds = members_of(hit[0]), self.by if self.direction == "ahead" else -self.by
        shifted: list[Member] = []

        async def strobe() -> None:
            began = anyio.current_time()
            turn = 0
            while True:
                turn += 1
                await anyio.sleep_until(began + turn * self.every)
                for member in members:
                    await target.shift_clock(member, 0.0 if turn % 2 else seconds)

        landing = Landing({}, strobe if self.every else None)
        try:
            landing.evidence = {"mechanism": MECHANISM, "members": await shift(target, members, seconds, shifted)}
            yield landing
        finally:
            with anyio.CancelScope(shield=True):
                landing.healed = await mend(target, shifted)
                told(landing, self.asked == "required")
