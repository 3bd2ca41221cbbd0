"""Who is in the next group, and at which rank; warm restarts and spares against fake nodes."""

from __future__ import annotations

import anyio
import pytest

from targets.trainer.coordinator.failure import Change, actions
from targets.trainer.coordinator.formation import placed

from .cluster import PATIENT, MakeCluster, Points

OLD = ["n0", "n1", "n2"]


@pytest.mark.parametrize(
    ("last", "present", "wanted", "nodes"),
    [
        ([], {"n2", "n0", "n1", "n3"}, 3, ["n0", "n1", "n2"]),  # the start: who is over is a spare
        (OLD, {"n0", "n1", "n2", "n3"}, 3, OLD),  # nobody was lost, whoever else is there
        (OLD, {"n0", "n2", "n3"}, 3, ["n0", "n3", "n2"]),  # a spare takes the lost rank, the others keep theirs
        (OLD, {"n2", "n3", "n10"}, 3, ["n3", "n10", "n2"]),
        (OLD, {"n0", "n3"}, 3, ["n0", "n3"]),  # too few spares: smaller
        (OLD, {"n0", "n2"}, 3, ["n0", "n2"]),
        (["n0", "n2"], {"n0", "n1", "n2"}, 3, OLD),  # grown back
    ],
)
def test_a_spare_takes_the_place_of_a_lost_node(
    last: list[str], present: set[str], wanted: int, nodes: list[str]
) -> None:
    assert placed(last, present, wanted) == nodes


def test_the_action_is_named_by_what_happened_to_the_group() -> None:
    assert actions(Change("warm-restart", ""), 3, 3) == ["warm-restart"]
    assert actions(Change("warm-restart", ""), 3, 2) == ["warm-restart", "shrink"]
    assert actions(Change("warm-restart", ""), 3, 3, promoted=True) == ["warm-restart", "replace"]
    assert actions(Change("cold-restart", ""), 3, 3, promoted=True) == ["replace"]
    assert actions(Change("cold-restart", ""), 3, 3) == ["cold-restart"]


