"""A node that is silent for a while is waited for; one worker alone, or for too long, is not."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest

from targets.trainer.coordinator.detector import Heartbeats, Silence
from targets.trainer.coordinator.lease import Lease
from targets.trainer.coordinator.members import Link, Members
from targets.trainer.coordinator.pause import Pause
from targets.trainer.settings import Settings
from targets.trainer.wire import Frame

from .cluster import MakeCluster, record
from .recorded import Events

SETTINGS = Settings(pause=5.0, member_ttl=3.0, suspect_floor=0.75, suspect_ceiling=0.75)


class Stage:
    """Two nodes with an agent and a worker each, and a clock that stands until it is set."""

    def __init__(self, settings: Settings, events: Events) -> None:
        self.now, self.events = 0.0, events
        self.heartbeats = Heartbeats(settings, lambda: self.now)
        members = Members(settings, cast(Lease, None), self.heartbeats)
        for rank, node in enumerate(("n0", "n1")):
            agent = Frame({"op": "join", "member": f"agent-{node}", "node": node})
            worker = Frame({"op": "hello", "member": f"worker-{node}", "node": node, "rank": rank, "epoch": 1})
            members.agents[node], members.workers[rank] = Link(cast(Any, None), agent), Link(cast(Any, None), worker)
            self.heartbeats.watch(f"agent-{node}")
            self.heartbeats.watch(f"worker-{node}")
        self.pause = Pause(settings, self.heartbeats, members)

    def at(self, now: float, *heard: str) -> bool:
        """Some are heard at that moment; what a look at it says."""
        self.now = now
        for member in heard:
            self.heartbeats.beat(member)
        return self.pause.look(1, ["n0", "n1"])

    def covers(self, member: str, seconds: float) -> bool:
        return self.pause.covers(Silence(member, seconds, True))


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(SETTINGS, record(monkeypatch))


HEALTHY = ("agent-n0", "worker-n0")


def test_it_begins_when_a_whole_node_is_silent_and_ends_when_everybody_on_it_is_heard(stage: Stage) -> None:
    assert not stage.at(0.5, *HEALTHY)
    assert not stage.pause.stands
    assert not stage.at(1.0, *HEALTHY)
    assert stage.pause.stands
    assert stage.events.of("recovery.action", action="pause", nodes=["n1"])
    assert not stage.at(4.0, *HEALTHY, "agent-n1")
    assert stage.pause.stands  # the worker's connection comes back later
    assert stage.covers("worker-n1", 4.0)
    assert stage.at(4.5, *HEALTHY, "agent-n1", "worker-n1")
    assert not stage.pause.stands
    assert stage.events.of("path.exercised", name="group.pause")


def test_it_is_bounded(stage: Stage) -> None:
    stage.at(1.0, *HEALTHY)
    assert stage.covers("agent-n1", 7.9)
    assert not stage.covers("agent-n1", 8.0)
    assert not stage.covers("worker-n0", 3.0)


def test_a_worker_that_is_silent_alone_is_not_waited_for(stage: Stage) -> None:
    stage.at(3.5, *HEALTHY, "agent-n1")
    assert not stage.pause.stands
    assert not stage.covers("worker-n1", 3.5)


def test_a_pause_that_was_not_enough_is_no_recovery(stage: Stage) -> None:
    stage.at(1.0, *HEALTHY)
    stage.pause.drop()
    assert not stage.pause.stands
    assert not stage.at(1.1, *HEALTHY, "agent-n1", "worker-n1")
    assert not stage.events.of("path.exercised")


def test_without_the_setting_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(Settings(), record(monkeypatch))
    stage.at(2.5, *HEALTHY)
    assert not stage.pause.stands
    assert not stage.covers("agent-n1", 3.0)


@pytest.mark.anyio
@pytest.mark.slow
class TestGroup:
    async def test_a_node_that_is_silent_for_longer_than_its_lease_comes_back_to_the_same_group(
        self, make: MakeCluster
    ) -> None:
        cluster = make(steps=300, checkpoint_every=100, pause=6.0, stall=0.3)
        async with cluster.running():
            await cluster.until("checkpoint.committed")
            cluster.nodes["n1"].frozen = True
            await cluster.until("path.entered", name="group.pause")
            await anyio.sleep(1.5 * cluster.settings.member_ttl)
            cluster.nodes["n1"].frozen = False
            assert await cluster.end() == 0
        assert not cluster.events.of("failure.detected")
        assert [e["epoch"] for e in cluster.events.of("group.formed")] == [1]
        assert cluster.events.of("path.exercised", name="group.pause")

    async def test_one_that_does_not_come_back_is_lost(self, make: MakeCluster) -> None:
        cluster = make(steps=300, checkpoint_every=20, pause=0.5)
        async with cluster.running():
            await cluster.until("checkpoint.committed")
            cluster.nodes["n1"].frozen = True
            await cluster.until("group.formed", world=2)
            assert await cluster.end() == 0
        assert cluster.events.of("path.entered", name="group.pause")
        assert not cluster.events.of("path.exercised", name="group.pause")

    async def test_the_deliberate_bug_takes_a_pause_for_a_loss(self, make: MakeCluster) -> None:
        cluster = make(steps=300, checkpoint_every=20, pause=6.0, defect="restart-on-transient")
        async with cluster.running():
            await cluster.until("checkpoint.committed")
            cluster.nodes["n1"].frozen = True
            failure = await cluster.until("failure.detected")
            assert failure["member"] in ("agent-n1", "worker-n1")
