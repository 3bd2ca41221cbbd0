"""No memory left: the kernel ends a process, or an allocation fails inside it."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Literal, Protocol, cast, runtime_checkable

import anyio

from chaos.api import JSON, Duration, Fault, Landing, Member, Selection, Selector, Signals, Size
from chaos.capabilities import Groups, Limits
from chaos.errors import NotLanded
from chaos.faults.compute.straggler import lift_all
from chaos.faults.process._signals import GONE, members_of
from chaos.faults.process.kill_agent import Supervised

LOOK = 0.01
SENT = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL)  # by somebody: no failed allocation ends so


@runtime_checkable
class Grouped(Supervised, Groups, Protocol):
    """Signals, who is alive, and control groups."""


@runtime_checkable
class Limited(Signals, Limits, Protocol):
    """Signals, and limits that may be changed."""


class Oom(Fault[Supervised], frozen=True, kw_only=True):
    """Leave members no memory: a limit of `limit`, or just what they use now, so that the next allocation fails.

    By a control `group` where the machine has them: the kernel's OOM killer ends a process of the group with SIGKILL.
    The group of a member that the harness started holds all that it forked, and the kernel chooses among them; one that
    was forked itself is alone. Else by its `address-space`: nobody is killed, the allocation fails inside the program
    (MemoryError), and most end by that. The limit stands until the heal, so that whoever is started again in the same
    group meets it again.

    Proof: the kernel has counted a kill in the group, and a process has gone; or the member has failed after its
    address space was used up: its exit code says so, or a line of its log that tells of missing memory.

    Heal: the limit is lifted.
    """

    fidelity = (
        "a container or a job that goes beyond its memory; by address-space: a program under ulimit -v, which sees the "
        "failure itself. Not a machine that runs out of memory as a whole, where the kernel may end anybody."
    )

    awaits = True

    members: Selector
    by: Literal["auto", "group", "address-space"] = "auto"
    limit: Size = 0
    within: Duration = 10.0

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    def needs(self) -> tuple[type, ...]:
        return (Groups,) if self.by == "group" else (Limits,)

    def uses(self) -> tuple[type, ...]:
        return (Groups,) if self.by == "auto" else ()

    @asynccontextmanager
    async def inject(self, target: Supervised, *hit: Selection) -> AsyncIterator[Landing]:
        members = members_of(hit[0])
        grouped = isinstance(target, Groups) and "memory" in target.controllers()
        if self.by == "group" or (self.by == "auto" and grouped):
            way = self._group(cast(Grouped, target), members)
        else:
            way = self._address_space(cast(Limited, target), members)
        async with way as landing:
            yield landing

    @asynccontextmanager
    async def _group(self, target: Grouped, members: Sequence[Member]) -> AsyncIterator[Landing]:
        landing = Landing({})
        limited: list[Member] = []
        try:
            said: list[JSON] = []
            alive = target.members()
            before = {m.pid: target.account(m, "memory").get("oom_kills", 0) for m in members}
            for member in members:
                said.append(await target.restrict(member, "memory", self.limit))
                limited.append(member)
            counts = [await self._killed(target, member, before[member.pid]) for member in members]
            landing.evidence = {
                "mechanism": "limit of a control group", "gone": await self._gone(target, alive),
                "members": [{**one, **count} for one, count in zip(said, counts, strict=True)],
            }  # fmt: skip
            yield landing
        finally:
            with anyio.CancelScope(shield=True):
                landing.healed = await lift_all(target, limited, "memory")

    async def _killed(self, target: Grouped, member: Member, before: int) -> JSON:
        """What is counted once it is more than `before`: a group outlives those that were killed in it."""
        with anyio.move_on_after(self.within):
            while (now := target.account(member, "memory")).get("oom_kills", 0) <= before:  # noqa: ASYNC110
                await anyio.sleep(LOOK)
            return now
        raise NotLanded(f"{member.name} has not asked for memory in {self.within:g} s: nobody was killed")

    async def _gone(self, target: Grouped, alive: Sequence[Member]) -> list[str]:
        """Who has ended: the kernel counts a kill a moment before."""
        with anyio.move_on_after(self.within):
            while not (gone := [m.name for m in alive if target.state(m) in GONE]):  # noqa: ASYNC110
                await anyio.sleep(LOOK)
            return gone
        raise NotLanded("the kernel has killed a process, and it was no member")

    @asynccontextmanager
    async def _address_space(self, target: Limited, members: Sequence[Member]) -> AsyncIterator[Landing]:
        landing = Landing({})
        try:
            said = [
                {"member": m.name, "pid": m.pid, **await target.limit_address_space(m, self.limit)} for m in members
            ]
            ends = [await self._failed(target, member) for member in members]
            landing.evidence = {
                "mechanism": "limit of the address space: an allocation failed, nobody was killed",
                "members": [{**one, **end} for one, end in zip(said, ends, strict=True)],
            }  # fmt: skip
            yield landing
        finally:
            with anyio.CancelScope(shield=True):
                landing.healed = {"members": [{"member": m.name, "limited": False} for m in members]}
                for member in members:
                    with suppress(NotLanded):  # it has gone
                        await target.limit_address_space(member, None)

    async def _failed(self, target: Limited, member: Member) -> JSON:
        """How it ended. Who is done, or is told to go, ends as well: that is no allocation that failed."""
        try:
            await target.wait_state(member, GONE, self.within)
        except NotLanded as error:
            raise NotLanded(f"{member.name} did without more memory for {self.within:g} s, or bore it") from error
        end = await target.how_it_ended(member)
        code: int | None = end["code"]
        if end["said"] is None and (not code or -code in SENT):
            how = "nobody can tell by what" if code is None else f"with code {code}"
            raise NotLanded(f"{member.name} has ended by itself, {how}: nothing says that an allocation failed")
        return end
