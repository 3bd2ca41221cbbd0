"""A link that carries little."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Annotated

from msgspec import Meta

from chaos.api import Fault, Landing, Selection, Selector
from chaos.faults.network._ways import Direction, disturbed, ways
from chaos.ways import Shape, Slow


class Rate(Fault[Slow], frozen=True, kw_only=True):
    """Let only so many bytes per second pass on each way between two groups of nodes, all their streams together.

    Proof: what is sent on each way takes the time that the rate allows; before, it was faster.

    Heal: the queue goes, and the same bytes pass at least half as fast again.
    """

    fidelity = (
        "a link that fell back to a lower speed, or that others fill: packets wait in a queue at the sender's node, "
        "and are dropped where it is full. Each pair of nodes has a rate of its own, as with a switch."
    )

    between: tuple[Selector, Selector]
    rate: Annotated[
        int, Meta(ge=8192, extra={"unit": "size"}, description="bytes per second, such as 64KiB or 1MB; at least 8KiB")
    ]
    direction: Direction = "both"

    def selectors(self) -> tuple[Selector, ...]:
        return self.between

    def inject(self, target: Slow, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        shape = Shape(pairs=ways(hit, self.direction), rate=self.rate)
        return disturbed(target.slow, target.quicken, shape)
