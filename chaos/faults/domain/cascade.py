"""A failure that spreads from node to node."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated

import anyio
from msgspec import Meta

from chaos.api import JSON, Duration, Fault, Landing, Selection, Selector
from chaos.errors import NotLanded
from chaos.faults.domain._power import restore
from chaos.storage import Power


class Cascade(Fault[Power], frozen=True, kw_only=True):
    """Cut the power of nodes one after the other, `spacing` apart, and give it back in another order.

    Both orders are drawn from `dice`, the same ones each time. The fault has landed when the last node is dark; a
    trigger that holds a member lets it go only then.

    Proof: for each node in turn, when it went dark after the first one, and that no process of it is left.

    Heal: the power returns node by node, in the other order, without waiting in between.
    """

    fidelity = (
        "an overload or a bad update that takes machine after machine, and the ragged return. The kernel here closes "
        "the sockets of the dead, so that peers notice each at once."
    )

    members: Selector
    spacing: Duration = 1.0
    dice: Annotated[int, Meta(description="another number, other orders")] = 7

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Power, *hit: Selection) -> AsyncIterator[Landing]:
        nodes = hit[0].nodes
        if not nodes:
            raise NotLanded("no node is selected: power is cut where there is a node")
        down, up = orders(nodes, self.dice)
        landing, dark = Landing({}), list[str]()
        try:
            began = anyio.current_time()
            steps: list[JSON] = []
            for number, node in enumerate(down):
                await anyio.sleep_until(began + number * self.spacing)
                dark.append(node)
                after = round(anyio.current_time() - began, 3)
                steps.append({"after": after, **await target.power_off((node,))})
            landing.evidence = {"order": down, "steps": steps}
            yield landing
        finally:
            back = [node for node in up if node in dark]
            landing.healed = {"order": back, "steps": [await restore(target, (node,)) for node in back]}


def orders(nodes: Sequence[str], dice: int) -> tuple[list[str], list[str]]:
    """The order in which nodes go, and another one in which they come back."""
    draw = random.Random(dice)
    down = draw.sample(list(nodes), len(nodes))
    up = draw.sample(down, len(down))
    return down, up if up != down else up[::-1]
