"""Replicas of the state: who goes on when one is lost, and how it comes back."""

from __future__ import annotations

import os
import signal

import pytest

from targets.trainer import defects
from targets.trainer.coordinator.replicas import completed, whole

from .bench import Bench, bench
from .cluster import PATIENT, MakeCluster
from .scripted_leader import ScriptedLeader

FOUR = ["n0", "n1", "n2", "n3"]


@pytest.mark.parametrize(
    ("kept", "nodes"),
    [
        ({"n0", "n1", "n3"}, ["n0", "n1"]),
        ({"n1", "n2", "n3"}, ["n2", "n3"]),
        ({"n0", "n2"}, []),
        (set(FOUR), FOUR),
    ],
)
def test_a_replica_is_whole_or_it_is_of_no_use(kept: set[str], nodes: list[str]) -> None:
    assert whole(FOUR, kept, 2) == nodes


def test_nodes_that_make_no_whole_replica_wait() -> None:
    assert completed(["n2", "n3"], ["n0", "n1"], 2, 4) == ["n2", "n3", "n0", "n1"]
    assert completed(["n2", "n3"], ["n0"], 2, 4) == ["n2", "n3"]
    assert completed(["n2", "n3"], ["n0", "n1", "n4", "n5"], 2, 4) == ["n2", "n3", "n0", "n1"]
    assert completed(FOUR, ["n4", "n5"], 2, 4) == FOUR


@pytest.mark.anyio
@pytest.mark.slow
class TestCoordinator:
    async def test_one_replica_goes_on_where_it_was_and_the_other_rejoins_at_the_next_commit(
        self, make: MakeCluster
    ) -> None:
        cluster = make(nodes=4, replicas=2, steps=160, checkpoint_every=40, **PATIENT)
        async with cluster.running():
            await cluster.until("checkpoint.committed", step=40)
            cluster.nodes["n2"].kill_worker()
            assert await cluster.end() == 0
        events, nodes = cluster.events, cluster.nodes
        actions = [e["action"] for e in events.of("recovery.action")]
        assert actions == ["replica-leave", "replica-rejoin"], events.of("failure.detected")
        assert [e["nodes"] for e in events.of("group.formed")] == [FOUR, ["n0", "n1"], FOUR]
        left, back = events.of("group.formed", live=True)
        assert (left["generation"], back["generation"]) == (1, 2)
        assert 40 <= left["step"] < 80 == back["step"]
        assert nodes["n0"].live == [(left["step"], False), (80, True)]
        assert nodes["n2"].live == [(80, True)]
        assert (nodes["n0"].epochs, nodes["n3"].epochs) == ([1], [1, 3])

    async def test_where_every_replica_lost_a_rank_the_store_is_read(self, make: MakeCluster) -> None:
        cluster = make(nodes=4, replicas=2, steps=160, checkpoint_every=40, **PATIENT)
        async with cluster.running():
            await cluster.until("checkpoint.committed", step=40)
            cluster.nodes["n1"].kill_worker()
            cluster.nodes["n2"].kill_worker()
            assert await cluster.end() == 0
        _, *again = cluster.events.of("group.formed")
        assert again
        assert {(e["world"], e.get("live"), e["generation"] > 0) for e in again} == {(4, None, True)}

    async def test_a_lost_node_keeps_its_replica_away_until_it_returns(self, make: MakeCluster) -> None:
        cluster = make(nodes=4, replicas=2, steps=160, checkpoint_every=20, **PATIENT)
        async with cluster.running():
            await cluster.until("checkpoint.committed", step=20)
            cluster.nodes["n1"].kill()
            await cluster.until("group.formed", nodes=["n2", "n3"])
            await cluster.until("checkpoint.committed", epoch=2)
            cluster.start_node("n1")
            await cluster.until("group.formed", nodes=["n2", "n3", "n0", "n1"])
            assert await cluster.end() == 0


def leave(running: Bench, leader: ScriptedLeader) -> int:
    """Two replicas of one rank each, of which the second is lost after step 6; the epoch in which the other goes on."""
    first = running.new_epoch()
    leader.start("n0", first, 2, shards=1)
    leader.load(first, 2, generation=0, step=0)
    leader.round(running.store, first, 2, generation=1, step=4)
    running.await_events(2, "step.completed", epoch=first, step=6)
    os.kill(running.pid(1), signal.SIGKILL)
    leader.await_all("worker.exited", epoch=first, rank=1)
    epoch = running.new_epoch()
    leader.regroup("n0", first, epoch, 0, world=1, shards=1)
    (joined,) = leader.heard("joined", epoch=epoch)
    leader.load(epoch, 1, 1, joined["step"], live=True, spread=False)
    return epoch


def rejoin(running: Bench, leader: ScriptedLeader, old: int) -> list[dict[str, object]]:
    """The second replica comes back at the cut after step 8; what both ranks then hold."""
    leader.await_all("ready", epoch=old, step=8)
    epoch = running.new_epoch()
    leader.regroup("n0", old, epoch, 0, lost=(1,), world=2, shards=1)
    leader.load(epoch, 2, 1, 8, live=True, spread=True)
    return sorted(running.await_events(2, "state.resumed", epoch=epoch), key=lambda e: e["rank"])


SETTINGS = {"steps": 12, "checkpoint_every": 4, "replicas": 2}


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_real_replica_goes_on_from_its_memory_and_hands_its_state_to_the_one_that_rejoins() -> None:
    with bench(**SETTINGS) as running, running.leading() as leader:
        epoch = leave(running, leader)
        resumed = running.await_event("state.resumed", epoch=epoch)
        assert (resumed["source"], resumed["step"] >= 6) == ("memory", True)
        again = running.await_event("step.completed", epoch=epoch)
        assert again["step"] == resumed["step"] + 1
        assert len(again["samples"]) == running.settings.batch  # all of them are its own now
        survivor, newcomer = rejoin(running, leader, epoch)
        assert (survivor["source"], newcomer["source"]) == ("memory", "peer")
        common = ("model", "optimizer", "schedule", "data")
        assert {p: survivor["state"][p] for p in common} == {p: newcomer["state"][p] for p in common}  # type: ignore[index]
        losses = {e["loss"] for e in running.await_events(2, "step.completed", epoch=running.epoch, step=9)}
        assert len(losses) == 1
        saved = leader.round(running.store, running.epoch, 2, generation=2, step=12)
        assert len({said["state"]["model"] for said in saved}) == 1  # a digest of each replica for itself
        assert not running.events("checkpoint.loading")


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_with_the_deliberate_bug_the_one_that_rejoins_has_a_schedule_of_its_own() -> None:
    with bench(**SETTINGS, defect=defects.REJOIN_STALE_SCHEDULE) as running, running.leading() as leader:
        survivor, newcomer = rejoin(running, leader, leave(running, leader))
        assert survivor["state"]["model"] == newcomer["state"]["model"]  # type: ignore[index]
        assert survivor["state"]["schedule"] != newcomer["state"]["schedule"]  # type: ignore[index]
        saved = leader.round(running.store, running.epoch, 2, generation=2, step=12)
        assert len({said["state"]["model"] for said in saved}) == 2
        running.disband()


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_replicas_train_as_one_group_of_the_same_size_does() -> None:
    losses = []
    with bench(steps=3, checkpoint_every=3) as running, running.leading() as leader:
        for shards in (1, 2):
            epoch = running.new_epoch()
            leader.start("n0", epoch, 2, shards=shards)
            leader.load(epoch, 2, generation=0, step=0)
            losses.append([running.await_event("step.completed", epoch=epoch, step=step)["loss"] for step in (1, 2, 3)])
            running.disband()
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
