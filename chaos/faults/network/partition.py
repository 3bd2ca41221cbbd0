"""Two groups of nodes that no longer hear each other."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from itertools import product
from typing import Literal

from chaos.api import Fault, Landing, Links, Selection, Selector
from chaos.errors import NotLanded
from chaos.faults.network._cuts import standing


class Partition(Fault[Links], frozen=True, kw_only=True):
    """Drop all packets between two groups of nodes, both ways or one way; nodes in neither group hear both.

    Proof: a packet sent from each node to each node of the other side is counted as dropped and does not arrive.

    Heal: the rules go, and a packet arrives again on each path that no other fault cuts.
    """

    fidelity = (
        "a failed switch or a wrong firewall rule: silence, without any error to the sender, and connections that "
        "stand are cut as well. Links stay up and neighbours still answer ARP; nothing is slow or lossy before."
    )

    between: tuple[Selector, Selector]
    direction: Literal["both", "a-to-b", "b-to-a"] = "both"

    def selectors(self) -> tuple[Selector, ...]:
        return self.between

    def inject(self, target: Links, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        a, b = (selection.nodes for selection in hit)
        if not a or not b:
            raise NotLanded(f"a side without a node: {list(a)} | {list(b)}")
        if both := set(a) & set(b):
            raise NotLanded(f"on both sides: {', '.join(sorted(both))}")
        there = tuple(product(a, b)) if self.direction != "b-to-a" else ()
        back = tuple(product(b, a)) if self.direction != "a-to-b" else ()
        return standing(target, there + back)
