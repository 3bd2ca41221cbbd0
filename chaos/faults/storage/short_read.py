"""Reads that give less than there is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chaos.api import Fault, Landing, Ratio, Selection, Selector
from chaos.faults.storage._lies import Count, Glob, check, telling
from chaos.storage import Lie, Views


class ShortRead(Fault[Views], frozen=True, kw_only=True):
    """Give members that read a file that matches the glob `path` only the share `keep` of what they asked for.

    A reader that asks again gets the rest; with `keep: 0%` it is told that the file has ended. Of the reads that match,
    those from `first` to `last` are hit.

    Proof: the first read that came short: file, offset, what was asked, what was there and what was given.

    Heal: reads give all that there is.
    """

    fidelity = (
        "what read(2) may always do and seldom does: network file systems, signals, a file that is cut off. Reads of "
        "these files pass by the page cache while the run lasts."
    )

    members: Selector
    path: Glob
    keep: Ratio = 0.5
    first: Count = 1
    last: Count | None = None

    def __post_init__(self) -> None:
        check(self.path, self.keep, "keep")

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Views, *hit: Selection) -> AsyncIterator[Landing]:
        lie = Lie(kind="short-read", path=self.path, keep=self.keep, first=self.first, last=self.last)
        async with telling(target, lie, hit[0]) as landing:
            yield landing
