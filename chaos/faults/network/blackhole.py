"""Connections that stand and carry nothing."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.api import Duration
from chaos.faults.network._toxics import StreamFault, milliseconds


class Blackhole(StreamFault, frozen=True, kw_only=True):
    """Drop all data of a link and keep its connections open; new ones come about and carry nothing either.

    With `timeout` a connection closes after that much silence. `stream` makes a one-way hole: what is said arrives,
    and no answer comes back.

    Proof: what the harness sends over a connection of its own does not arrive, and did before; the proxy tells of the
    hit. It has landed as soon as a connection of the members lost data.

    Heal: connections that lost data are closed, since there is a gap in them; a new one carries data.
    """

    fidelity = (
        "a firewall that forgot a flow, a peer that hangs behind an open socket: nobody gets an error, so only silence "
        "tells. Does not show: retransmissions, since the kernel acknowledges what the proxy drops."
    )

    timeout: Duration = 0.0

    def toxic(self) -> tuple[str, Mapping[str, int]]:
        return "timeout", {"timeout": milliseconds(self.timeout)}
