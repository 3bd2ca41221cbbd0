"""Frozen by the kernel as a whole: nobody is told, not even the parent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from chaos.api import Fault, Landing, Selection, Selector
from chaos.capabilities import Groups
from chaos.errors import NotLanded
from chaos.faults.compute.straggler import lift_all
from chaos.faults.process._signals import members_of


class CgroupFreeze(Fault[Groups], frozen=True, kw_only=True):
    """Freeze members by their control groups: all threads and forked processes at one instant, without a signal.

    A member that the harness started is frozen with all that it forked; one that was forked itself is frozen alone.

    Proof: the kernel says that the whole group is frozen.

    Heal: thawed, and the kernel says so. It comes before anything is ended: version 1 ignores even SIGKILL meanwhile.
    """

    fidelity = (
        "a virtual machine that is paused or migrated, a container that is checkpointed. Unlike process.freeze its "
        "parent gets no SIGCHLD, so an agent that watches for stopped children sees nothing. The network stack of the "
        "machine goes on: it still acknowledges data."
    )

    members: Selector

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Groups, *hit: Selection) -> AsyncIterator[Landing]:
        members = members_of(hit[0])
        landing = Landing({})
        frozen = []
        try:
            said = []
            for member in members:
                now = await target.restrict(member, "freezer", 1)
                frozen.append(member)
                said.append({**now, **target.account(member, "freezer")})
            if not all(one.get("frozen") for one in said):
                raise NotLanded(f"not frozen: {', '.join(one['member'] for one in said if not one.get('frozen'))}")
            landing.evidence = {"mechanism": "freezer of control groups", "members": said}
            yield landing
        finally:
            with anyio.CancelScope(shield=True):
                landing.healed = await lift_all(target, frozen, "freezer")
