"""Groups of real workers: resume, resize, rounds in the foreground and behind."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import Any

import pytest

from chaos.faults.checkpoint.corrupt import damage

from .bench import Bench, bench
from .scripted_leader import ScriptedLeader

pytestmark = pytest.mark.slow
STEPS, EVERY = 8, 4


def course(running: Bench, epoch: int, world: int) -> dict[int, Any]:
    """Step → loss of the second half of an incarnation; all ranks must agree to the last bit."""
    losses = {}
    for step in range(EVERY + 1, STEPS + 1):
        said = {repr(e["loss"]) for e in running.await_events(world, "step.completed", epoch=epoch, step=step)}
        assert len(said) == 1
        losses[step] = said
    return losses


def samples(running: Bench, epoch: int, world: int) -> list[list[int]]:
    """What all ranks together consumed in each step of the second half."""
    done = [
        running.await_events(world, "step.completed", epoch=epoch, step=step) for step in range(EVERY + 1, STEPS + 1)
    ]
    return [sorted(s for event in step for s in event["samples"]) for step in done]


@pytest.fixture(scope="module")
def shared() -> Iterator[Bench]:
    with bench(steps=STEPS, checkpoint_every=EVERY, keep=99) as running:
        yield running


@pytest.fixture
def leader(shared: Bench) -> Iterator[ScriptedLeader]:
    with shared.leading() as leading:
        yield leading


def check_resume_and_resize(running: Bench, leader: ScriptedLeader) -> None:
    running.form(2)
    golden = running.epoch
    leader.round(running.store, golden, 2, generation=1, step=4)
    leader.round(running.store, golden, 2, generation=2, step=8)
    leader.await_all("done", 2, epoch=golden)

    loaded = running.form(2, generation=1, step=4)  # the job, resumed in the middle
    saved = {e["rank"]: e["state"] for e in running.events("checkpoint.saved", epoch=golden, generation=1)}
    assert {said["rank"]: said["state"] for said in loaded} == saved
    assert course(running, running.epoch, 2) == course(running, golden, 2)

    (resized,) = running.form(1, generation=1, step=4)  # and once more by one rank alone
    assert resized["state"] == {part: digest for part, digest in saved[0].items() if part != "rng"}
    assert resized["loss"] == loaded[0]["loss"]
    assert samples(running, running.epoch, 1) == samples(running, golden, 2)


def test_a_resumed_job_equals_the_uninterrupted_one_and_a_resize_keeps_state_and_samples(
    shared: Bench, leader: ScriptedLeader
) -> None:
    check_resume_and_resize(shared, leader)


def test_so_it_does_with_saves_behind_training() -> None:
    with bench(steps=STEPS, checkpoint_every=EVERY, save="async") as running, running.leading() as leader:
        check_resume_and_resize(running, leader)


def test_an_urgent_cut_comes_after_the_same_step_on_all_ranks_though_one_alone_was_asked(
    shared: Bench, leader: ScriptedLeader
) -> None:
    epoch = shared.new_epoch()
    leader.start("n0", epoch, 2)
    leader.order_worker(epoch, 1, "cut")
    leader.load(epoch, 2, generation=0, step=0)
    leader.round(shared.store, epoch, 2, generation=5, step=1)
    shared.await_event("step.completed", epoch=epoch, step=2)


def test_a_shard_that_rots_in_the_store_is_reported_and_another_generation_loads(
    shared: Bench, leader: ScriptedLeader
) -> None:
    shared.form(1)
    leader.round(shared.store, shared.epoch, 1, generation=8, step=4)
    leader.round(shared.store, shared.epoch, 1, generation=9, step=8)
    damage(shared.job.folder, "store/gen-000009/shards/*.distcp", "flip")
    epoch = shared.new_epoch()
    leader.start("n0", epoch, 1)
    leader.order_workers(epoch, "load", generation=9, step=8)
    (unloaded,) = leader.await_all("unloaded", epoch=epoch)
    assert (unloaded["generation"], unloaded["reason"]) == (9, "digest")
    (loaded,) = leader.load(epoch, 1, generation=8, step=4)
    assert loaded["step"] == 4


def test_a_save_that_the_store_does_not_want_is_reported_and_training_goes_on(
    shared: Bench, leader: ScriptedLeader
) -> None:
    shared.form(1)
    leader.await_all("ready", epoch=shared.epoch, step=4)
    leader.order_workers(shared.epoch, "save", generation=11, step=4)  # never begun at the store
    (unsaved,) = leader.await_all("unsaved", epoch=shared.epoch)
    assert "unknown" in unsaved["reason"]
    leader.order_workers(shared.epoch, "release", generation=11, committed=False)
    leader.round(shared.store, shared.epoch, 1, generation=12, step=8)


def test_a_save_that_the_own_disk_does_not_take_is_reported_and_training_goes_on(
    shared: Bench, leader: ScriptedLeader
) -> None:
    shared.form(1)
    leader.await_all("ready", epoch=shared.epoch, step=4)
    obstacle = shared.job.folder / "nodes" / "n0" / "rank-0"
    shutil.rmtree(obstacle, ignore_errors=True)
    obstacle.parent.mkdir(parents=True, exist_ok=True)
    obstacle.touch()
    shared.store.call("generation.begin", token=shared.epoch, generation=13, step=4, world=1)
    leader.order_workers(shared.epoch, "save", generation=13, step=4)
    leader.await_all("unsaved", epoch=shared.epoch)
    obstacle.unlink()
    leader.order_workers(shared.epoch, "release", generation=13, committed=False)
    leader.round(shared.store, shared.epoch, 1, generation=14, step=8)


def test_a_step_takes_at_least_as_long_as_was_set() -> None:
    with bench(steps=2, checkpoint_every=2, step_seconds=0.5) as running, running.leading():
        running.form(1)
        began = time.monotonic()
        running.await_events(1, "step.completed", step=2)
        assert time.monotonic() - began > 0.5
