"""A process that is there, and then is not."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chaos.api import Fault, Landing, Selection, Selector, Signals
from chaos.faults.process._signals import GONE, members_of, prove, send


class Kill(Fault[Signals], frozen=True, kw_only=True):
    """End members at once with SIGKILL: no handler runs, nothing is flushed.

    Proof: the kernel has ended each process.

    Heal: none, it is for the target to recover.
    """

    fidelity = (
        "a crash of the process, as by the OOM killer. The kernel closes its sockets, so that peers notice at once; "
        "a machine that loses power or freezes does not say goodbye: pair it with process.freeze or network.isolate."
    )
    instant = True

    members: Selector

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Signals, *hit: Selection) -> AsyncIterator[Landing]:
        reached = await send(target, members_of(hit[0]), signal.SIGKILL)
        yield Landing({"signal": "SIGKILL", "members": await prove(target, reached, GONE)})
