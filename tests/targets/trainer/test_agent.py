"""The agent and the life and death of its workers; real processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from targets.trainer import defects
from targets.trainer.worker.control import STOPPED
from targets.trainer.worker.loop import DIED

from .bench import Bench, bench, ends_within
from .scripted_leader import ScriptedLeader

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared() -> Iterator[Bench]:
    with bench(steps=8, checkpoint_every=4, lease_renew=0.2) as running:
        yield running


@pytest.fixture
def leader(shared: Bench) -> Iterator[ScriptedLeader]:
    with shared.leading() as leading:
        yield leading


def test_the_death_of_a_worker_is_reported_at_once_with_its_signal(shared: Bench, leader: ScriptedLeader) -> None:
    leader.start("n0", shared.new_epoch(), 1)
    os.kill(shared.pid(0), signal.SIGKILL)
    (exited,) = leader.await_all("worker.exited", epoch=shared.epoch, timeout=1)
    assert (exited["rank"], exited["code"]) == (0, -signal.SIGKILL)


def test_a_stop_ends_even_a_frozen_worker(shared: Bench, leader: ScriptedLeader) -> None:
    leader.start("n0", shared.new_epoch(), 1)
    pid = shared.pid(0)
    worker = os.pidfd_open(pid)
    os.kill(pid, signal.SIGSTOP)
    shared.disband()
    assert ends_within(worker, 0.5)
    assert not leader.heard("worker.exited", epoch=shared.epoch)


def test_a_stop_of_an_older_epoch_leaves_the_worker_alone(shared: Bench, leader: ScriptedLeader) -> None:
    leader.start("n0", shared.new_epoch(), 1)
    leader.order_agent("n0", "stop", epoch=shared.epoch - 1)
    leader.await_all("stopped", epoch=shared.epoch - 1)
    assert not shared.events("worker.stopped", epoch=shared.epoch)


def test_without_answers_the_lease_runs_out_and_ends_the_workers(shared: Bench, leader: ScriptedLeader) -> None:
    leader.ttl = 0.6
    leader.await_all("heartbeat", 2)
    leader.start("n0", shared.new_epoch(), 1)
    leader.mute = True
    stopped = shared.await_event("worker.stopped", epoch=shared.epoch)
    assert stopped["reason"] == "lease-expired"
    leader.mute = False
    leader.await_all("join", 2)


def test_a_leader_that_is_gone_ends_its_workers_and_the_next_one_is_found(shared: Bench) -> None:
    with shared.leading() as first:
        first.start("n0", shared.new_epoch(), 1)
    assert shared.await_event("worker.stopped", epoch=shared.epoch)["reason"] == "lease-expired"
    with shared.leading():
        pass


def test_a_worker_that_is_refused_as_stale_stops_itself(shared: Bench, leader: ScriptedLeader) -> None:
    leader.start("n0", shared.new_epoch(), 1)
    leader.refuse = lambda frame: "stale-epoch" if frame["op"] == "heartbeat" and "rank" in frame.header else None
    (exited,) = leader.await_all("worker.exited", epoch=shared.epoch)
    assert exited["code"] == STOPPED
    assert shared.await_event("worker.stopped", epoch=shared.epoch)["reason"] == "stale-epoch"


def test_survivors_of_a_killed_peer_wait_to_be_stopped(shared: Bench, leader: ScriptedLeader) -> None:
    shared.form(2)
    shared.await_event("step.completed", epoch=shared.epoch)
    os.kill(shared.pid(1), signal.SIGKILL)
    leader.await_all("heartbeat", epoch=shared.epoch, rank=0, phase="broken")
    assert [e["rank"] for e in leader.heard("worker.exited", epoch=shared.epoch)] == [1]
    shared.disband()


@pytest.mark.parametrize("defect", ["none", defects.ORPHANS_SURVIVE])
def test_a_worker_stops_when_its_agent_is_killed_unless_it_does_not_watch(defect: str) -> None:
    with bench(defect=defect) as running, running.leading() as leader:
        leader.start("n0", running.new_epoch(), 1)
        pid = running.pid(0)
        worker = os.pidfd_open(pid)
        running.job.kill("agent-n0")
        if defect == "none":
            assert ends_within(worker, running.settings.member_ttl)
            assert running.await_event("path.exercised", name="worker.orphan_stop")
        else:
            assert not ends_within(worker, running.settings.member_ttl)
            os.kill(pid, signal.SIGKILL)


def test_a_notice_to_a_worker_makes_its_node_leave_and_a_stop_ends_it() -> None:
    with bench() as running, running.leading() as leader:
        leader.start("n0", running.new_epoch(), 1)
        os.kill(running.pid(0), signal.SIGTERM)
        (leaving,) = leader.await_all("leaving")
        assert leaving["grace"] == running.settings.grace
        agent = os.pidfd_open(running.await_event("hello", member="agent-n0")["pid"])
        running.disband()
        assert ends_within(agent, 1)


def test_the_restart_loop_defect_dies_at_its_first_step_after_each_restore() -> None:
    with bench(steps=4, checkpoint_every=2, defect=defects.RESTART_LOOP) as running, running.leading() as leader:
        running.form(1)
        leader.round(running.store, running.epoch, 1, 1, 2)
        for _ in range(2):
            running.disband()
            running.form(1, generation=1, step=2)
            (exited,) = leader.await_all("worker.exited", epoch=running.epoch)
            assert exited["code"] == DIED
            assert not running.events("step.completed", epoch=running.epoch)
