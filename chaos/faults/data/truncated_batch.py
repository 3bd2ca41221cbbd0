"""Batches that end too early."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Annotated

from msgspec import Meta

from chaos.api import Duration, Fault, Hooks, Landing, Ratio, Selection, Selector
from chaos.faults._tampering import Since, Where, change, tampering


class TruncatedBatch(Fault[Hooks], frozen=True, kw_only=True):
    """Cut off what members read as a batch after a share `keep` of its bytes, `times` reads in a row; null: every read.

    Proof: the length of the batch before and after.

    Heal: the hook is off, as the member says.
    """

    fidelity = "a short read or a file that was cut off, which the loader hands on without an error."

    members: Selector
    site: str = "batch"
    keep: Ratio = 0.5
    times: Annotated[int, Meta(ge=1)] | None = 1
    where: Where = {}
    since: Since = {}
    within: Duration = 30.0  # for the first hit

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    def inject(self, target: Hooks, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        deed = change("cut", where=self.where, since=self.since, times=self.times, keep=self.keep)
        return tampering(target, hit[0], self.site, deed, self.within)
