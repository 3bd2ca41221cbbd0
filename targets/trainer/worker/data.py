"""Text, its samples, and the order in which they are consumed. No torch."""

from __future__ import annotations

import functools
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MICRO_BATCH = 4  # samples of one forward at most


class Cursor(NamedTuple):
    """How many positions of which data epoch have been consumed; part of the state of the job."""

    data_epoch: int = 0
    position: int = 0


class Corpus:
    """`samples` windows of `length` + 1 bytes, spread evenly over the sources of the standard library."""

    def __init__(self, samples: int, length: int, *, limit: int = 1 << 20) -> None:
        self._text = _standard_library(limit)
        self._length = length + 1
        self._stride = max((len(self._text) - self._length) // samples, 1)

    def windows(self, ids: Sequence[int]) -> npt.NDArray[np.int64]:
        """One row a sample: inputs are all columns but the last, targets all but the first."""
        starts = [i * self._stride % (len(self._text) - self._length) for i in ids]
        return np.stack([self._text[start : start + self._length] for start in starts]).astype(np.int64)


class Sampler:
    """Which samples a rank takes at a cursor. Over all ranks each position is taken exactly once, at any world size.

    The order of a data epoch is a permutation by (seed, data epoch). A step takes the next `batch` positions; rank r of
    W takes positions r, r + W, … of those. `stale_stride` is the defect double-count-after-resize: the ranks of a
    resized group still step by the size of the old one.
    """

    def __init__(self, dataset: int, batch: int, seed: int, *, stale_stride: int | None = None) -> None:
        if dataset <= 0 or dataset % batch:
            raise ValueError(f"dataset ({dataset}) is no multiple of batch ({batch}): a step stays in one data epoch")
        self.dataset, self.batch, self._seed, self._stale_stride = dataset, batch, seed, stale_stride
        self._order = functools.lru_cache(maxsize=2)(self._permutation)

    def share(self, cursor: Cursor, rank: int, world: int) -> list[int]:
        """The ids of the samples that `rank` consumes in the step at `cursor`."""
        count = len(range(rank, self.batch, world))
        positions = (cursor.position + rank + i * (self._stale_stride or world) for i in range(count))
        order = self._order(cursor.data_epoch)
        return [int(order[position % self.dataset]) for position in positions]

    def advance(self, cursor: Cursor) -> Cursor:
        """The cursor after that step."""
        position = cursor.position + self.batch
        return Cursor(cursor.data_epoch + 1, 0) if position >= self.dataset else Cursor(cursor.data_epoch, position)

    def _permutation(self, data_epoch: int) -> npt.NDArray[np.int64]:
        return np.random.default_rng([self._seed, data_epoch]).permutation(self.dataset)


def micro_batches(share: Sequence[int], rounds: int) -> list[list[int]]:
    """`share` in `rounds` parts of nearly equal size; some may be empty, since all ranks run the same number."""
    return [list(share[i::rounds]) for i in range(rounds)]


def rounds(batch: int, world: int) -> int:
    """Forwards of one step: enough for the largest share at any rank."""
    largest = -(-batch // world)
    return -(-largest // MICRO_BATCH)


@functools.cache
def _standard_library(limit: int) -> npt.NDArray[np.uint8]:
    text = bytearray()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text += path.read_bytes()
        if len(text) >= limit:
            break
    return np.frombuffer(bytes(text[:limit]), dtype=np.uint8)
