"""`blackhole`."""

from __future__ import annotations

from chaos.toxiproxy.toxic import Stage


class Blackhole(Stage):
    """Stop reading: nothing passes and nothing is lost. The sender fills the buffers and then waits; removal goes on.

    A hit is data that was seen to wait.
    """

    action = "held"

    def free(self) -> bool:
        return False

    def knock(self) -> None:
        self.hit(0)
