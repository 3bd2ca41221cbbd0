"""The storage of `chaos.testing.FakeTarget`, in memory: nodes that go dark and come back, disks that lose nothing, lies
about files that hit at once."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio.lowlevel

from chaos.api import JSON, Member
from chaos.errors import NotLanded
from chaos.layout import Layout
from chaos.storage import Lie


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


class FakeViews:
    """Implements Views; on a numb target everybody sees the bare files."""

    numb = False

    def __init__(self) -> None:
        super().__init__()
        self.lies: list[FakeTold] = []

    def lied(self) -> frozenset[str]:
        """What stands now."""
        return frozenset(f"{told.lie.kind} {name}" for told in self.lies for name in told.names)

    async def lie(self, lie: Lie, members: Sequence[Member]) -> FakeTold:
        await anyio.lowlevel.checkpoint()
        if self.numb:
            raise NotLanded(f"{members[0].name} sees the bare folder")
        told = FakeTold(self, lie, tuple(m.name for m in members))
        self.lies.append(told)
        return told


class FakeTold:
    """Implements Told: hits as soon as somebody asks."""

    def __init__(self, views: FakeViews, lie: Lie, names: tuple[str, ...]) -> None:
        self._views = views
        self.lie, self.names = lie, names

    async def hit(self, before: Callable[[], None]) -> JSON:
        await anyio.lowlevel.checkpoint()
        before()
        return {"mechanism": "fake", "path": self.lie.path}

    async def lift(self) -> JSON:
        await anyio.lowlevel.checkpoint()
        if self in self._views.lies:
            self._views.lies.remove(self)
        return {"hits": 1}


class FakeFiles:
    """Implements Checkpoints, in a real folder."""

    def __init__(self) -> None:
        super().__init__()
        self.folder: Path | None = None
        self.checkpoints = Layout(
            generation="gen-{number}", shards="shards/*", manifest="manifest.json", marker="COMMITTED", latest="latest"
        )

    def data_root(self) -> Path:
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="chaos-fake-"))
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        return self.folder

    def layout(self) -> Layout:
        return self.checkpoints
