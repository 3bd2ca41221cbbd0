"""Comes back, and dies again, and again."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from chaos.api import JSON, Fault, Landing, Selection, Selector
from chaos.errors import NotLanded
from chaos.faults.process._signals import GONE, members_of, prove, send
from chaos.faults.process.kill_agent import Supervised

LOOK = 0.01  # between two looks at who is alive


class RestartLoop(Fault[Supervised], frozen=True, kw_only=True):
    """End members with SIGKILL, and end each again as soon as somebody bears its name again, until the heal.

    With `times` that is done so often and no more.

    Proof: the kernel has ended each process; the heal tells of every later kill.

    Heal: whoever comes next is left alone.
    """

    fidelity = (
        "a program that dies at its start: a mismatched library, a bad configuration, a device that fails at every "
        "use. It dies from outside, as soon as it is known to be there, so its own exit code tells nothing."
    )

    members: Selector
    times: int | None = None

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Supervised, *hit: Selection) -> AsyncIterator[Landing]:
        members = members_of(hit[0])
        reached = await send(target, members, signal.SIGKILL)
        kills = {member.name: int(member in reached) for member in members}
        killed = {member.pid for member in members}
        last: list[JSON] = []

        async def again() -> None:
            while any(self.times is None or count < self.times for count in kills.values()):
                for member in target.members():
                    if member.name not in kills or member.pid in killed:
                        continue
                    if self.times is not None and kills[member.name] >= self.times:
                        continue
                    killed.add(member.pid)
                    try:
                        await target.signal(member, signal.SIGKILL)
                        state = await target.wait_state(member, GONE, 5.0)
                    except NotLanded:
                        continue  # it went by itself
                    kills[member.name] += 1
                    last.append({"member": member.name, "pid": member.pid, "state": state})
                await anyio.sleep(LOOK)

        landing = Landing({"signal": "SIGKILL", "members": await prove(target, reached, GONE)}, again)
        try:
            yield landing
        finally:
            landing.healed = {"kills": kills, "later": last}
