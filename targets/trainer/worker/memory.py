"""States of the last cuts that this rank still holds: a survivor of a warm restart need not read them back."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from targets.trainer.worker.checkpoint import Restored
from targets.trainer.worker.group import Group
from targets.trainer.worker.state import Fingerprint, TrainState, shard

KEPT = 2  # the last committed one, and the one whose round is under way


class Held(NamedTuple):
    """A state of this rank: its own shards, and the digests of the whole."""

    restored: Restored
    rank: int
    tensors: dict[str, Tensor]
    fingerprint: Fingerprint


class Memory:
    """Newest states by generation. Which of them counts, only the store knows."""

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}

    def keep(self, held: Held) -> None:
        """Hold that state, and part with the oldest."""
        self._held[held.restored.generation] = held
        while len(self._held) > KEPT:
            del self._held[min(self._held)]

    def recall(self, generation: int, step: int, group: Group) -> Held | None:
        """The state of that generation, where this rank had the same place in a group of the same size."""
        held = self._held.get(generation)
        if held is None or (held.restored.step, held.rank, held.restored.world) != (step, group.rank, group.world):
            return None
        return held

    def spoil(self, state: TrainState) -> None:
        """The deliberate bug `warm-keeps-newer-state`: take what was trained since for what was saved."""
        newer = own(state.snapshot())
        self._held = {generation: held._replace(tensors=newer) for generation, held in self._held.items()}


def own(snapshot: dict[str, Tensor]) -> dict[str, Tensor]:
    """The shards of a snapshot that are this rank's, free of the group that they were made in."""
    return {name: shard(tensor) for name, tensor in snapshot.items()}
