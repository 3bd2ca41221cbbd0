"""Batches that come late."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from chaos.api import Duration, Fault, Hooks, Landing, Selection, Selector
from chaos.faults._tampering import Since, Where, change, tampering


class SlowLoader(Fault[Hooks], frozen=True, kw_only=True):
    """Hold members up by `seconds` at every batch that they read.

    Proof: the seconds that the first read took longer, measured in the member.

    Heal: the hook is off, as the member says, and how many reads it had held up.
    """

    fidelity = "slow storage or preprocessing: the rank waits without using its processor, and its peers wait for it."

    members: Selector
    seconds: Duration
    site: str = "batch"
    where: Where = {}
    since: Since = {}
    within: Duration = 30.0  # for the first hit

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    def inject(self, target: Hooks, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        deed = change("delay", where=self.where, since=self.since, seconds=self.seconds)
        return tampering(target, hit[0], self.site, deed, self.within)
