"""Connections that end in the middle."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.api import Size
from chaos.faults.network._toxics import StreamFault


class LimitData(StreamFault, frozen=True, kw_only=True):
    """Close a connection of a link after exactly so many bytes, counted from when the fault landed on it.

    Proof: of what the harness sends over a connection of its own, just that many bytes arrive; the proxy tells of the
    hit. It has landed as soon as a connection of the members was cut.

    Heal: a new connection carries more than that. Those that were cut stay so.
    """

    fidelity = (
        "a connection that breaks in the middle of a message: the end looks like an orderly one (FIN), only the "
        "length tells that something is missing."
    )

    bytes: Size

    def toxic(self) -> tuple[str, Mapping[str, int]]:
        return "limit_data", {"bytes": self.bytes}
