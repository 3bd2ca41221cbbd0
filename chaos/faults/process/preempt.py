"""Notice, grace, end: what a scheduler or a spot market does to a job."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Literal

import anyio

from chaos.api import JSON, Duration, Fault, Landing, Member, Programs, Selection, Selector, Signals
from chaos.errors import HealFailed, NotLanded, Unsupported
from chaos.faults.process._signals import GONE, members_of, prove, send

STARTS_WITHIN = 20.0  # seconds


class Preempt(Fault[Signals], frozen=True, kw_only=True):
    """Tell members to go with a signal, SIGTERM unless said, and end those still there after `grace` with SIGKILL.

    With `again` the harness starts each anew once it has gone, as a rolling restart does; it must have started it
    before.

    Proof: each process has ended; who went by itself, and when.

    Heal: none; with `again`, new processes. SIGKILL comes even to a run that is aborted meanwhile.
    """

    fidelity = (
        "preemption by Slurm, Kubernetes or a spot market as a process sees it. The machine itself stays, with its "
        "disks and its address. With `signal: INT`, a person at the terminal (Ctrl-C)."
    )
    instant = True
    awaits = True  # that they go

    members: Selector
    grace: Duration = 30.0
    signal: Literal["TERM", "INT"] = "TERM"
    again: bool = False

    def needs(self) -> tuple[type, ...]:
        return (Programs,) if self.again else ()

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Signals, *hit: Selection) -> AsyncIterator[Landing]:
        if self.again:
            _can_start(target, members_of(hit[0]))
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
        if self.again:
            await _start(target, reached)


def _can_start(target: Signals, members: Sequence[Member]) -> None:
    known = target.programs() if isinstance(target, Programs) else ()
    if strangers := [m.name for m in members if m.name not in known]:
        raise Unsupported(f"the harness did not start {', '.join(strangers)}, so it cannot do so again")


async def _start(target: Signals, members: Sequence[Member]) -> None:
    assert isinstance(target, Programs)
    try:
        with anyio.fail_after(STARTS_WITHIN, shield=True):
            for member in members:
                await target.start_again(member.name)
    except (NotLanded, TimeoutError) as error:
        raise HealFailed(f"not all were started again: {error}", "end the run") from error
