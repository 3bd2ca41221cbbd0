"""The network of `chaos.testing.FakeTarget`, beyond cuts: what befalls packets and streams, in memory."""

from __future__ import annotations

from collections import Counter

import anyio.lowlevel

from chaos.api import JSON
from chaos.errors import NotLanded
from chaos.ways import Shape


class FakeNetwork:
    """Implements Lossy, Slow and Late but for `nodes`, `cut` and `restore`; on a numb one everything passes."""

    numb = False

    def __init__(self) -> None:
        super().__init__()
        self.ways: Counter[str] = Counter()

    def disturbed(self) -> frozenset[str]:
        """What stands now."""
        return frozenset(way for way, count in self.ways.items() if count)

    async def lose(self, shape: Shape) -> JSON:
        return await self._disturb("loses", shape)

    async def keep(self, shape: Shape) -> JSON:
        return await self._calm("loses", shape)

    async def slow(self, shape: Shape) -> JSON:
        return await self._disturb("slow", shape)

    async def quicken(self, shape: Shape) -> JSON:
        return await self._calm("slow", shape)

    async def delay(self, shape: Shape) -> JSON:
        return await self._disturb("late", shape)

    async def hasten(self, shape: Shape) -> JSON:
        return await self._calm("late", shape)

    async def _disturb(self, what: str, shape: Shape) -> JSON:
        await anyio.lowlevel.checkpoint()
        if self.numb:
            raise NotLanded("packets pass as before")
        self.ways.update(f"{a} {what} {b}" for a, b in shape.pairs)
        return {"mechanism": "fake", "pairs": [{"from": a, "to": b} for a, b in shape.pairs]}

    async def _calm(self, what: str, shape: Shape) -> JSON:
        await anyio.lowlevel.checkpoint()
        self.ways.subtract(f"{a} {what} {b}" for a, b in shape.pairs)
        return {"mechanism": "fake", "pairs": [{"from": a, "to": b} for a, b in shape.pairs]}
