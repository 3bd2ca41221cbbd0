"""Streams that arrive late."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.api import Duration
from chaos.faults.network._toxics import StreamFault, milliseconds
from chaos.faults.network._ways import Positive


class Latency(StreamFault, frozen=True, kw_only=True):
    """Have what is sent over a link arrive later, by `latency` ± `jitter`; the order is kept, and nothing is slower.

    Proof: a byte over a connection of the harness takes that long, and did not before; the proxy tells of the hit.
    It has landed as soon as a connection of the members was late.

    Heal: what is on its way is let go at once, and a byte is fast again.
    """

    fidelity = (
        "a long way or a busy peer, as the program sees it: data is late. Does not show: late handshakes and "
        "acknowledgements, so no retransmission and no smaller window of TCP (`network.delay` does)."
    )

    latency: Positive
    jitter: Duration = 0.0

    def toxic(self) -> tuple[str, Mapping[str, int]]:
        return "latency", {"latency": milliseconds(self.latency), "jitter": milliseconds(self.jitter)}
