"""Deliberate bugs of a sampler after a resume: each counts samples as some real data loader once did."""

from __future__ import annotations

from targets.trainer import defects
from targets.trainer.worker.data import Cursor, Sampler


class EpochReset(Sampler):
    """Forgets which data epoch it is in: from the resume on, the order is that of the first one."""

    def share(self, cursor: Cursor, rank: int, world: int) -> list[int]:
        return super().share(Cursor(0, cursor.position), rank, world)


class SkipEveryEpoch(Sampler):
    """Skips what had been consumed at the resume not only in that data epoch but in each one after it."""

    skip = 0

    def advance(self, cursor: Cursor) -> Cursor:
        after = super().advance(cursor)
        return Cursor(after.data_epoch, self.skip) if after.data_epoch > cursor.data_epoch else after


class Delta(Sampler):
    """Goes on at the right place, but counts from there: what it saves is the progress since the last resume."""

    began = Cursor()

    def share(self, cursor: Cursor, rank: int, world: int) -> list[int]:
        return super().share(self._true(cursor), rank, world)

    def advance(self, cursor: Cursor) -> Cursor:
        after = super().advance(self._true(cursor))
        return (
            after if after.data_epoch > cursor.data_epoch else Cursor(cursor.data_epoch, cursor.position + self.batch)
        )

    def _true(self, cursor: Cursor) -> Cursor:
        if cursor.data_epoch != self.began.data_epoch:
            return cursor
        return Cursor(cursor.data_epoch, cursor.position + self.began.position)


def resumed(sampler: Sampler, cursor: Cursor, seed: int, defect: str) -> tuple[Sampler, Cursor]:
    """What goes on from a restored cursor under `defect`: itself where that is no bug of counting."""
    plain = sampler.dataset, sampler.batch, seed
    match defect:
        case defects.SAMPLER_EPOCH_RESET:
            return EpochReset(*plain), cursor
        case defects.SKIP_EVERY_EPOCH:
            skipping = SkipEveryEpoch(*plain)
            skipping.skip = cursor.position
            return skipping, cursor
        case defects.CURSOR_IS_A_DELTA:
            counting = Delta(*plain)
            counting.began = cursor
            return counting, Cursor(cursor.data_epoch, 0)
    return sampler, cursor
