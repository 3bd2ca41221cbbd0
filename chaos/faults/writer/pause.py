"""A writer that sleeps while another one takes its place."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, runtime_checkable

import anyio

from chaos.api import Duration, Fault, Landing, Selection, Selector, Signals
from chaos.errors import NotLanded
from chaos.faults.process._signals import members_of, prove, send
from chaos.faults.process.freeze import thaw
from chaos.faults.writer._succession import GRANTS, successor
from chaos.talk import Hears


@runtime_checkable
class Succeeded(Signals, Hears, Protocol):
    """Members can be stopped, and say who holds which epoch."""


class Pause(Fault[Succeeded], frozen=True, kw_only=True):
    """Stop members with SIGSTOP until somebody else was granted their lease, or a new epoch: stale writers.

    They go on at the end of `hold`, in the middle of what they were doing, and believe that they still own it.

    Proof: all threads are in state T from the stop to the moment at which the event of the grant was recorded; it names
    a holder that was not stopped.

    Heal: SIGCONT, and none of them is in state T any more.
    """

    fidelity = (
        "a long pause of a collector, a suspended machine, a starved process: nothing in it runs, its connections "
        "stand, its clock goes on. Whether it then tries a stale write depends on what it was about to do: trigger it "
        "at such a point, and have fenced-writer ask for the attempt."
    )

    members: Selector
    within: Duration = 30.0  # for the successor

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Succeeded, *hit: Selection) -> AsyncIterator[Landing]:
        members = members_of(hit[0])
        if stopped := [m.name for m in members if target.state(m) == "T"]:
            raise NotLanded(f"stopped already: {', '.join(stopped)}; the heal would end what somebody else began")
        landing = Landing({})
        with target.listen(*GRANTS) as heard:
            try:
                began = anyio.current_time()
                reached = await send(target, members, signal.SIGSTOP)
                await prove(target, reached, "T")
                granted = await successor(heard, {m.name for m in members}, self.within)
                still = await prove(target, reached, "T")
                landing.evidence = {
                    "signal": "SIGSTOP", "members": still, "successor": granted,
                    "seconds": round(anyio.current_time() - began, 3),
                }  # fmt: skip
                yield landing
            finally:
                with anyio.CancelScope(shield=True):
                    await thaw(target, members, landing)
