"""Bits that turn between the disk and the reader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from msgspec import Meta

from chaos.api import Fault, Landing, Ratio, Selection, Selector
from chaos.faults.storage._lies import Glob, check, telling
from chaos.storage import Lie, Views


class BitRot(Fault[Views], frozen=True, kw_only=True):
    """Give members that read a file that matches the glob `path` one byte with turned bits, at the share `at` of it.

    The bytes on the disk stay as they are: others read what was written. `mask` says which bits of the byte.

    Proof: the first read that was changed: file, offset, the byte that is stored and the one that was given.

    Heal: reads give what is stored.
    """

    fidelity = (
        "a rotten sector, a bad cable or memory below the page cache: wrong bytes and no error, at each read. "
        "A file that is mapped into memory is changed as it is read in; what a reader holds already is not."
    )

    members: Selector
    path: Glob
    at: Ratio = 0.5
    mask: Annotated[int, Meta(ge=1, le=255)] = 1

    def __post_init__(self) -> None:
        check(self.path, self.at, "at")

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Views, *hit: Selection) -> AsyncIterator[Landing]:
        async with telling(target, Lie(kind="bit-rot", path=self.path, at=self.at, mask=self.mask), hit[0]) as landing:
            yield landing
