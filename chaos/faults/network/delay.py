"""A long link."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from chaos.api import Duration, Fault, Landing, Selection, Selector
from chaos.faults.network._ways import Direction, Positive, disturbed, ways
from chaos.ways import Late, Shape


class Delay(Fault[Late], frozen=True, kw_only=True):
    """Have every packet between two groups of nodes arrive later, by netem; `network.latency` delays streams instead.

    Proof: the time that a packet takes on each way, measured before and with it.

    Heal: the queue goes, and a packet on each way is fast again.
    """

    fidelity = (
        "distance, or buffers on the way: packets of every protocol are late, handshakes as well. With jitter they "
        "may overtake each other. Needs netem in the kernel; `chaos doctor` says whether it is there."
    )

    between: tuple[Selector, Selector]
    delay: Positive
    jitter: Duration = 0.0
    direction: Direction = "both"

    def selectors(self) -> tuple[Selector, ...]:
        return self.between

    def inject(self, target: Late, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        shape = Shape(pairs=ways(hit, self.direction), delay=self.delay, jitter=self.jitter)
        return disturbed(target.delay, target.hasten, shape)
