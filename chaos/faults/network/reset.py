"""Connections that are reset."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.api import Duration
from chaos.faults.network._toxics import StreamFault, milliseconds


class Reset(StreamFault, frozen=True, kw_only=True):
    """Reset connections of a link (RST, at both ends) `after` their next data; what they sent meanwhile is lost.

    Proof: a connection of the harness gets ECONNRESET, and carried data before; the proxy tells of the hit.
    It has landed as soon as a connection of the members was reset.

    Heal: a new connection carries data. Those that were reset stay so.
    """

    fidelity = (
        "a peer that crashed and came back, a load balancer that was restarted, an idle flow that was dropped: an "
        "error at once, and nobody knows whether the last request took effect."
    )

    after: Duration = 0.0

    def toxic(self) -> tuple[str, Mapping[str, int]]:
        return "reset_peer", {"timeout": milliseconds(self.after)}
