"""A clock that is wrong by as much all the time, and never stepped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import anyio

from chaos.api import Duration, Fault, Landing, Member, Selection, Selector
from chaos.capabilities import Clocks
from chaos.faults.clock._shifts import FIDELITY, MECHANISM, Asked, Shift, mend, shift, told
from chaos.faults.process._signals import members_of

STEPS = 50  # by which it gets there


class Skew(Fault[Clocks], frozen=True, kw_only=True):
    """Move the wall clock of members ahead or behind `by` so much, little by little `over` a time, and leave it there.

    A clock that gets behind does not run backwards unless it is to lose more than `over`.

    Every question for the time that is asked meanwhile is counted. Where none is, nothing is proved, and the run is
    inconclusive; with `asked: optional`, for programs that are to go without, the verdict says it and may be green.

    Proof: the clock functions in each member's memory, run, say the other time.

    Heal: they say the true time, at once.
    """

    fidelity = f"a machine that is not synchronised, or with another one than the others are. {FIDELITY}"

    members: Selector
    by: Shift
    direction: Literal["ahead", "behind"] = "ahead"
    over: Duration = 1.0
    asked: Asked = "required"

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Clocks, *hit: Selection) -> AsyncIterator[Landing]:
        members, seconds = members_of(hit[0]), self.by if self.direction == "ahead" else -self.by
        shifted: list[Member] = []
        landing = Landing({})
        began = anyio.current_time()
        try:
            for step in range(1, STEPS):
                await shift(target, members, seconds * step / STEPS, shifted)
                await anyio.sleep_until(began + self.over * step / STEPS)
            said = await shift(target, members, seconds, shifted)
            landing.evidence = {"mechanism": MECHANISM, "over": self.over, "members": said}
            yield landing
        finally:
            with anyio.CancelScope(shield=True):
                landing.healed = await mend(target, shifted)
                told(landing, self.asked == "required")
