"""A leader that was succeeded and does not know."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from typing import Protocol, runtime_checkable

import anyio

from chaos.api import Duration, Fault, Landing, Links, Selection, Selector, Signals
from chaos.errors import NotLanded
from chaos.faults.network._cuts import standing
from chaos.faults.writer._succession import GRANTS, successor
from chaos.talk import Hears


@runtime_checkable
class Parted(Links, Signals, Hears, Protocol):
    """Links can be cut, members looked at, and they say who holds which epoch."""


class TwoLeaders(Fault[Parted], frozen=True, kw_only=True):
    """Cut the nodes of the leader off from those of `cut-from`, and wait until somebody else was granted the lease.

    With the store as the other side the leader still reaches everybody whom it leads, and the store does not reach it:
    two that lead. At the end of `hold` the cut heals, and what the old one had on its way arrives.

    Proof: packets are counted as dropped both ways; the event of the grant names another holder; the old leader's
    process is alive and runs at that moment.

    Heal: the rules go, and a packet arrives again on each path.
    """

    fidelity = (
        "a partition between a leader and what decides who leads, with all other links whole. A leader that stops by "
        "its own clock is right, and still has requests on their way; one that is stopped altogether: writer.pause."
    )

    leader: Selector
    cut_from: Selector = Selector(roles=("store",))
    within: Duration = 30.0  # for the successor

    def selectors(self) -> tuple[Selector, ...]:
        return (self.leader, self.cut_from)

    @asynccontextmanager
    async def inject(self, target: Parted, *hit: Selection) -> AsyncIterator[Landing]:
        old, boundary = hit
        if not old.members:
            raise NotLanded("no leader is alive among those selected")
        if both := set(old.nodes) & set(boundary.nodes):
            raise NotLanded(f"on both sides: {', '.join(sorted(both))}")
        pairs = (*product(old.nodes, boundary.nodes), *product(boundary.nodes, old.nodes))
        began = anyio.current_time()
        with target.listen(*GRANTS) as heard:
            async with standing(target, pairs) as landing:
                granted = await successor(heard, {m.name for m in old.members}, self.within)
                if dead := [m.name for m in old.members if target.state(m) in "TXZ"]:
                    raise NotLanded(f"{', '.join(dead)} does not run any more: one leader is left")
                alive = [{"member": m.name, "pid": m.pid, "state": target.state(m)} for m in old.members]
                seconds = round(anyio.current_time() - began, 3)
                landing.evidence = {"cut": landing.evidence, "old": alive, "successor": granted, "seconds": seconds}
                yield landing
