"""`slicer`."""

from __future__ import annotations

from chaos.toxiproxy.toxic import Attribute, End, Queue


class Slicer(Queue):
    """Cut chunks into pieces of `average_size` ± `size_variation` bytes, `delay` microseconds apart.

    The sizes are drawn evenly, so the average is the average; the last piece of a chunk is what remains.
    """

    attributes = (Attribute("average_size", least=1, required=True), Attribute("size_variation"), Attribute("delay"))
    action = "sliced"
    room = 256 * 1024

    _clear = 0.0  # when the pause after the latest piece ends

    def feed(self, data: bytes) -> None:
        average, variation = int(self.values["average_size"]), int(self.values["size_variation"])
        pause = float(self.values["delay"]) / 1e6
        due = max(self._clear, self.line.loop.time())
        at = 0
        if len(data) > average + variation or pause:
            self.hit(len(data))
        while at < len(data):
            size = max(1, average + (self.dice.randint(-variation, variation) if variation else 0))
            self.hold(data[at : at + size], due)
            at += size
            due += pause
        self._clear = due

    def finish(self, end: End) -> None:
        self.hold(end, max(self._clear, self.line.loop.time()))
