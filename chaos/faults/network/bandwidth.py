"""Streams that are slow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from chaos.faults.network._toxics import StreamFault


class Bandwidth(StreamFault, frozen=True, kw_only=True):
    """Let only so many bytes per second pass over each connection of a link.

    Proof: what the harness sends over a connection of its own takes that long, and did not before; the proxy tells of
    the hit. It has landed as soon as a connection of the members was slowed.

    Heal: the bound goes, and the same bytes pass at once.
    """

    fidelity = (
        "a slow path or a throttled service, for each connection by itself. Does not show: connections that take the "
        "rate from each other, and drops in a full queue (`network.rate` does)."
    )

    rate: Annotated[
        int, Meta(ge=1000, extra={"unit": "size"}, description="bytes per second, such as 64KB or 1MB; at least 1KB")
    ]

    def toxic(self) -> tuple[str, Mapping[str, int]]:
        return "bandwidth", {"rate": self.rate // 1000}
