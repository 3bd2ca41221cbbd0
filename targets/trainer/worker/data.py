"""Text, its samples, and the order in which they are consumed. No torch."""

from __future__ import annotations

import functools
import sysconfig
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chaos.inside import recovery_path, tamper

MICRO_BATCH = 4  # samples of one forward at most


class Cursor(NamedTuple):
    """How many positions of which data epoch have been consumed; part of the state of the job."""

    data_epoch: int = 0
    position: int = 0


class Batch(NamedTuple):
    """Windows as they were read. An unsound one has the right shape and is not what the data set holds."""

    windows: npt.NDArray[np.int64]  # one row a sample: inputs are all columns but the last, targets all but the first
    sound: bool
    read: int  # 2 where it had to be read again
    seconds: float  # that reading took


class _Unsound(Exception):
    """The second read is no better."""


class Corpus:
    """`samples` windows of `length` + 1 bytes, spread evenly over the sources of the standard library."""

    def __init__(self, samples: int, length: int, *, limit: int = 1 << 20) -> None:
        self._text = _standard_library(limit)
        self._length = length + 1
        self._stride = max((len(self._text) - self._length) // samples, 1)
        self._checksums = functools.partial(_checksums, limit, self._length)

    def read(self, ids: Sequence[int], **where: Any) -> Batch:
        """The windows of these samples, checked; read a second time where they are not what the data set holds."""
        began = time.monotonic()
        raw = self._fetch(ids, {**where, "read": 1})
        sound, read = self._sound(ids, raw), 1
        if not sound:
            read = 2
            with suppress(_Unsound), recovery_path("batch.reread"):
                raw = self._fetch(ids, {**where, "read": 2})
                if not (sound := self._sound(ids, raw)):
                    raise _Unsound
        size = len(ids) * self._length
        whole = bytes(raw[:size]).ljust(size, b"\0")
        windows = np.frombuffer(whole, dtype=np.uint8).reshape(len(ids), self._length).astype(np.int64)
        return Batch(windows, sound, read, time.monotonic() - began)

    def _fetch(self, ids: Sequence[int], where: dict[str, Any]) -> bytearray:
        raw = bytearray().join(self._text[start : start + self._length].tobytes() for start in map(self._start, ids))
        tamper("batch", raw, **where)
        return raw

    def _sound(self, ids: Sequence[int], raw: bytearray) -> bool:
        size, starts = self._length, [self._start(i) for i in ids]
        parts = [zlib.crc32(raw[at : at + size]) for at in range(0, len(raw), size)]
        return parts == [self._checksums(start) for start in starts]

    def _start(self, sample: int) -> int:
        return sample * self._stride % (len(self._text) - self._length)


@functools.cache
def _checksums(limit: int, length: int, start: int) -> int:
    """The checksum of the window at `start`, taken when it was first used."""
    return zlib.crc32(_standard_library(limit)[start : start + length].tobytes())


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


def rounds(batch: int, world: int, micro_batch: int = MICRO_BATCH) -> int:
    """Forwards of one step: enough for the largest share at any rank."""
    largest = -(-batch // world)
    return -(-largest // micro_batch)


@functools.cache
def _standard_library(limit: int) -> npt.NDArray[np.uint8]:
    text = bytearray()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text += path.read_bytes()
        if len(text) >= limit:
            break
    return np.frombuffer(bytes(text[:limit]), dtype=np.uint8)
