"""Cuts that stand for the length of a block, with proof on either side."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import anyio

from chaos.api import Cut, Landing, Links
from chaos.errors import HealFailed, NotLanded


@asynccontextmanager
async def standing(target: Links, pairs: Iterable[tuple[str, str]]) -> AsyncIterator[Landing]:
    """Cut those pairs, restore them at the end. `cut` leaves nothing behind when it fails."""
    cut = Cut(pairs=tuple(pairs))
    landing = Landing(await target.cut(cut))
    try:
        yield landing
    finally:
        with anyio.CancelScope(shield=True):
            try:
                landing.healed = await target.restore(cut)
                landing.met = landing.healed.get("met")
            except NotLanded as error:
                raise HealFailed(
                    f"the network is not whole again: {error}", undo="end the target: its links end with it"
                ) from error
