"""`limit_data`."""

from __future__ import annotations

from random import Random

from chaos.toxiproxy.toxic import Attribute, End, Line, Stage, Value


class LimitData(Stage):
    """Pass exactly `bytes` bytes, counted from when the toxic joined the connection, then close it.

    With 0 it closes at the first data, not before.
    """

    attributes = (Attribute("bytes"),)
    action = "closed"

    def __init__(self, name: str, values: dict[str, Value], dice: Random, line: Line) -> None:
        super().__init__(name, values, dice, line)
        self._passed = 0
        self._closed = False

    def feed(self, data: bytes) -> None:
        if self._closed:
            return
        left = max(0, int(self.values["bytes"]) - self._passed)
        if part := data[:left]:
            self._passed += len(part)
            self.next.feed(part)
        if len(data) >= left:
            self._closed = True
            self.hit(len(data) - len(part))
            self.cut()

    def finish(self, end: End) -> None:
        if not self._closed:
            self.next.finish(end)
