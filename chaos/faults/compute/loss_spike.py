"""Activations that are too large by orders of magnitude."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Annotated

from msgspec import Meta

from chaos.api import Duration, Fault, Hooks, Landing, Selection, Selector
from chaos.faults._tampering import Since, Where, change, tampering


class LossSpike(Fault[Hooks], frozen=True, kw_only=True):
    """Scale the activations of members by `factor`, `times` times: the loss jumps, and all values stay finite.

    Proof: how many elements changed, and the largest of them afterwards.

    Heal: the hook is off, as the member says.
    """

    fidelity = (
        "a spike of the loss that a wrong computation causes. A spike that the data or the optimizer causes looks the "
        "same on the curve: for that one use data.corrupt-batch."
    )

    members: Selector
    site: str = "activation"
    factor: float = 1000.0
    times: Annotated[int, Meta(ge=1)] = 1
    where: Where = {}
    since: Since = {}
    within: Duration = 30.0  # for the first hit

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    def inject(self, target: Hooks, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        deed = change("scale", where=self.where, since=self.since, times=self.times, factor=self.factor)
        return tampering(target, hit[0], self.site, deed, self.within)
