"""Nodes that nobody hears any more."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from itertools import product

from chaos.api import Fault, Landing, Links, Selection, Selector
from chaos.errors import NotLanded
from chaos.faults.network._cuts import standing


class Isolate(Fault[Links], frozen=True, kw_only=True):
    """Drop all packets between the nodes of the selected members and everybody else; among themselves they still talk.

    Proof: a packet sent from each node to each node of the other side is counted as dropped and does not arrive.

    Heal: the rules go, and a packet arrives again on each path that no other fault cuts.
    """

    fidelity = (
        "a pulled cable, a dead network card or rack switch: silence, without any error to the sender. The processes "
        "on the node run on, as they do when only its network fails."
    )

    members: Selector

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    def inject(self, target: Links, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        alone = hit[0].nodes
        others = tuple(node for node in target.nodes() if node not in alone)
        if not alone or not others:
            raise NotLanded(f"a side without a node: {list(alone)} | {list(others)}")
        return standing(target, (*product(alone, others), *product(others, alone)))
