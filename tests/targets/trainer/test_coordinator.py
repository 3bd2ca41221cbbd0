"""Coordinators against fake nodes, over real connections to a real store."""

from __future__ import annotations

import errno
from pathlib import Path

import anyio
import pytest

from chaos.faults.checkpoint.corrupt import damage
from targets.trainer.coordinator.term import NO_STORE
from targets.trainer.store import durable

from .cluster import MakeCluster, Points, poll

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_a_healthy_job_saves_every_cut_and_completes(make: MakeCluster) -> None:
    cluster = make()
    async with cluster.running():
        assert await cluster.end() == 0
    events = cluster.events
    assert [e["step"] for e in events.of("checkpoint.committed")] == [10, 20, 30]
    assert [(e["world"], e["generation"]) for e in events.of("group.formed")] == [(3, 0)]
    assert events.of("job.started")
    assert events.of("job.completed", step=30)
    assert not events.of("failure.detected")
    assert not events.of("path.entered")


async def test_a_worker_that_dies_is_started_again_on_its_node(make: MakeCluster) -> None:
    cluster = make(steps=60)
    async with cluster.running():
        await cluster.until("checkpoint.committed", step=20)
        cluster.nodes["n1"].kill_worker()
        assert await cluster.end() == 0
    events = cluster.events
    assert events.of("failure.detected")[0]["class"] == "fail-stop"
    assert [(e["epoch"], e["world"]) for e in events.of("group.formed")] == [(1, 3), (2, 3)]
    assert [e["action"] for e in events.of("recovery.action")] == ["cold-restart"]
    assert events.of("path.exercised", name="worker.restart")
    assert events.of("recovery.validated", epoch=2)


async def test_a_frozen_worker_is_suspected_then_confirmed(make: MakeCluster) -> None:
    cluster = make(steps=60)
    async with cluster.running():
        await cluster.until("checkpoint.committed", step=20)
        cluster.nodes["n1"].frozen_worker = True
        await cluster.until("failure.detected", member="worker-n1")
        cluster.nodes["n1"].frozen_worker = False
        assert await cluster.end() == 0
    events = cluster.events
    kinds = [kind for kind, data in events if data.get("member") == "worker-n1" and kind.startswith("failure.")]
    assert kinds[:2] == ["failure.suspected", "failure.detected"]
    assert events.of("failure.detected")[0]["class"] == "hang"


async def test_a_lost_node_shrinks_the_group_and_grows_it_at_a_commit_when_it_returns(make: MakeCluster) -> None:
    cluster = make(steps=300, checkpoint_every=20)
    async with cluster.running():
        await cluster.until("checkpoint.committed", step=20)
        cluster.nodes["n1"].kill()
        await cluster.until("group.formed", world=2)
        cluster.start_node("n1")
        await cluster.until("group.formed", world=3, count=2)
        assert await cluster.end() == 0
    events = cluster.events
    assert [e["action"] for e in events.of("recovery.action")] == ["shrink", "grow"]
    grown = events.of("group.formed")[2]
    commits = [(e["generation"], e["step"]) for e in events.of("checkpoint.committed")]
    assert (grown["generation"], grown["step"]) in commits
    assert not [e for e in events.of("checkpoint.committed") if e["epoch"] == 2 and e["step"] > grown["step"]]
    assert {e["name"] for e in events.of("path.exercised")} >= {"group.shrink", "group.grow"}


async def test_a_silent_agent_loses_its_lease_and_its_place(make: MakeCluster) -> None:
    cluster = make(steps=300, checkpoint_every=20)
    async with cluster.running():
        await cluster.until("checkpoint.committed", step=20)
        cluster.nodes["n2"].frozen = True
        await cluster.until("group.formed", world=2)
        assert {e["class"] for e in cluster.events.of("failure.detected")} <= {"partition", "hang"}
        assert await cluster.end() == 0


async def test_two_nodes_that_fall_silent_at_once_are_both_lost(make: MakeCluster) -> None:
    cluster = make(nodes=4, steps=60)
    async with cluster.running():
        await cluster.until("checkpoint.committed", step=20)
        for name in ("n1", "n2"):
            cluster.nodes[name].frozen = True
        formed = await cluster.until("group.formed", world=2)
        assert await cluster.end() == 0
    assert formed["nodes"] == ["n0", "n3"]


