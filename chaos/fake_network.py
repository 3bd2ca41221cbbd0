"""The network of `chaos.testing.FakeTarget`, beyond cuts: what befalls packets and streams, in memory."""

from __future__ import annotations

from collections import Counter

import anyio.lowlevel

from chaos.api import JSON
from chaos.errors import NotLanded
from chaos.ways import Misnaming, Shape, Toxic


class FakeNetwork:
    """Implements Streams and Names, and Lossy, Slow and Late but for `nodes`, `cut` and `restore`.

    On a numb one everything passes. `nobody_connects`: no member makes a connection while a toxic stands.
    """

    numb = False
    nobody_connects = False

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

    async def misname(self, change: Misnaming) -> JSON:
        await anyio.lowlevel.checkpoint()
        if self.numb:
            raise NotLanded("names are answered as before")
        self.ways.update(f"{name} is {change.answer}" for name in change.names)
        return {"mechanism": "fake", "with": dict.fromkeys(change.names, change.answer)}

    async def rename(self, change: Misnaming) -> JSON:
        await anyio.lowlevel.checkpoint()
        self.ways.subtract(f"{name} is {change.answer}" for name in change.names)
        return {"after": dict.fromkeys(change.names, "fake")}

    async def poison(self, toxic: Toxic) -> JSON:
        await anyio.lowlevel.checkpoint()
        if self.numb:
            raise NotLanded("a connection fares as before")
        self.ways.update(_names(toxic))
        return {"mechanism": "fake", "ways": [{"from": node} for node in toxic.nodes]}

    async def cure(self, toxic: Toxic) -> JSON:
        await anyio.lowlevel.checkpoint()
        self.ways.subtract(_names(toxic))
        return {"ways": [{"from": node} for node in toxic.nodes], "met": {"connections": 1}}

    async def wait_met(self, toxic: Toxic) -> JSON:
        if self.nobody_connects or self.numb:
            await anyio.sleep_forever()
        return {"from": toxic.nodes[0]}

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


def _names(toxic: Toxic) -> list[str]:
    ways = [f"{toxic.kind} {stream}" for stream in toxic.streams] or [toxic.kind]
    return [f"{toxic.link} from {node}: {way}" for node in toxic.nodes for way in ways]
