"""A target without members and nodes: nobody to isolate, to start or to end, so no lab and no supervisor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from chaos.api import Finished, Launch, Member


class Nobody:
    """Implements Target and Files."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "data"
        for made in (folder / "logs", self._data):
            made.mkdir(parents=True, exist_ok=True)

    def members(self) -> tuple[Member, ...]:
        return ()

    async def wait_ready(self) -> None:
        """At once."""

    async def wait_finished(self) -> Finished:
        """Never: nobody can end."""
        await anyio.sleep_forever()
        raise AssertionError("unreachable")

    async def dump_stacks(self) -> tuple[str, ...]:
        return ()

    def mechanisms(self) -> dict[str, str]:
        return {"lab": "none needed: no members"}

    def data_root(self) -> Path:
        return self._data


@asynccontextmanager
async def open_nobody(launch: Launch) -> AsyncIterator[Nobody]:
    """The target, in folders of its own as any other."""
    yield Nobody(launch.folder)
