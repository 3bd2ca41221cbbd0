"""Notice, grace, end: what a scheduler or a spot market does to a job."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal

import anyio

from chaos.api import JSON, Duration, Fault, Landing, Member, Selection, Selector, Signals
from chaos.errors import NotLanded
from chaos.faults.process._signals import GONE, members_of, prove, send


class Preempt(Fault[Signals], frozen=True, kw_only=True):
    """Tell members to go with a signal, SIGTERM unless said, and end those still there after `grace` with SIGKILL.

    Proof: each process has ended; who went by itself, and when.

    Heal: none. SIGKILL comes even to a run that is
    aborted meanwhile.
    """

    fidelity = (
        "preemption by Slurm, Kubernetes or a spot market as a process sees it. The machine itself stays, with its "
        "disks and its address. With `signal: INT`, a person at the terminal (Ctrl-C)."
    )
    instant = True

    members: Selector
    grace: Duration = 30.0
    signal: Literal["TERM", "INT"] = "TERM"

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Signals, *hit: Selection) -> AsyncIterator[Landing]:
        began = anyio.current_time()
        notice = signal.Signals[f"SIG{self.signal}"]
        reached = await send(target, members_of(hit[0]), notice)
        went: dict[int, JSON] = {}

        def note(member: Member, by: str) -> None:
            went[member.pid] = {"by": by, "after": round(anyio.current_time() - began, 3)}

        async def watch(member: Member) -> None:
            with suppress(NotLanded):
                await target.wait_state(member, GONE, self.grace)
                note(member, notice.name)

        try:
            async with anyio.create_task_group() as tasks:
                for member in reached:
                    tasks.start_soon(watch, member)
        finally:
            with anyio.CancelScope(shield=True):
                for member in (left := [m for m in reached if m.pid not in went]):
                    with suppress(NotLanded):  # it went at the last moment
                        await target.signal(member, signal.SIGKILL)
                await prove(target, left, GONE)
        for member in left:
            note(member, "SIGKILL")
        members = [{"member": m.name, "pid": m.pid, **went[m.pid]} for m in reached]
        yield Landing({"grace": self.grace, "members": members})
