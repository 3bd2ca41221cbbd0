"""What the faults on file operations have in common: which ones they hit, and the way from armed to healed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import anyio
import msgspec
from msgspec import Meta

from chaos.api import Fault, Landing, Selection, Selector, Taps
from chaos.errors import HealFailed, NotLanded
from chaos.fileops import Op, Rule, reachable

LIFTS_WITHIN = 10.0  # seconds that the tap may take to let everything pass: some milliseconds on a busy machine
Ops = Annotated[tuple[Op, ...], Meta(min_length=1, description="operations, such as [write, fsync]")]
Count = Annotated[int, Meta(ge=1)]


class FileFault(Fault[Taps], frozen=True, kw_only=True):
    """Hits the operations on files that match `path` which the selected members do. Of those that match it hits the
    `nth`, or the ones `from` … `to`, each `every`th of them."""

    path: Annotated[str, Meta(description="a glob, below the target's data unless it begins with /")]
    members: Selector = Selector()
    nth: Count | None = None
    first: Count = msgspec.field(default=1, name="from")
    last: Count | None = msgspec.field(default=None, name="to")
    every: Count = 1

    def __post_init__(self) -> None:
        if not reachable(self.path):
            raise ValueError(f"no operation is on {self.path!r}: paths are told without `..`")
        if self.nth is not None and (self.first, self.last, self.every) != (1, None, 1):
            raise ValueError("`nth` means one operation; `from`, `to` and `every` mean several")
        if self.last is not None and self.last < self.first:
            raise ValueError(f"from {self.first} to {self.last} is nothing")

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @abstractmethod
    def rule(self) -> Rule:
        """What becomes of which operations."""

    def hitting(self, ops: tuple[Op, ...], **action: Any) -> Rule:
        """A rule for the operations that the settings count."""
        first, last = (self.nth, self.nth) if self.nth is not None else (self.first, self.last)
        return Rule(ops=ops, path=self.path, first=first, last=last, every=self.every, **action)

    @asynccontextmanager
    async def inject(self, target: Taps, *hit: Selection) -> AsyncIterator[Landing]:
        names = tuple(m.name for m in hit[0].members)
        if not names:
            raise NotLanded("no member is selected")
        tapped = await target.tap(self.rule(), None if self.members == Selector() else names)
        landing = Landing({}, hit=tapped.first)
        try:
            yield landing
        finally:
            with anyio.move_on_after(LIFTS_WITHIN, shield=True) as limit:
                landing.healed = await tapped.lift()
            if limit.cancelled_caught:
                raise HealFailed("the tap does not answer", "end the run: the tap ends with it")
