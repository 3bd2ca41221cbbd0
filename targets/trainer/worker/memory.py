"""States that this rank still holds: of the last cuts, so that a survivor of a warm restart need not read them back,
and of the last steps, so that a replica that is whole goes on where it was.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from targets.trainer.worker.checkpoint import Restored
from targets.trainer.worker.group import Group
from targets.trainer.worker.state import Fingerprint, TrainState

KEPT = 2  # the last committed one, and the one whose round is under way


class Held(NamedTuple):
    """A state of this rank at a cut: its own shards, and the digests of the whole."""

    restored: Restored
    rank: int
    tensors: dict[str, Tensor]
    fingerprint: Fingerprint


class Memory:
    """Newest states by generation. Which of them counts, only the store knows."""

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}
        self._steps: dict[int, dict[str, Tensor]] = {}

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

    @property
    def latest(self) -> int | None:
        """The last step after which the state was noted."""
        return max(self._steps, default=None)

    def note(self, step: int, state: TrainState) -> None:
        """Hold the state after that step and the one before: ranks that are stopped together differ by one at most."""
        self._steps = {known: own for known, own in self._steps.items() if known == step - 1} | {step: state.own()}

    def after(self, step: int) -> dict[str, Tensor] | None:
        """The state after that step."""
        return self._steps.get(step)

    def spoil(self, state: TrainState) -> None:
        """The deliberate bug `warm-keeps-newer-state`: take what was trained since for what was saved."""
        newer = state.own()
        self._held = {generation: held._replace(tensors=newer) for generation, held in self._held.items()}
