"""Ways between two groups of nodes, and what befalls packets on them for the length of a block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import product
from typing import Annotated, Literal

import anyio
from msgspec import Meta

from chaos.api import JSON, Landing, Selection
from chaos.errors import HealFailed, NotLanded
from chaos.ways import Shape

Direction = Literal["both", "a-to-b", "b-to-a"]
Positive = Annotated[float, Meta(gt=0, extra={"unit": "duration"}, description="seconds, such as 250ms, 8s, 2m, 1h")]
Change = Callable[[Shape], Awaitable[JSON]]


def ways(hit: tuple[Selection, ...], direction: Direction) -> tuple[tuple[str, str], ...]:
    """From each node of one side to each of the other; NotLanded where a side is empty or a node is on both."""
    a, b = (selection.nodes for selection in hit)
    if not a or not b:
        raise NotLanded(f"a side without a node: {list(a)} | {list(b)}")
    if both := set(a) & set(b):
        raise NotLanded(f"on both sides: {', '.join(sorted(both))}")
    there = tuple(product(a, b)) if direction != "b-to-a" else ()
    back = tuple(product(b, a)) if direction != "a-to-b" else ()
    return there + back


@asynccontextmanager
async def disturbed(enter: Change, leave: Change, shape: Shape) -> AsyncIterator[Landing]:
    """`enter` measures that it is so and leaves nothing behind when it fails; `leave` measures that it is over."""
    landing = Landing(await enter(shape))
    try:
        yield landing
    finally:
        with anyio.CancelScope(shield=True):
            try:
                landing.healed = await leave(shape)
                landing.met = landing.healed.get("met")
            except NotLanded as error:
                raise HealFailed(
                    f"the network is not as it was: {error}", undo="end the target: its links end with it"
                ) from error
