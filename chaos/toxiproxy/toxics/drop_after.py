"""`drop_after`."""

from __future__ import annotations

from random import Random

from chaos.toxiproxy.toxic import Attribute, End, Line, Stage, Value


class DropAfter(Stage):
    """Pass `bytes` bytes, then silently drop the rest, the end included: the connection stays open and goes quiet.

    Stands for a middle box that forgot the connection. Removal closes a connection that lost bytes.
    """

    attributes = (Attribute("bytes"),)
    action = "dropped"

    def __init__(self, name: str, values: dict[str, Value], dice: Random, line: Line) -> None:
        super().__init__(name, values, dice, line)
        self._passed = 0

    def feed(self, data: bytes) -> None:
        part = data[: max(0, int(self.values["bytes"]) - self._passed)] if not self.hits else b""
        self._passed += len(part)
        if len(part) < len(data):
            self.hit(len(data) - len(part))
        if part:
            self.next.feed(part)

    def finish(self, end: End) -> None:
        if self._passed >= int(self.values["bytes"]):
            self.hit(0)
        else:
            self.next.finish(end)

    def leave(self) -> None:
        if self.hits:
            self.cut()
