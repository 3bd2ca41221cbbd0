"""Writes of which a part is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chaos.api import Fault, Landing, Ratio, Selection, Selector
from chaos.faults.storage._lies import Count, Glob, check, telling
from chaos.storage import Lie, Views


class TornWrite(Fault[Views], frozen=True, kw_only=True):
    """Keep only the first share `keep` of what members write into files that match the glob `path`; acknowledge all.

    Of the writes that match, those from `first` to `last` are hit, by default only the first.

    Proof: the first write that was torn: file, offset, what was written and what was kept.

    Heal: writes are kept whole; what was torn stays so: the target must notice.
    """

    fidelity = (
        "a drive or a network file system that acknowledges what it then loses in part. A writer that dies in the "
        "middle knows at least that it died: that is storage.kill."
    )

    members: Selector
    path: Glob
    keep: Ratio = 0.5
    first: Count = 1
    last: Count | None = 1

    def __post_init__(self) -> None:
        check(self.path, self.keep, "keep")

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Views, *hit: Selection) -> AsyncIterator[Landing]:
        lie = Lie(kind="torn-write", path=self.path, keep=self.keep, first=self.first, last=self.last)
        async with telling(target, lie, hit[0]) as landing:
            yield landing
