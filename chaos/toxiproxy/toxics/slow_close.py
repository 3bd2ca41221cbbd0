"""`slow_close`."""

from __future__ import annotations

from chaos.toxiproxy.toxic import Attribute, End, Queue


class SlowClose(Queue):
    """Hold back the end of the stream for `delay` milliseconds. Removal lets it go."""

    attributes = (Attribute("delay"),)
    action = "end delayed"

    def finish(self, end: End) -> None:
        delay = float(self.values["delay"]) / 1000
        if delay > 0:
            self.hit(0)
        self.hold(end, self.line.loop.time() + delay)
