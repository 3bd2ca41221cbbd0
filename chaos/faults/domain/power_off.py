"""Whole nodes that go dark."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chaos.api import Fault, Landing, Selection, Selector
from chaos.errors import NotLanded
from chaos.faults.domain._power import restore
from chaos.storage import Power


class PowerOff(Fault[Power], frozen=True, kw_only=True):
    """Cut the power of a node, a rack or any other domain: every process there is killed at one moment.

    `members` names the nodes, by `nodes`, by `domains` (`rack: r1`) or by who is on them. What their disks had not
    written is kept: `storage.power-cut` loses that as well.

    Proof: no process of those nodes is left, members or not.

    Heal: the power returns: what the harness had started there is started again, in its order.
    """

    fidelity = (
        "a rack whose supply trips, a host that reboots. The kernel here closes the sockets of the dead, so that peers "
        "notice at once; add network.isolate on the same nodes for the silence of a machine that is really off."
    )

    members: Selector

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Power, *hit: Selection) -> AsyncIterator[Landing]:
        nodes = hit[0].nodes
        if not nodes:
            raise NotLanded("no node is selected: power is cut where there is a node")
        landing = Landing({})
        try:
            landing.evidence = await target.power_off(nodes)
            yield landing
        finally:
            landing.healed = await restore(target, nodes)
