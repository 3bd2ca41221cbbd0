"""A value that is no number."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Annotated

from msgspec import Meta

from chaos.api import Duration, Fault, Hooks, Landing, Ratio, Selection, Selector
from chaos.faults._tampering import Since, Where, change, tampering

NAN = 0x7FC00000


class Nan(Fault[Hooks], frozen=True, kw_only=True):
    """Put a NaN into the memory of members, at a site that the target offers, `times` times.

    Proof: index and bits of the element before and after, read back from the tensor's own memory.

    Heal: the hook is off, as the member says; the NaN stays where it has got to.
    """

    fidelity = (
        "an overflow, a division by zero, a broken kernel. It appears between two operations; the operation that "
        "would have made it is not to blame."
    )

    members: Selector
    site: Annotated[str, Meta(examples=["gradient", "weight", "activation", "moment"])] = "gradient"
    times: Annotated[int, Meta(ge=1)] = 1
    at: Ratio = 0.5  # which element, as a share of the tensor
    where: Where = {}
    since: Since = {}
    within: Duration = 30.0  # for the first hit

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    def inject(self, target: Hooks, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        deed = change("set", where=self.where, since=self.since, times=self.times, word=NAN, at=self.at)
        return tampering(target, hit[0], self.site, deed, self.within)
