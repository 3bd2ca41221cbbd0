"""A link that loses packets."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Annotated

from msgspec import Meta

from chaos.api import Fault, Landing, Selection, Selector
from chaos.faults.network._ways import Direction, disturbed, ways
from chaos.ways import Lossy, Shape


class Loss(Fault[Lossy], frozen=True, kw_only=True):
    """Lose a share of the packets between two groups of nodes at random; TCP sends them again, later.

    Proof: of the packets sent on each way, that share does not arrive, within what chance allows.

    Heal: the rules go, and every packet of a series arrives again on each way.
    """

    fidelity = (
        "a bad cable, a dirty connector, an overfull switch: each packet is lost by itself, with the kernel's own "
        "dice, which no seed reaches. Does not show: losses in bursts, corrupted or reordered packets."
    )

    between: tuple[Selector, Selector]
    loss: Annotated[float, Meta(gt=0, le=1, extra={"unit": "ratio"}, description="a share, such as 20% or 0.2")]
    direction: Direction = "both"

    def selectors(self) -> tuple[Selector, ...]:
        return self.between

    def inject(self, target: Lossy, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        shape = Shape(pairs=ways(hit, self.direction), loss=self.loss)
        return disturbed(target.lose, target.keep, shape)
