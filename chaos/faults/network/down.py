"""A service that nobody can connect to."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from chaos.api import Fault, Landing, Selection, Selector
from chaos.faults.network._toxics import Link, standing
from chaos.ways import Streams, Toxic


class Down(Fault[Streams], frozen=True, kw_only=True):
    """Close the connections that members have over a link and refuse new ones, while the service itself runs on.

    Proof: a connection of the harness is refused, and was not before. It has landed as soon as one of the
    members was closed or refused.

    Heal: a new connection is accepted.
    """

    fidelity = (
        "a service that is restarted, or a port that is closed: everybody is told at once (FIN, then ECONNREFUSED). "
        "The service keeps its state, and hears that its clients have gone."
    )

    link: Link
    members: Selector

    def sections(self) -> tuple[str, ...]:
        return ("links",)

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    def inject(self, target: Streams, *hit: Selection) -> AbstractAsyncContextManager[Landing]:
        return standing(target, Toxic(link=self.link, nodes=hit[0].nodes, kind="down"))
