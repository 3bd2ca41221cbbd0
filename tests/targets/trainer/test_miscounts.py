"""What each deliberate bug of counting makes of two resumes in one pass over the data."""

from __future__ import annotations

import pytest

from targets.trainer.defects import CURSOR_IS_A_DELTA, SAMPLER_EPOCH_RESET, SKIP_EVERY_EPOCH
from targets.trainer.worker.data import Cursor, Sampler
from targets.trainer.worker.miscounts import resumed

DATASET, BATCH, SEED = 40, 4, 7


def passes(defect: str) -> list[list[int]]:
    """The samples of each of three passes, one rank; stopped and resumed at steps 14 and 17, in the second pass."""
    sampler, cursor = Sampler(DATASET, BATCH, SEED), Cursor()
    found: list[list[int]] = [[], [], []]
    for step in range(30):
        if step in (14, 17):
            sampler, cursor = resumed(Sampler(DATASET, BATCH, SEED), cursor, SEED, defect)
        if cursor.data_epoch < len(found):
            found[cursor.data_epoch] += sampler.share(cursor, 0, 1)
            cursor = sampler.advance(cursor)
    return found


def test_without_a_defect_each_pass_holds_every_sample_once() -> None:
    assert [sorted(samples) for samples in passes("none")] == [list(range(DATASET))] * 3


@pytest.mark.parametrize(
    ("defect", "wrong"),
    [(CURSOR_IS_A_DELTA, [1]), (SAMPLER_EPOCH_RESET, [1]), (SKIP_EVERY_EPOCH, [2])],
)
def test_a_defect_spoils_its_pass(defect: str, wrong: list[int]) -> None:
    spoilt = [n for n, samples in enumerate(passes(defect)) if sorted(samples) != list(range(DATASET))]
    assert set(wrong) <= set(spoilt)
