"""A client that does not know yet what others have changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chaos.api import Fault, Landing, Selection, Selector
from chaos.faults.storage._lies import Glob, check, telling
from chaos.storage import Lie, Views


class StaleMetadata(Fault[Views], frozen=True, kw_only=True):
    """Show members the names and attributes of files as of the injection: what others change, they do not see.

    A file made since is not there for them, one that was removed still is, until they open it (ESTALE). What they open
    has its content of today.

    Proof: the first answer that was not the truth: a name, what is there and what was said.

    Heal: they see what is there.
    """

    fidelity = (
        "the attribute cache of NFS, Lustre and the like, which lasts seconds to minutes; here it lasts as long as the "
        "fault stands, and one member can be behind while the others are not."
    )

    members: Selector
    path: Glob = "**"

    def __post_init__(self) -> None:
        check(self.path)

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Views, *hit: Selection) -> AsyncIterator[Landing]:
        async with telling(target, Lie(kind="stale-metadata", path=self.path), hit[0]) as landing:
            yield landing
