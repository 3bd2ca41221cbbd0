"""Names that are answered wrongly, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from chaos.api import Fault, Landing, Selection, Selector
from chaos.errors import HealFailed, NotLanded
from chaos.ways import Misnaming, Names


class Dns(Fault[Names], frozen=True, kw_only=True):
    """Answer the names of nodes with nothing, or with the address of another node, to everybody who asks from now on.

    Proof: a process in the lab asks for each name by the library that members use, before and with it.

    Heal: each name is answered as before, which is asked for again.
    """

    fidelity = (
        "a name service that lost a record, or has an old one. Names come from the lab's /etc/hosts, so no answer is "
        "late and nothing is cached by a resolver; connections that stand, and members that know addresses, go on."
    )

    members: Selector
    answer: str | None = None

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    @asynccontextmanager
    async def inject(self, target: Names, *hit: Selection) -> AsyncIterator[Landing]:
        if not hit[0].nodes:
            raise NotLanded("no node selected, so no name")
        change = Misnaming(names=hit[0].nodes, answer=self.answer)
        landing = Landing(await target.misname(change))
        try:
            yield landing
        finally:
            with anyio.CancelScope(shield=True):
                try:
                    landing.healed = await target.rename(change)
                except NotLanded as error:
                    raise HealFailed(
                        f"names are not as they were: {error}", undo="end the target: its names end with it"
                    ) from error
