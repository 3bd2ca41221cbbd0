"""Faults of the harness against real processes and real links."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from chaos.api import Fault, Launch, Member, Selector
from chaos.drivers.process import Process
from chaos.drivers.process.target import LabTarget, ProcessTarget
from chaos.faults.network.partition import Partition
from chaos.faults.process.freeze import Freeze
from chaos.faults.process.kill import Kill
from chaos.faults.process.kill_agent import KillAgent
from chaos.faults.process.preempt import Preempt
from chaos.selection import select
from chaos.testing import Recorder, check_driver

from .conftest import need_user_namespaces

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

# An agent with a worker that it forked; the worker goes on TERM, the agent ignores it.
AGENT = """
import os, signal
from chaos import inside
name = os.environ["CHAOS_MEMBER"]
inside.hello(name, role="agent")
if os.fork() == 0:
    inside.hello(name.replace("agent", "worker"), role="worker", node=os.environ["CHAOS_NODE"])
else:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    inside.emit("agent.ready")
while True:
    signal.pause()
"""
SPEC: dict[str, Any] = {
    "settings": {"nodes": 2},
    "nodes": [{"name": "n${i}", "for-each": "nodes"}],
    "members": [
        {
            "name": "agent-n${i}", "role": "agent", "node": "n${i}", "for-each": "nodes",
            "command": ["python", "-c", AGENT], "ready": {"event": "agent.ready"},
        }
    ],
    "announced": [{"name": "worker-n${i}", "role": "worker", "node": "n${i}", "rank": "${i}", "for-each": "nodes"}],
    "stop-grace": "50ms",
}  # fmt: skip
ALIVE = "RSD"  # running, waiting, or waiting for a disk, as it pleases
NODE_1 = Selector(nodes=("n1",))


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    need_user_namespaces()
    root = Path(__file__).parents[2]
    return Launch(spec=SPEC, settings=SPEC["settings"], folder=tmp_path / "run", base=root, points=())


@asynccontextmanager
async def cluster(launch: Launch) -> AsyncIterator[ProcessTarget]:
    stage = Recorder()
    async with Process().open(launch, stage) as target:
        assert isinstance(target, ProcessTarget)
        await target.wait_ready()
        for name in ("worker-n0", "worker-n1"):
            await stage.until("member.started", name)
        yield target


def hit(fault: Fault[Any], target: ProcessTarget) -> tuple[Any, ...]:
    return select(fault.selectors(), Process().slots(SPEC), target.members())


def states(target: ProcessTarget, members: tuple[Member, ...]) -> dict[str, str]:
    return {m.name: target.state(m) for m in members}


async def test_a_kill_is_over_when_it_is_said_to_have_landed(launch: Launch) -> None:
    async with cluster(launch) as target:
        everyone = target.members()
        fault = Kill(members=NODE_1)
        async with fault.inject(target, *hit(fault, target)) as landing:
            assert len(landing.evidence["members"]) == 2
            assert {m.name for m in target.members()} == {"agent-n0", "worker-n0"}
        assert states(target, everyone)["worker-n0"] in ALIVE


async def test_a_freeze_stops_and_lets_go(launch: Launch) -> None:
    async with cluster(launch) as target:
        members = target.members()
        fault = Freeze(members=NODE_1)
        async with fault.inject(target, *hit(fault, target)):
            stopped = {name for name, state in states(target, members).items() if state == "T"}
            assert stopped == {"agent-n1", "worker-n1"}  # the others may run or sleep, as they please
        assert "T" not in states(target, members).values()


async def test_a_preemption_kills_what_does_not_go(launch: Launch) -> None:
    async with cluster(launch) as target:
        fault = Preempt(members=NODE_1, grace=0.3)
        async with fault.inject(target, *hit(fault, target)) as landing:
            went = {m["member"]: m["by"] for m in landing.evidence["members"]}
        assert went == {"worker-n1": "SIGTERM", "agent-n1": "SIGKILL"}


async def test_an_agent_dies_alone(launch: Launch) -> None:
    async with cluster(launch) as target:
        fault = KillAgent(members=Selector(names=("agent-n1",)))
        async with fault.inject(target, *hit(fault, target)) as landing:
            ((name, state),) = [(w["member"], w["state"]) for w in landing.evidence["workers"]]
            assert name == "worker-n1"
            assert state in ALIVE
        assert {m.name for m in target.members()} == {"agent-n0", "worker-n0", "worker-n1"}


async def test_a_partition_drops_real_packets(launch: Launch) -> None:
    async with cluster(launch) as target:
        assert isinstance(target, LabTarget)
        fault = Partition(between=(NODE_1, Selector(rest=True)), direction="a-to-b")
        async with fault.inject(target, *hit(fault, target)) as landing:
            (pair,) = landing.evidence["pairs"]
            assert (pair["from"], pair["to"]) == ("n1", "n0")
            assert pair["dropped"] >= 1
        assert landing.healed["pairs"][0]["received"] == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("lab", [True, False], ids=["lab", "no-lab"])
async def test_the_process_driver_keeps_the_contract_of_drivers(launch: Launch, lab: bool, tmp_path: Path) -> None:
    plan = Launch(spec=SPEC, settings=launch.settings, folder=tmp_path, base=launch.base, points=(), lab=lab)
    await check_driver(Process(), plan)
