"""Groups of real workers: resume, resize, rounds in the foreground and behind."""

from __future__ import annotations

import itertools
import os
import signal
from typing import Any

import pytest

from targets.trainer import defects

from .bench import Bench, bench

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


@pytest.mark.parametrize("save", ["sync", "async"])
def test_a_resumed_job_equals_the_uninterrupted_one_and_a_resize_keeps_state_and_samples(save: str) -> None:
    with bench(steps=STEPS, checkpoint_every=EVERY, save=save) as running, running.leading() as leader:
        running.form(2)
        golden = running.epoch
        leader.round(running.store, golden, 2, generation=1, step=4)
        leader.round(running.store, golden, 2, generation=2, step=8)
        leader.await_all("done", 2, epoch=golden)

        loaded = running.form(2, generation=1, step=4)  # the job, resumed in the middle
        saved = {e["rank"]: e["state"] for e in running.events("checkpoint.saved", epoch=golden, generation=1)}
        assert {said["rank"]: said["state"] for said in loaded} == saved
        leader.round(running.store, running.epoch, 2, generation=3, step=8)
        leader.await_all("done", 2, epoch=running.epoch)
        assert course(running, running.epoch, 2) == course(running, golden, 2)

        (resized,) = running.form(1, generation=1, step=4)  # and once more by one rank alone
        expected = {part: digest for part, digest in saved[0].items() if part != "rng"}
        assert resized["state"] == expected
        assert resized["loss"] == loaded[0]["loss"]
        assert samples(running, running.epoch, 1) == samples(running, golden, 2)


def test_an_urgent_cut_comes_after_the_same_step_on_all_ranks_though_one_alone_was_asked() -> None:
    with bench(steps=500, checkpoint_every=500) as running, running.leading() as leader:
        running.form(2)
        running.await_event("step.completed", step=3)
        leader.order_worker(running.epoch, 1, "cut")
        first, second = leader.await_all("ready", 2, epoch=running.epoch)
        assert first["step"] == second["step"] < 500
        leader.round(running.store, running.epoch, 2, generation=1, step=first["step"])
        running.await_event("step.completed", step=first["step"] + 1)
        running.disband()


def test_a_shard_that_rots_in_the_store_is_reported_and_an_older_generation_loads() -> None:
    with bench(steps=STEPS, checkpoint_every=EVERY, rot_generation=2) as running, running.leading() as leader:
        running.form(1)
        leader.round(running.store, running.epoch, 1, generation=1, step=4)
        leader.round(running.store, running.epoch, 1, generation=2, step=8)
        epoch = running.new_epoch()
        leader.start("n0", epoch, 1)
        leader.order_workers(epoch, "load", generation=2, step=8)
        (unloaded,) = leader.await_all("unloaded", epoch=epoch)
        assert (unloaded["generation"], unloaded["reason"]) == (2, "digest")
        (loaded,) = leader.load(epoch, 1, generation=1, step=4)
        assert loaded["step"] == 4


def test_a_save_that_the_store_does_not_want_is_reported_and_training_goes_on() -> None:
    with bench(steps=6, checkpoint_every=2) as running, running.leading() as leader:
        running.form(1)
        leader.await_all("ready", step=2)
        leader.order_workers(running.epoch, "save", generation=1, step=2)  # never begun at the store
        (unsaved,) = leader.await_all("unsaved", epoch=running.epoch)
        assert "unknown" in unsaved["reason"]
        leader.order_workers(running.epoch, "release", generation=1, committed=False)
        leader.round(running.store, running.epoch, 1, generation=2, step=4)


def test_the_stale_stride_after_a_shrink_shows_in_the_samples() -> None:
    settings = {"steps": STEPS, "checkpoint_every": EVERY, "defect": defects.DOUBLE_COUNT_AFTER_RESIZE}
    with bench(**settings) as running, running.leading() as leader:
        running.form(2)
        leader.round(running.store, running.epoch, 2, generation=1, step=4)
        os.kill(running.pid(1), signal.SIGKILL)
        leader.await_all("worker.exited", epoch=running.epoch)
        running.form(1, generation=1, step=4)
        taken = list(itertools.chain(*samples(running, running.epoch, 1)))
        assert len(set(taken)) < len(taken)
