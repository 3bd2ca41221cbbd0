"""The power of `chaos.testing.FakeTarget`: nodes that go dark and come back, disks that lose nothing, in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import anyio.lowlevel

from chaos.api import JSON, Member
from chaos.errors import NotLanded


class FakePower(ABC):
    """Implements PoweredDisks; on a numb target nobody loses power."""

    numb = False

    def __init__(self) -> None:
        super().__init__()
        self.dark: dict[str, tuple[str, ...]] = {}  # node without power -> members that it ended

    @abstractmethod
    def members(self) -> tuple[Member, ...]: ...

    @abstractmethod
    def end(self, name: str) -> None: ...

    @abstractmethod
    def restart(self, name: str) -> Member: ...

    async def power_off(self, nodes: Sequence[str]) -> JSON:
        await anyio.lowlevel.checkpoint()
        there = [m for m in self.members() if m.node in nodes]
        if not there or self.numb:
            raise NotLanded(f"nobody on {', '.join(nodes)} lost power")
        for node in nodes:
            self.dark[node] = tuple(m.name for m in there if m.node == node)
        for member in there:
            self.end(member.name)
        return {"nodes": list(nodes), "ended": [m.name for m in there]}

    async def power_on(self, nodes: Sequence[str]) -> JSON:
        await anyio.lowlevel.checkpoint()
        names = [name for node in nodes for name in self.dark.pop(node, ())]
        return {"nodes": list(nodes), "started": {name: self.restart(name).pid for name in names}}

    async def lose_unsynced(self, path: str) -> JSON:
        await anyio.lowlevel.checkpoint()
        return {"mechanism": "fake", "folder": path, "lost": []}
