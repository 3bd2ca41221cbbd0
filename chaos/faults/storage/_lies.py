"""What the faults share that change what members see of their files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import Annotated

import anyio
from msgspec import Meta

from chaos.api import Landing, Selection
from chaos.errors import NotLanded
from chaos.storage import Lie, Views

Glob = Annotated[str, Meta(description="a glob below the target's data", examples=["store/**/shards/*"])]
Count = Annotated[int, Meta(ge=1)]


def check(path: str, share: float = 0.0, name: str = "") -> None:
    """Refuse a path that leads out of the data, and a share of more than all."""
    parts = PurePosixPath(path)
    if not parts.parts or parts.is_absolute() or ".." in parts.parts:
        raise ValueError(f"`path` is a glob below the target's data, not {path!r}")
    if share > 1:
        raise ValueError(f"`{name}` is a share, 1 at most, not {share:g}")


@asynccontextmanager
async def telling(target: Views, lie: Lie, selection: Selection) -> AsyncIterator[Landing]:
    """Armed for the selected members at once; landed when one of them was told it first. The truth at the end."""
    if not selection.members:
        raise NotLanded("no member is selected")
    told = await target.lie(lie, selection.members)
    landing = Landing({}, hit=told.hit)
    try:
        yield landing
    finally:
        with anyio.CancelScope(shield=True):
            landing.healed = await told.lift()
