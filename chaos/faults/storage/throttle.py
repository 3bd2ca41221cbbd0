"""A disk with little bandwidth."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chaos.api import Fault, Landing, Selection, Selector, Size
from chaos.faults.storage._lies import Glob, check, telling
from chaos.storage import Lie, Views


class Throttle(Fault[Views], frozen=True, kw_only=True):
    """Have the reads and writes of members on files that match the glob `path` share `rate` bytes a second.

    Each member has a line of its own. What is in memory already (the page cache of an open file) comes at full speed.

    Proof: the first read or write that had to wait: file, bytes, seconds.

    Heal: full speed; how many bytes passed in which time.
    """

    fidelity = (
        "a volume at its limit, a neighbour that eats the bandwidth. Names and attributes are as fast as before; "
        "storage.slow delays single operations."
    )

    members: Selector
    path: Glob = "**"
    rate: Size

    def __post_init__(self) -> None:
        check(self.path)
        if self.rate < 1:
            raise ValueError("`rate` is bytes a second, 1 at least")

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Views, *hit: Selection) -> AsyncIterator[Landing]:
        async with telling(target, Lie(kind="throttle", path=self.path, rate=self.rate), hit[0]) as landing:
            yield landing