@pytest.mark.anyio
@pytest.mark.slow
class TestWarm:
    async def test_survivors_go_on_in_the_next_group_and_only_the_lost_rank_is_started_again(
        self, make: MakeCluster
    ) -> None:
        cluster = make(steps=60, restart="warm", **PATIENT)
        async with cluster.running():
            await cluster.until("checkpoint.committed", step=20)
            cluster.nodes["n1"].kill_worker()
            assert await cluster.end() == 0
        nodes, events = cluster.nodes, cluster.events
        assert [e["action"] for e in events.of("recovery.action")] == ["warm-restart"]
        assert {name: node.epochs for name, node in nodes.items()} == {"n0": [1], "n1": [1, 2], "n2": [1]}
        assert {name: node.regrouped for name, node in nodes.items()} == {"n0": [2], "n1": [], "n2": [2]}
        assert events.of("path.exercised", name="worker.warm_restart")
        assert not events.of("epoch.rejected")
        assert events.of("write.accepted", token=2)

    async def test_a_silent_rank_is_ended_and_the_others_are_kept(self, make: MakeCluster) -> None:
        cluster = make(steps=60, restart="warm")
        async with cluster.running():
            await cluster.until("checkpoint.committed", step=20)
            cluster.nodes["n1"].frozen_worker = True
            await cluster.until("failure.detected", member="worker-n1")
            cluster.nodes["n1"].frozen_worker = False
            assert await cluster.end() == 0
        assert cluster.nodes["n0"].epochs == [1]
        assert cluster.nodes["n1"].epochs == [1, 2]

    async def test_a_survivor_that_cannot_be_freed_makes_the_restart_cold(self, make: MakeCluster) -> None:
        cluster = make(steps=60, restart="warm", **(PATIENT | {"stall": 1.0}))
        async with cluster.running():
            await cluster.until("checkpoint.committed", step=20)
            cluster.nodes["n2"].stuck = True
            cluster.nodes["n1"].kill_worker()
            assert await cluster.end() == 0
        assert [e["action"] for e in cluster.events.of("recovery.action")] == ["warm-restart", "cold-restart"]
        assert cluster.events.of("failure.detected")[1]["member"] == "worker-n2"
        assert cluster.nodes["n0"].epochs == [1, 3]

    async def test_a_survivor_that_dies_while_the_group_is_formed_is_started_again_too(
        self, make: MakeCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cluster = make(steps=60, restart="warm", **PATIENT)
        stop = Points(monkeypatch, "group.forming", lambda at: at["epoch"] == 2)
        async with cluster.running():
            await cluster.until("checkpoint.committed", step=20)
            cluster.nodes["n1"].kill_worker()
            await stop.reached()
            cluster.nodes["n2"].kill_worker()
            await anyio.sleep(0.1)  # its connection closes
            stop.release()
            assert await cluster.end() == 0
        assert cluster.nodes["n0"].epochs == [1]
        assert cluster.nodes["n2"].epochs == [1, 2]

    async def test_wrong_content_is_never_answered_by_what_survivors_hold(self, make: MakeCluster) -> None:
        cluster = make(steps=60, restart="warm", **PATIENT)
        async with cluster.running():
            for node in cluster.nodes.values():
                node.canary = lambda step: float("nan") if step == 20 else 1.0
            await cluster.until("checkpoint.committed", step=20)
            cluster.nodes["n1"].kill_worker()
            assert await cluster.end() == 0
        assert [e["action"] for e in cluster.events.of("recovery.action")] == ["warm-restart", "rollback"]
        assert [e["step"] for e in cluster.events.of("group.formed")] == [0, 20, 10]


@pytest.mark.anyio
@pytest.mark.slow
class TestSpare:
    async def test_it_stands_by_until_a_node_is_lost_and_takes_its_rank_at_once(self, make: MakeCluster) -> None:
        cluster = make(nodes=4, spares=1, steps=80, checkpoint_every=20, lost_wait=60.0, min_world=3, **PATIENT)
        async with cluster.running():
            await cluster.until("checkpoint.committed", step=20)
            assert cluster.nodes["n3"].epochs == []
            cluster.nodes["n1"].kill()
            formed = await cluster.until("group.formed", epoch=2)  # nobody waits for the lost one
            assert await cluster.end() == 0
        assert formed["nodes"] == ["n0", "n3", "n2"]
        assert [e["action"] for e in cluster.events.of("recovery.action")] == ["replace"]
        assert cluster.events.of("path.exercised", name="spare.promote")

    async def test_a_node_that_returns_is_the_next_spare_and_not_a_larger_group(self, make: MakeCluster) -> None:
        cluster = make(nodes=3, spares=1, steps=160, checkpoint_every=20, **PATIENT)
        async with cluster.running():
            await cluster.until("checkpoint.committed", step=20)
            cluster.nodes["n1"].kill()
            await cluster.until("group.formed", epoch=2)
            cluster.start_node("n1")
            await cluster.until("checkpoint.committed", epoch=2, count=2)
            cluster.nodes["n0"].kill()
            assert await cluster.end() == 0
        assert [e["nodes"] for e in cluster.events.of("group.formed")] == [["n0", "n1"], ["n0", "n2"], ["n1", "n2"]]

    async def test_with_a_warm_restart_the_spare_alone_is_started(self, make: MakeCluster) -> None:
        cluster = make(nodes=4, spares=1, steps=60, restart="warm", **PATIENT)
        async with cluster.running():
            await cluster.until("checkpoint.committed", step=20)
            cluster.nodes["n1"].kill()
            assert await cluster.end() == 0
        assert [e["action"] for e in cluster.events.of("recovery.action")] == ["warm-restart", "replace"]
        assert {name: node.epochs for name, node in cluster.nodes.items()} == {
            "n0": [1], "n1": [1], "n2": [1], "n3": [2],
        }  # fmt: skip
