"""Batches whose bytes are not those of the data set."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Annotated

from msgspec import Meta

from chaos.api import Duration, Fault, Hooks, Landing, Ratio, Selection, Selector
from chaos.faults._tampering import Since, Where, change, tampering


class CorruptBatch(Fault[Hooks], frozen=True, kw_only=True):
    """Overwrite a `share` of the bytes that members read as a batch, `times` reads in a row; null: every read.

    Proof: offset and length of what was overwritten, and the CRC-32 of the batch before and after.

    Heal: the hook is off, as the member says.
    """

    fidelity = (
        "rot in a data file, a broken decompressor, a wrong join. It acts on what was read, so a checksum below the "
        "loader (of a file system, of a transfer) does not see it."
    )

    members: Selector
    site: str = "batch"
    share: Ratio = 0.5
    at: Ratio = 0.5  # where, as a share of what is left whole
    seed: int = 0
    times: Annotated[int, Meta(ge=1)] | None = 1
    where: Where = {}
    since: Since = {}
    within: Duration = 30.0  # for the first hit

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    def inject(self, target: Hooks, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        more = {"share": self.share, "at": self.at, "seed": self.seed}
        deed = change("garble", where=self.where, since=self.since, times=self.times, **more)
        return tampering(target, hit[0], self.site, deed, self.within)
