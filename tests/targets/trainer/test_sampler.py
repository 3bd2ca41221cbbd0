"""Exact accounting of samples: every position once, whatever the world size."""

from __future__ import annotations

import itertools

import pytest

from targets.trainer.worker.data import MICRO_BATCH, Corpus, Cursor, Sampler, micro_batches, rounds

DATASET, BATCH = 60, 12


def consume(sampler: Sampler, cursor: Cursor, world: int, steps: int) -> tuple[list[int], Cursor]:
    taken: list[int] = []
    for _ in range(steps):
        for rank in range(world):
            taken += sampler.share(cursor, rank, world)
        cursor = sampler.advance(cursor)
    return taken, cursor


@pytest.mark.parametrize("world", range(1, 9))
def test_a_data_epoch_holds_each_sample_once_at_any_world_size(world: int) -> None:
    taken, cursor = consume(Sampler(DATASET, BATCH, seed=7), Cursor(), world, DATASET // BATCH)
    assert sorted(taken) == list(range(DATASET))
    assert cursor == Cursor(1, 0)


@pytest.mark.parametrize("worlds", [*itertools.permutations([4, 3, 2, 1, 5])])
def test_a_resize_at_every_step_loses_and_repeats_nothing(worlds: tuple[int, ...]) -> None:
    sampler, cursor = Sampler(DATASET, BATCH, seed=7), Cursor()
    taken: list[int] = []
    for world in worlds:
        samples, cursor = consume(sampler, cursor, world, 1)
        taken += samples
    assert sorted(taken) == list(range(DATASET))


def test_the_global_batch_of_a_step_does_not_depend_on_the_world_size() -> None:
    sampler, cursor = Sampler(DATASET, BATCH, seed=7), Cursor(2, 24)
    batches = [sorted(consume(sampler, cursor, world, 1)[0]) for world in range(1, 7)]
    assert all(batch == batches[0] for batch in batches)


def test_the_order_depends_on_seed_and_data_epoch_and_on_nothing_else() -> None:
    def order(seed: int, data_epoch: int) -> list[int]:
        return consume(Sampler(DATASET, BATCH, seed), Cursor(data_epoch, 0), 1, DATASET // BATCH)[0]

    assert order(7, 0) == order(7, 0)
    assert order(7, 0) != order(7, 1)
    assert order(7, 0) != order(8, 0)


def test_a_data_set_that_would_split_a_step_over_two_epochs_is_refused() -> None:
    with pytest.raises(ValueError, match="no multiple of batch"):
        Sampler(61, BATCH, seed=7)


@pytest.mark.parametrize(("old", "new"), [(4, 3), (3, 4), (4, 2)])
def test_the_stale_stride_defect_shows_as_repeated_and_lost_samples(old: int, new: int) -> None:
    sampler = Sampler(DATASET, BATCH, seed=7, stale_stride=old)
    taken, _ = consume(sampler, Cursor(), new, DATASET // BATCH)
    assert len(taken) == DATASET
    assert len(set(taken)) < DATASET


@pytest.mark.parametrize("world", range(1, 15))
def test_all_ranks_run_the_same_number_of_forwards_and_none_exceeds_the_micro_batch(world: int) -> None:
    sampler, count = Sampler(DATASET, BATCH, seed=7), rounds(BATCH, world)
    for rank in range(world):
        share = sampler.share(Cursor(), rank, world)
        parts = micro_batches(share, count)
        assert len(parts) == count
        assert sorted(itertools.chain(*parts)) == sorted(share)
        assert all(len(part) <= MICRO_BATCH for part in parts)


def test_every_sample_is_a_window_of_its_own() -> None:
    windows = Corpus(DATASET, 64).read(range(DATASET)).windows
    assert windows.shape == (DATASET, 65)
    assert len({row.tobytes() for row in windows}) == DATASET
