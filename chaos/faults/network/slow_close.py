"""Connections whose end comes late."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.network._toxics import StreamFault, milliseconds
from chaos.faults.network._ways import Positive


class SlowClose(StreamFault, frozen=True, kw_only=True):
    """Hold back the end of a connection for `delay`: who closed it has gone, and its peer does not know.

    Proof: a connection of the harness is closed at one end, and the other hears of it that much later; the proxy tells
    of the hit. It has landed as soon as the end of a connection of the members was held back.

    Heal: ends that are held back are let go, and the next end is told at once.
    """

    fidelity = "a half-closed connection behind a middle box: the descriptor stays, the peer has gone."

    delay: Positive

    def toxic(self) -> tuple[str, Mapping[str, int]]:
        return "slow_close", {"delay": milliseconds(self.delay)}
