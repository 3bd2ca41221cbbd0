"""`corrupt`."""

from __future__ import annotations

from random import Random

from chaos.toxiproxy.toxic import Attribute, Line, Stage, Value


class Corrupt(Stage):
    """Flip single bits, `flips_per_mb` of them in a MB (1,000,000 bytes) on average.

    Where they are depends on the seed and on the place in the stream, not on how the stream was cut into chunks.
    """

    attributes = (Attribute("flips_per_mb", 0.0, least=1e-9, most=8e6, required=True),)
    action = "corrupted"

    def __init__(self, name: str, values: dict[str, Value], dice: Random, line: Line) -> None:
        super().__init__(name, values, dice, line)
        self._ahead = self._draw()  # bytes until the next flip

    def feed(self, data: bytes) -> None:
        flipped = bytearray(data)
        at, flips = self._ahead, 0
        while at < len(data):
            flipped[int(at)] ^= 1 << self.dice.randrange(8)
            flips += 1
            at += self._draw()
        self._ahead = at - len(data)
        if flips:
            self.hit(flips)
        self.next.feed(bytes(flipped))

    def updated(self) -> None:
        self._ahead = self._draw()

    def _draw(self) -> float:
        return self.dice.expovariate(float(self.values["flips_per_mb"]) / 1e6)
