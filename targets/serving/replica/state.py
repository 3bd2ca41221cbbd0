"""A session as it travels: to the store, to another replica, and back."""

from __future__ import annotations

import zlib

import msgspec
import torch
from torch import Tensor

from targets.serving.models.shapes import BLOCK, HIDDEN, LAYERS
from targets.serving.replica.engine import blocks_for
from targets.serving.replica.sessions import SHARED, Session

BYTES = LAYERS * 2 * BLOCK * HIDDEN * 4  # of a block


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What a saved session is; its blocks come beside it."""

    session: str
    generation: int
    digest: str  # of the weights that computed it
    token: int
    turn: int
    tokens: list[int]
    fed: int
    sums: dict[int, int]  # of each block, by its place in the session


class State(msgspec.Struct, kw_only=True):
    """A head with blocks: all of them, or those that have changed."""

    head: Head
    blocks: dict[int, bytes]

    @property
    def complete(self) -> bool:
        """Whether all blocks are there, as they were computed."""
        sums = self.head.sums
        return all(zlib.crc32(self.blocks.get(i, b"")) == sums.get(i) for i in range(SHARED, blocks_for(self.head.fed)))


def take(session: Session, cache: Tensor) -> State:
    """What has changed in a session since it was saved, with the checksums of the rest."""
    last = blocks_for(session.fed)
    changed = range(max(session.saved // BLOCK, SHARED), last)
    blocks = {place: cache[session.blocks[place]].numpy().tobytes() for place in changed}
    sums = {place: session.sums[place] for place in range(SHARED, last) if place not in blocks}
    session.sums = {**sums, **{place: zlib.crc32(data) for place, data in blocks.items()}}
    head = Head(
        session=session.id,
        generation=session.loaded.generation,
        digest=session.loaded.digest,
        token=session.token,
        turn=session.turn,
        tokens=list(session.tokens),
        fed=session.fed,
        sums=session.sums,
    )
    return State(head=head, blocks=blocks)


def put(state: State, session: Session, cache: Tensor, tokens: int) -> None:
    """Give a session, which has the room, the keys and values of its first `tokens` tokens."""
    for place in range(SHARED, blocks_for(tokens)):
        block = torch.frombuffer(bytearray(state.blocks[place]), dtype=torch.float32)
        cache[session.blocks[place]] = block.view(LAYERS, 2, BLOCK, HIDDEN)
    session.fed = tokens


def merge(kept: State | None, update: State) -> State | None:
    """What a holder of copies has after an update; None: it lacks something that was sent before."""
    blocks = {**(kept.blocks if kept else {}), **update.blocks}
    last = blocks_for(update.head.fed)
    merged = State(head=update.head, blocks={place: data for place, data in blocks.items() if place < last})
    return merged if merged.complete else None
