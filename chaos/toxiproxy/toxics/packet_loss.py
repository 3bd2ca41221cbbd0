"""`packet_loss`."""

from __future__ import annotations

from math import ceil

from chaos.toxiproxy.toxic import Attribute, End, Queue

SEGMENT = 1448  # bytes of data in a full TCP segment on Ethernet
LARGEST = 60.0  # seconds, for a timeout that doubles


class PacketLoss(Queue):
    """What packet loss looks like above TCP: now and then the stream stands still, then all of it comes.

    Each segment is lost with `loss` percent; its chunk and all behind wait for the retransmission, `rto` milliseconds,
    twice as long each time that is lost again. A model: without fast retransmission and without a smaller window.
    """

    attributes = (Attribute("loss", 0.0, least=1e-9, most=99, required=True), Attribute("rto", 200))
    action = "delayed"

    _clear = 0.0

    def feed(self, data: bytes) -> None:
        loss, rto = float(self.values["loss"]) / 100, float(self.values["rto"]) / 1000
        stall = 0.0
        for _ in range(ceil(len(data) / SEGMENT)):
            wait = rto
            while self.dice.random() < loss:
                stall += min(wait, LARGEST)
                wait *= 2
        if stall:
            self.hit(len(data))
        self._clear = max(self._clear, self.line.loop.time()) + stall
        self.hold(data, self._clear)

    def finish(self, end: End) -> None:
        self.hold(end, max(self._clear, self.line.loop.time()))
