"""`timeout`."""

from __future__ import annotations

import asyncio
from random import Random

from chaos.toxiproxy.toxic import Attribute, End, Line, Stage, Value


class Timeout(Stage):
    """Drop all data and close the connection after `timeout` milliseconds, never when that is 0.

    With mode `idle`, as in the original, each chunk starts the time anew; with `absolute` it counts from the moment
    when the toxic joined the connection. Removal closes the connection, for bytes were lost.
    """

    attributes = (Attribute("timeout"), Attribute("mode", "idle", choices=("idle", "absolute"), ours=True))
    action = "dropped"

    def __init__(self, name: str, values: dict[str, Value], dice: Random, line: Line) -> None:
        super().__init__(name, values, dice, line)
        self._timer: asyncio.TimerHandle | None = None
        self._began = 0.0

    def start(self) -> None:
        self._began = self.line.loop.time()
        self._arm()

    def feed(self, data: bytes) -> None:
        self.hit(len(data))
        if self.values["mode"] == "idle":
            self._began = self.line.loop.time()
            self._arm()

    def finish(self, end: End) -> None:
        """A sender that ends ends the connection: with a gap in it, the stream must not look complete and go on."""
        self.stop()
        self.next.finish(End.CUT if end is End.EOF else end)

    def updated(self) -> None:
        self._arm()

    def leave(self) -> None:
        self.stop()
        self.cut()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self.stop()
        after = float(self.values["timeout"]) / 1000
        if after > 0:
            self._timer = self.line.loop.call_at(self._began + after, self._close)

    def _close(self) -> None:
        self._timer = None
        self.hit(0)
        self.cut()
