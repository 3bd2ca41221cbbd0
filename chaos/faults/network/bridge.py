"""Two halves that only some nodes in between still hear."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from itertools import product

from chaos.api import Fault, Landing, Links, Selection, Selector
from chaos.errors import NotLanded
from chaos.faults.network._cuts import standing


class Bridge(Fault[Links], frozen=True, kw_only=True):
    """Part all other nodes into two halves that hear each other no longer, while the selected nodes hear everybody.

    The halves are those of the order of declaration: the first and the second half of all nodes that are not selected.

    Proof: a packet sent from each node to each node of the other half is counted as dropped and does not arrive.

    Heal: the rules go, and a packet arrives again on each path that no other fault cuts.
    """

    fidelity = (
        "a switch of which only one uplink fails: who can reach whom is no longer the same for all, so that members "
        "differ about who is alive. Silence, without any error to the sender."
    )

    members: Selector

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    def inject(self, target: Links, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        others = [node for node in target.nodes() if node not in hit[0].nodes]
        if not hit[0].nodes or len(others) < 2:
            raise NotLanded(f"a bridge needs a node, and two to part: {list(hit[0].nodes)} between {others}")
        left, right = others[: len(others) // 2], others[len(others) // 2 :]
        return standing(target, (*product(left, right), *product(right, left)))
