"""`latency`."""

from __future__ import annotations

from chaos.toxiproxy.toxic import Attribute, End, Queue


class Latency(Queue):
    """A delay line: every chunk is passed on `latency` ± `jitter` after it came, so a stream is late, not slow.

    The jitter of each chunk is drawn from the connection's own dice. Removal passes on what is on its way.
    """

    attributes = (Attribute("latency"), Attribute("jitter"))  # milliseconds
    action = "delayed"

    def feed(self, data: bytes) -> None:
        delay = self._delay()
        if delay > 0:
            self.hit(len(data))
        self.hold(data, self.line.loop.time() + delay)

    def finish(self, end: End) -> None:
        """An end has no delay of its own, but what is before it keeps its place."""
        self.hold(end, self.line.loop.time())

    def _delay(self) -> float:
        latency, jitter = float(self.values["latency"]), float(self.values["jitter"])
        if jitter:
            latency += self.dice.uniform(-jitter, jitter)
        return latency / 1000
