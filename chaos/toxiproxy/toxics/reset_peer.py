"""`reset_peer`."""

from __future__ import annotations

import asyncio
from random import Random

from chaos.toxiproxy.toxic import Attribute, End, Line, Stage, Value


class ResetPeer(Stage):
    """Reset the connection, at both ends, `timeout` milliseconds after the first data or end in this direction.

    Connections that were open when the toxic came are reset as well. With mode `always` it does not wait for data: an
    idle connection is reset, too. What comes in the meantime is dropped.
    """

    attributes = (Attribute("timeout"), Attribute("mode", "traffic", choices=("traffic", "always"), ours=True))
    action = "reset"

    def __init__(self, name: str, values: dict[str, Value], dice: Random, line: Line) -> None:
        super().__init__(name, values, dice, line)
        self._timer: asyncio.TimerHandle | None = None
        self._lost = False

    def start(self) -> None:
        if self.values["mode"] == "always":
            self._arm()

    def feed(self, data: bytes) -> None:
        self._lost = True
        self._arm()

    def finish(self, end: End) -> None:
        self._lost = True
        self._arm()

    def updated(self) -> None:
        if self._timer is not None or self.values["mode"] == "always":
            self.stop()
            self._arm()

    def leave(self) -> None:
        """Bytes that were swallowed cannot come back: such a connection is reset now."""
        self.stop()
        if self._lost:
            self._reset()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = self.line.loop.call_later(float(self.values["timeout"]) / 1000, self._reset)

    def _reset(self) -> None:
        self.hit(0)
        self.cut(End.RESET)