@pytest.mark.parametrize(
    ("point", "state", "path"),
    [
        ("checkpoint.before_decision", "aborted", "checkpoint.settle_abort"),
        ("checkpoint.before_commit", "committed", "checkpoint.settle_forward"),
    ],
)
async def test_a_standby_settles_the_round_of_a_leader_that_died(
    make: MakeCluster, monkeypatch: pytest.MonkeyPatch, point: str, state: str, path: str
) -> None:
    cluster = make(steps=60)
    stop = Points(monkeypatch, point, lambda at: at["generation"] == 3)
    async with cluster.running():
        await stop.reached()
        cluster.kill_coordinator(0)
        stop.release()
        assert await cluster.end() == 0
    events = cluster.events
    assert events.of("path.exercised", name=path)
    assert events.of("path.exercised", name="coordinator.failover")
    assert events.of(f"checkpoint.{state}", generation=3)
    restored = events.of("group.formed")[1]  # there may be more, on a busy machine
    assert restored["step"] == (30 if state == "committed" else 20)
    assert events.of("failure.detected", member="coordinator-0")


async def test_a_job_whose_leader_died_over_the_last_commit_is_completed_by_its_standby(
    make: MakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make(steps=20)
    stop = Points(monkeypatch, "checkpoint.before_commit", lambda at: at["step"] == 20)
    async with cluster.running():
        await stop.reached()
        cluster.kill_coordinator(0)
        stop.release()
        assert await cluster.end() == 0
    assert cluster.events.of("job.completed", step=20)
    assert [e["step"] for e in cluster.events.of("checkpoint.committed")] == [10, 20]


@pytest.mark.parametrize(("times", "failures"), [(1, 0), (2, 0), (4, 1)])
async def test_trouble_with_the_disk_of_the_store_is_retried_and_beyond_the_budget_costs_a_round_and_not_the_job(
    make: MakeCluster, monkeypatch: pytest.MonkeyPatch, times: int, failures: int
) -> None:
    write, full = durable.Disk.write, [errno.ENOSPC] * times

    def write_or_not(disk: durable.Disk, path: Path, data: bytes, **how: bool) -> None:
        if path.name == "decision.json" and "000002" in path.parent.name and full:
            raise OSError(full.pop(), "no space left on device")
        write(disk, path, data, **how)

    monkeypatch.setattr(durable.Disk, "write", write_or_not)
    cluster = make(retries=2)
    async with cluster.running():
        assert await cluster.end() == 0
    events = cluster.events
    assert [e["member"] for e in events.of("failure.detected")] == ["store"] * failures
    assert len(events.of("call.retried", op="generation.decide")) == min(times, 2)
    assert len(events.of("path.exercised", name="storage.retry")) == 1 - failures
    assert [e["step"] for e in events.of("checkpoint.committed")] == [10, 20, 30]


async def test_a_leader_that_was_cut_off_is_refused_by_the_store_and_steps_down(
    make: MakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make(steps=160, checkpoint_every=20, keep=9)
    stop = Points(monkeypatch, "checkpoint.before_commit", lambda at: at["generation"] == 3)
    async with cluster.running():
        await stop.reached()
        cluster.network.cut.add("coordinator-0")
        stop.release()
        await cluster.until("group.formed", generation=3)
        cluster.network.cut.clear()
        await cluster.until("path.exercised", name="coordinator.step_down")
        assert await cluster.end() == 0
    (rejected,) = cluster.events.of("write.rejected")
    assert rejected["resource"] == "generation/3/commit"
    assert rejected["reason"] == "stale-epoch"
    assert rejected["token"] < rejected["highest"]
    assert len(cluster.events.of("checkpoint.committed", generation=3)) == 1


async def test_without_fencing_the_same_commit_is_accepted(make: MakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make(steps=160, checkpoint_every=20, keep=9, defect="no-fencing")
    stop = Points(monkeypatch, "checkpoint.before_commit", lambda at: at["generation"] == 3)
    async with cluster.running():
        await stop.reached()
        cluster.network.cut.add("coordinator-0")
        stop.release()
        await cluster.until("group.formed", generation=3)
        cluster.network.cut.clear()
        await cluster.until("path.exercised", name="coordinator.step_down")
        assert await cluster.end() == 0
    stale = [e for e in cluster.events.of("write.accepted") if e["token"] < e["highest"]]
    assert [e["resource"] for e in stale] == ["generation/3/commit"]


async def test_a_job_outlives_a_while_without_its_store(make: MakeCluster) -> None:
    cluster = make(steps=100)
    async with cluster.running():
        await cluster.until("checkpoint.committed", step=20)
        cluster.network.cut.update(cluster.coordinators)
        await anyio.sleep(1.5 * cluster.settings.lease_ttl)
        cluster.network.cut.clear()
        assert await cluster.end() == 0
    assert cluster.events.of("path.exercised", name="coordinator.failover")
    steps = [e["step"] for e in cluster.events.of("checkpoint.committed")]
    assert steps == sorted(set(steps))


async def test_a_decision_that_cannot_be_read_is_no_dead_end(
    make: MakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = make(steps=60)
    stop = Points(monkeypatch, "checkpoint.before_commit", lambda at: at["generation"] == 3)
    async with cluster.running():
        await stop.reached()
        (tmp_path / "store" / "gen-000003" / "decision.json").write_text("{")
        cluster.kill_coordinator(0)
        stop.release()
        assert await cluster.end() == 0
    assert cluster.events.of("checkpoint.damaged", generation=3)
    assert cluster.events.of("group.formed")[1]["step"] == 20  # there may be more, on a busy machine


async def test_a_damaged_generation_is_passed_over(make: MakeCluster, tmp_path: Path) -> None:
    cluster = make(steps=60)
    async with cluster.running():
        for node in cluster.nodes.values():
            node.save_seconds = 0.3  # the third generation comes when the second has been damaged
        await cluster.until("checkpoint.committed", generation=2)
        damage(tmp_path, "store/gen-000002/shards/*", "flip")
        cluster.nodes["n1"].kill_worker()
        assert await cluster.end() == 0
    events = cluster.events
    assert events.of("checkpoint.damaged", generation=2)
    assert [e["action"] for e in events.of("recovery.action")] == ["cold-restart", "rollback"]
    assert [e["generation"] for e in events.of("group.formed")] == [0, 2, 1]
    assert events.of("failure.detected")[1]["class"] == "corruption"


async def test_a_state_that_fails_the_canary_is_rolled_back(make: MakeCluster) -> None:
    cluster = make(steps=60)
    async with cluster.running():
        for node in cluster.nodes.values():
            node.canary = lambda step: float("nan") if step == 20 else 1.0
        await cluster.until("checkpoint.committed", step=20)
        cluster.nodes["n1"].kill_worker()
        assert await cluster.end() == 0
    assert [e["step"] for e in cluster.events.of("group.formed")] == [0, 20, 10]


async def test_a_notice_is_answered_by_a_checkpoint_and_a_smaller_group(make: MakeCluster) -> None:
    cluster = make(steps=3000, checkpoint_every=3000)  # no cut of its own comes before the end
    async with cluster.running():
        await cluster.until("group.formed")
        await anyio.sleep(0.05)
        await cluster.nodes["n2"].leave(grace=3.0)
        urgent = await cluster.until("checkpoint.committed")
        shrunk = await cluster.until("group.formed", world=2)
        assert await cluster.end() == 0
    assert 0 < urgent["step"] < 3000
    assert shrunk["step"] == urgent["step"]
    assert cluster.events.of("path.exercised", name="preempt.drain")
    assert [e["class"] for e in cluster.events.of("failure.detected")] == ["preempted"]


async def test_a_notice_that_is_too_short_costs_no_more_than_the_last_cut(make: MakeCluster) -> None:
    cluster = make(steps=200, checkpoint_every=50)
    async with cluster.running():
        await cluster.until("checkpoint.committed", step=50)
        await cluster.nodes["n2"].leave(grace=0.0)
        shrunk = await cluster.until("group.formed", world=2)
        assert await cluster.end() == 0
    assert shrunk["step"] == 50


async def test_a_job_without_enough_nodes_fails_instead_of_waiting_for_ever(make: MakeCluster) -> None:
    cluster = make(steps=10_000, min_world=3, give_up=0.5)
    async with cluster.running():
        await cluster.until("checkpoint.committed")
        cluster.nodes["n1"].kill()
        assert await cluster.end() == 1
    assert cluster.events.of("job.failed")


async def test_without_a_store_no_coordinator_stays_for_ever(make: MakeCluster) -> None:
    cluster = make(steps=10_000, give_up=0.5)
    async with cluster.running():
        await cluster.until("group.formed")
        for node in cluster.nodes.values():
            node.kill()  # asyncio may break over a connection that arrives while a listener is cancelled
        cluster.stop_store()
        with anyio.fail_after(15):
            await poll(lambda: len(cluster.codes) == 2)
    assert set(cluster.codes.values()) == {NO_STORE}
    assert not cluster.events.of("job.failed")  # they cannot know


async def test_a_group_that_never_saves_again_is_given_up(make: MakeCluster) -> None:
    cluster = make(steps=10_000, max_failures=2)
    async with cluster.running():
        await cluster.until("checkpoint.committed")
        cluster.nodes["n0"].frozen_worker = True  # in every incarnation that is to come
        assert await cluster.end() == 1
    (failed,) = cluster.events.of("job.failed")
    assert "3 incarnations without a commit" in failed["reason"]
