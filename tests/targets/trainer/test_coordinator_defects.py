"""Each deliberate bug of the coordinator shows its symptom in the events, and the run still ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from .cluster import MakeCluster, Points

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_marker_first_commits_before_any_shard_is_there(make: MakeCluster) -> None:
    cluster = make(defect="marker-first")
    async with cluster.running():
        assert await cluster.end() == 0
    kinds = [kind for kind, data in cluster.events if data.get("generation") == 1]
    assert kinds.index("checkpoint.committed") < kinds.index("checkpoint.shard_written")


async def test_the_newest_directory_is_restored_though_nobody_committed_it(
    make: MakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make(steps=60, defect="restore-newest-directory")
    stop = Points(monkeypatch, "checkpoint.before_decision", lambda at: at["generation"] == 3)
    async with cluster.running():
        await stop.reached()
        cluster.kill_coordinator(0)
        stop.release()
        assert await cluster.end() == 0
    assert cluster.events.of("group.formed")[-1]["generation"] == 3
    assert not cluster.events.of("checkpoint.committed", generation=3)


async def test_the_second_newest_is_restored_without_cause(make: MakeCluster) -> None:
    cluster = make(steps=60, defect="restore-second-newest")
    async with cluster.running():
        await cluster.until("checkpoint.committed", generation=3)
        cluster.nodes["n1"].kill_worker()
        assert await cluster.end() == 0
    restored = cluster.events.of("group.formed")[1]["generation"]
    newest = [i for i, (kind, _) in enumerate(cluster.events) if kind == "group.formed"][1]
    committed = [data["generation"] for kind, data in cluster.events[:newest] if kind == "checkpoint.committed"]
    assert restored == committed[-2]


async def test_retention_by_count_removes_the_only_good_one(make: MakeCluster) -> None:
    cluster = make(defect="retention-by-count")
    async with cluster.running():
        assert await cluster.end() == 0
    kinds = [(kind, data.get("generation")) for kind, data in cluster.events]
    assert kinds.index(("checkpoint.removed", 1)) < kinds.index(("checkpoint.committed", 2))


async def test_an_epoch_that_is_not_raised_stands_for_two_groups(make: MakeCluster) -> None:
    cluster = make(steps=60, defect="epoch-not-raised")
    async with cluster.running():
        await cluster.until("checkpoint.committed", generation=2)
        cluster.nodes["n1"].kill_worker()
        assert await cluster.end() == 0
    assert [e["epoch"] for e in cluster.events.of("group.formed")] == [1, 1]


async def test_an_epoch_is_not_raised_for_a_new_leader_either(
    make: MakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make(steps=120, checkpoint_every=20, keep=9, defect="epoch-not-raised")
    stop = Points(monkeypatch, "checkpoint.before_commit", lambda at: at["generation"] == 3)
    async with cluster.running():
        await stop.reached()
        cluster.network.cut.add("coordinator-0")
        stop.release()
        await cluster.until("group.formed", generation=3)
        cluster.network.cut.clear()
        await cluster.until("write.accepted", resource="generation/3/commit", member="coordinator-0")
        assert await cluster.end() == 0
    assert {e["epoch"] for e in cluster.events.of("group.formed")} == {1}
    commits = cluster.events.of("write.accepted", resource="generation/3/commit")
    assert {e["member"] for e in commits} == {"coordinator-0", "coordinator-1"}


async def test_a_short_timeout_raises_false_alarms_until_the_job_is_given_up(make: MakeCluster) -> None:
    cluster = make(defect="short-timeout", max_failures=1)
    async with cluster.running():
        for node in cluster.nodes.values():
            node.save_seconds = 0.8
        assert await cluster.end() == 1
    alarms = cluster.events.of("failure.detected")
    assert {e["class"] for e in alarms} == {"hang"}
    assert not cluster.events.of("checkpoint.committed")


async def test_a_slow_checkpoint_is_no_alarm_otherwise(make: MakeCluster) -> None:
    cluster = make(steps=10)
    async with cluster.running():
        for node in cluster.nodes.values():
            node.save_seconds = 0.8
        assert await cluster.end() == 0
    assert not cluster.events.of("failure.detected")


async def test_without_detection_a_frozen_worker_is_never_found(make: MakeCluster) -> None:
    cluster = make(steps=60, defect="no-detection")
    async with cluster.running():
        await cluster.until("checkpoint.committed", generation=1)
        cluster.nodes["n1"].frozen_worker = True
        await anyio.sleep(2 * cluster.settings.stall)
        assert not cluster.codes
    assert not [kind for kind, _ in cluster.events if kind.startswith("failure.")]


async def test_a_failure_that_is_kept_quiet_is_recovered_from_all_the_same(make: MakeCluster) -> None:
    cluster = make(steps=60, defect="failure-kept-quiet")
    async with cluster.running():
        await cluster.until("checkpoint.committed", generation=1)
        cluster.nodes["n1"].kill_worker()
        assert await cluster.end() == 0
    assert len(cluster.events.of("group.formed")) == 2
    assert not cluster.events.of("failure.detected")


async def test_ranks_that_do_not_agree_are_rolled_back_together(make: MakeCluster) -> None:
    cluster = make(steps=60)
    async with cluster.running():
        cluster.nodes["n1"].stale_step = 10  # claims to hold this step's state whatever it was told to load
        await cluster.until("checkpoint.committed", generation=2)
        cluster.nodes["n2"].kill_worker()
        assert await cluster.end() == 0
    assert [e["generation"] for e in cluster.events.of("group.formed")] == [0, 2, 1]
    assert cluster.events.of("failure.detected", member="group")
    assert [e["action"] for e in cluster.events.of("recovery.action")] == ["cold-restart", "rollback"]


async def test_ranks_that_do_not_agree_are_let_go_on_by_the_defect(make: MakeCluster) -> None:
    cluster = make(steps=60, defect="mixed-generations")
    async with cluster.running():
        cluster.nodes["n1"].stale_step = 10
        await cluster.until("checkpoint.committed", generation=2)
        cluster.nodes["n2"].kill_worker()
        await cluster.until("group.formed", epoch=2)
        await cluster.until("recovery.validated")
    assert not cluster.events.of("failure.detected", member="group")


def generations(folder: Path) -> list[Path]:
    return sorted((folder / "store").glob("gen-*"))


async def restored_after(make: MakeCluster, harm: Callable[[], None], defect: str) -> tuple[int, list[int]]:
    """The generation that a group goes on from after three were committed and something was done to them; the
    damaged ones."""
    cluster = make(steps=300, keep=9, defect=defect)
    async with cluster.running():
        await cluster.until("checkpoint.committed", generation=3)
        harm()
        cluster.nodes["n1"].kill_worker()
        await cluster.until("recovery.validated")
        restored: int = cluster.events.of("group.formed")[-1]["generation"]
        return restored, [e["generation"] for e in cluster.events.of("checkpoint.damaged")]


@pytest.mark.parametrize("defect", ["none", "manifest-damage-starts-afresh", "rollback-once"])
async def test_damaged_manifests_are_passed_over_one_by_one(make: MakeCluster, tmp_path: Path, defect: str) -> None:
    def harm() -> None:
        for folder in generations(tmp_path)[1:]:
            if (folder / "manifest.json").exists():
                (folder / "manifest.json").write_text("{}")

    restored, damaged = await restored_after(make, harm, defect)
    if defect == "manifest-damage-starts-afresh":
        assert (restored, damaged) == (0, [])
    else:  # all in one look: only ranks that find damage one after the other bring `rollback-once` out
        assert restored == 1
        assert set(damaged) >= {2, 3}


@pytest.mark.parametrize("defect", ["none", "trust-latest"])
async def test_a_pointer_that_was_rolled_back_is_not_followed(make: MakeCluster, tmp_path: Path, defect: str) -> None:
    def harm() -> None:
        (tmp_path / "store/latest").write_text("1")

    restored, _ = await restored_after(make, harm, defect)
    assert restored == 1 if defect == "trust-latest" else restored >= 3
