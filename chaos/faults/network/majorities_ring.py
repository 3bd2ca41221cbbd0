"""Every node hears a majority, and no two hear the same one."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from itertools import permutations

from chaos.api import Fault, Landing, Links, Selection, Selector
from chaos.errors import NotLanded
from chaos.faults.network._cuts import standing

FEWEST = 4  # in a smaller ring a majority is everybody


class MajoritiesRing(Fault[Links], frozen=True, kw_only=True):
    """Put the selected nodes in a ring in which each hears only its nearest, just enough for a majority of them.

    Nodes that are not selected hear everybody. The ring is in the order of declaration.

    Proof: a packet sent on each cut way is counted as dropped and does not arrive.

    Heal: the rules go, and a packet arrives again on each path that no other fault cuts.
    """

    fidelity = (
        "routing that is wrong in several places: everybody has a majority, nobody has the same one, so whoever counts "
        "votes by hearsay elects several leaders. Silence, without any error to the sender."
    )

    members: Selector

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    def inject(self, target: Links, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        ring = [node for node in target.nodes() if node in hit[0].nodes]
        if len(ring) < FEWEST:
            raise NotLanded(f"a ring of majorities needs {FEWEST} nodes or more, not {ring}")
        reach = (len(ring) // 2 + 1) // 2  # to either side; with the node itself at least a majority
        far = [
            (a, b) for a, b in permutations(ring, 2) if reach < abs(ring.index(a) - ring.index(b)) < len(ring) - reach
        ]
        return standing(target, far)
