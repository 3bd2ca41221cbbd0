"""Warm restarts with real workers: who survives keeps its process and its memory."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from targets.trainer import defects

from .bench import Bench, bench, ends_within
from .scripted_leader import ScriptedLeader

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]  # torch is imported again and again
WARM = {"steps": 12, "checkpoint_every": 4, "restart": "warm", "keep": 9}


@pytest.fixture(scope="module")
def shared() -> Iterator[Bench]:
    with bench(**WARM) as running:
        yield running


@pytest.fixture
def leader(shared: Bench) -> Iterator[ScriptedLeader]:
    with shared.leading() as leading:
        yield leading


def saved_once(running: Bench, leader: ScriptedLeader, generation: int) -> int:
    """A group of two that has committed its first cut, and done a step since; its epoch."""
    running.form(2)
    leader.round(running.store, running.epoch, 2, generation, step=4)
    running.await_events(2, "step.completed", epoch=running.epoch, step=5)
    return running.epoch


def lose_rank_one(running: Bench, leader: ScriptedLeader) -> None:
    os.kill(running.pid(1), signal.SIGKILL)
    leader.await_all("worker.exited", epoch=running.epoch, rank=1)


def test_the_survivor_takes_the_generation_from_memory_and_the_new_rank_from_the_store_and_both_hold_what_was_saved(
    shared: Bench, leader: ScriptedLeader
) -> None:
    first = saved_once(shared, leader, generation=1)
    survivor, golden = shared.pid(0), shared.await_event("step.completed", epoch=first, rank=0, step=5)
    lose_rank_one(shared, leader)
    epoch = shared.new_epoch()
    leader.regroup("n0", first, epoch, 0, lost=(1,), world=2)
    leader.load(epoch, 2, generation=1, step=4)
    loaded = {e["rank"]: e for e in shared.await_events(2, "checkpoint.loaded", epoch=epoch)}
    saved = {e["rank"]: e["state"] for e in shared.events("checkpoint.saved", epoch=first)}
    assert {rank: e["source"] for rank, e in loaded.items()} == {0: "memory", 1: "store"}
    assert {rank: e["state"] for rank, e in loaded.items()} == saved
    again = shared.await_event("step.completed", epoch=epoch, rank=0, step=5)
    assert (again["loss"], again["samples"]) == (golden["loss"], golden["samples"])
    assert shared.pid(0) == survivor
    leader.round(shared.store, epoch, 2, generation=2, step=8)  # under the new token
    assert not shared.events("write.rejected", token=epoch)
    shared.disband()
    with pytest.raises(ProcessLookupError):
        os.kill(survivor, 0)


def test_a_rank_that_waits_for_a_frozen_peer_is_freed_and_another_world_size_is_read_from_the_store(
    shared: Bench, leader: ScriptedLeader
) -> None:
    first = saved_once(shared, leader, generation=11)
    frozen = shared.pid(1)
    os.kill(frozen, signal.SIGSTOP)
    peer = os.pidfd_open(frozen)
    epoch = shared.new_epoch()
    leader.regroup("n0", first, epoch, 0, world=1)
    (loaded,) = leader.load(epoch, 1, generation=11, step=4)
    assert loaded["step"] == 4
    assert shared.await_event("checkpoint.loaded", epoch=epoch)["source"] == "store"
    shared.await_event("step.completed", epoch=epoch, step=5)
    shared.disband()
    assert ends_within(peer, 1)


def test_a_rank_that_waits_for_an_order_hears_that_it_belongs_to_another_group(
    shared: Bench, leader: ScriptedLeader
) -> None:
    shared.form(1)
    first = shared.epoch
    leader.await_all("ready", epoch=first, step=4)  # and waits for the order to save
    epoch = shared.new_epoch()
    leader.regroup("n0", first, epoch, 0, world=1)
    leader.load(epoch, 1, generation=0, step=0)
    shared.await_event("step.completed", epoch=epoch, step=1)
    shared.disband()


def test_a_save_that_was_fenced_off_ends_and_its_rank_goes_on(shared: Bench, leader: ScriptedLeader) -> None:
    shared.form(1)
    first = shared.epoch
    leader.await_all("ready", epoch=first, step=4)
    shared.store.call("generation.begin", token=first, generation=21, step=4, world=1)
    epoch = shared.new_epoch()
    leader.order_worker(first, 0, "save", generation=21, step=4)
    shared.await_event("write.rejected", token=first, reason="stale-epoch")
    leader.regroup("n0", first, epoch, 0, world=1)
    leader.load(epoch, 1, generation=0, step=0)
    assert not shared.events("worker.stopped", epoch=first)
    shared.disband()


def test_with_the_deliberate_bug_the_survivor_holds_what_it_trained_since() -> None:
    with bench(**WARM, defect=defects.WARM_KEEPS_NEWER_STATE) as running, running.leading() as leader:
        first = saved_once(running, leader, generation=1)
        lose_rank_one(running, leader)
        epoch = running.new_epoch()
        leader.regroup("n0", first, epoch, 0, lost=(1,), world=2)
        leader.load(epoch, 2, generation=1, step=4)
        loaded = {e["rank"]: e["state"] for e in running.await_events(2, "checkpoint.loaded", epoch=epoch)}
        saved = running.await_event("checkpoint.saved", epoch=first, rank=1)["state"]
        assert loaded[0]["schedule"] != loaded[1]["schedule"] == saved["schedule"]
        running.disband()


def test_a_promoted_spare_starts_where_the_group_is_but_with_the_deliberate_bug() -> None:
    with bench(steps=8, checkpoint_every=4, defect=defects.SPARE_STARTS_AFRESH) as running, running.leading() as leader:
        running.form(1)
        leader.round(running.store, running.epoch, 1, 1, 4)
        saved = leader.heard("saved")[0]["state"]
        for promoted in (False, True):
            running.disband()
            epoch = running.new_epoch()
            leader.start("n0", epoch, 1, promoted=promoted)
            (loaded,) = leader.load(epoch, 1, generation=1, step=4)
            assert (loaded["state"]["data"] == saved["data"]) is not promoted
