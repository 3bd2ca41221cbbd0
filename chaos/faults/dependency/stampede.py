"""A cache that is cold all at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chaos.api import Fault, Landing, Selection, Selector
from chaos.errors import NotLanded
from chaos.faults.dependency._resp import AT_ONCE, Keys, Link, Refused, calling, shown
from chaos.talk import Dials
from chaos.units import counted


class Stampede(Fault[Dials], frozen=True, kw_only=True):
    """Drop all `keys` of a Redis at once: everybody misses at the same moment, and asks the source behind it.

    Proof: how many keys matched, and how many of them the server says that it has removed.

    Heal: none, it is for the target to fill its cache again.
    """

    fidelity = (
        "a cache that was flushed, restarted without its data, or filled with one expiry for all. The server goes on "
        "answering, and at once; one that is gone or slow is process.kill, process.freeze and network.latency."
    )
    instant = True

    members: Selector = Selector(roles=("store",))  # the server, for the record: whom it hits is said by the link
    link: Link = "store"
    keys: Keys = "*"

    def sections(self) -> tuple[str, ...]:
        return ("links",)

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Dials, *hit: Selection) -> AsyncIterator[Landing]:
        if not hit[0].members:
            raise NotLanded("no server selected")
        async with calling(target, self.link) as redis:
            try:
                found = await redis.keys(self.keys)
                removed = 0
                for first in range(0, len(found), AT_ONCE):
                    answer = await redis("DEL", *found[first : first + AT_ONCE])
                    removed += answer if isinstance(answer, int) else 0
            except Refused as error:
                raise NotLanded(f"the server refuses: {error}") from error
            if not removed:
                raise NotLanded(f"{counted(len(found), 'key matches', 'keys match')} {self.keys}, and none was removed")
            examples = [shown(key) for key in found[:3]]
            yield Landing(
                {**redis.about(), "keys": self.keys, "found": len(found), "removed": removed, "such_as": examples}
            )
