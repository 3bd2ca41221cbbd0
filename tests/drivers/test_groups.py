"""Control groups and limits of real processes: what the kernel counts, and that nothing is left of them."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from chaos.api import Fault, Launch, Member, Selection, Selector
from chaos.capabilities import Groups
from chaos.drivers.process import Process, cgroups
from chaos.errors import NotLanded
from chaos.faults.compute.straggler import Straggler
from chaos.faults.process.cgroup_freeze import CgroupFreeze
from chaos.faults.process.kill import Kill
from chaos.faults.process.oom import Oom
from chaos.testing import Recorder

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
Make = Callable[..., Launch]
EVERYBODY = Selector(roles=("program",))

# Counts how often it gets round, and tells on each signal how far it got.
COUNTER = """
    import os, signal, time
    from chaos import inside
    inside.hello("a", role="program")
    done = 0
    signal.signal(signal.SIGUSR2, lambda *_: inside.emit("count", done=done, cpu=time.process_time()))
    inside.emit("it.runs")
    while True:
        done += 1
"""
# Starts a worker that takes a little more memory whenever it is told to.
EATER = """
    import os, signal
    from chaos import inside
    inside.hello("agent", role="agent")
    if os.fork() == 0:
        inside.hello("worker", role="program", rank=0)
        eaten = []
        signal.signal(signal.SIGUSR2, lambda *_: eaten.append(b"x" * (8 << 20)))
        inside.emit("worker.runs")
    while True:
        signal.pause()
"""
# Is done when it is told to.
DONE_SOON = """
    import os, signal
    from chaos import inside
    signal.signal(signal.SIGUSR2, lambda *_: os._exit(0))
    inside.hello(os.environ["CHAOS_MEMBER"], role="program")
    inside.emit("it.runs")
    while True:
        signal.pause()
"""
# Starts a worker that is done when it is told to, and never looks after it.
NEGLECTFUL = """
    import os, signal
    from chaos import inside
    inside.hello("agent", role="agent")
    if os.fork() == 0:
        signal.signal(signal.SIGUSR2, lambda *_: os._exit(0))
        inside.hello("worker", role="program", rank=0)
        inside.emit("worker.runs")
    while True:
        signal.pause()
"""


@pytest.fixture(scope="module")
def grouped() -> None:
    if missing := cgroups.find_ground("chaos-test").missing:
        pytest.skip(f"no control groups here: {missing}")


@asynccontextmanager
async def opened(launch: Launch, stage: Recorder, *faults: Fault[Any]) -> AsyncIterator[Any]:
    async with Process().open(msgspec.structs.replace(launch, faults=faults), stage) as target:
        await target.wait_ready()
        yield target


def member(target: Any, name: str) -> Member:
    found: Member = next(m for m in target.members() if m.name == name)
    return found


def hit(*members: Member) -> Selection:
    return Selection(members=members, nodes=())


async def pace(target: Any, stage: Recorder, seconds: float = 0.8) -> float:
    """How much of a core the counter gets."""
    await target.signal(member(target, "a"), signal.SIGUSR2)
    first = await stage.until("count", times=1 + sum(e.kind == "count" for e in stage.events))
    await anyio.sleep(seconds)
    await target.signal(member(target, "a"), signal.SIGUSR2)
    second = await stage.until("count", times=1 + sum(e.kind == "count" for e in stage.events))
    return float((second.get("cpu") - first.get("cpu")) / (second.t - first.t))


def left(harness: int) -> list[Path]:
    """Folders of groups of that harness; others may run on this machine at the same time."""
    return [p for place in _places() for p in place.folder.glob(f"chaos-{harness}-*")]


def _places() -> list[cgroups.Place]:
    return cgroups.places(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())


@pytest.mark.parametrize("lab", [True, False], ids=["lab", "no-lab"])
@pytest.mark.parametrize("by", ["quota", "duty-cycle"])
async def test_a_straggler_gets_its_share_of_a_core_and_no_more_until_the_heal(
    stage: Recorder, launch: Make, lab: bool, by: Any, grouped: None
) -> None:
    fault = Straggler(members=EVERYBODY, slowdown=5.0, by=by)
    async with opened(launch({"a": COUNTER}, lab=lab), stage, fault) as target:
        await stage.until("it.runs")
        async with fault.inject(target, hit(member(target, "a"))) as landing, anyio.create_task_group() as tasks:
            upkeep: Any = landing.upkeep
            if upkeep:
                tasks.start_soon(upkeep)
            assert await pace(target, stage) < 0.35
            tasks.cancel_scope.cancel()
        await nothing_slows(target, by)
        assert landing.evidence["mechanism"].startswith("quota" if by == "quota" else "duty cycle")
        if by == "quota":
            assert landing.evidence["members"][0]["throttled"] >= 1
            assert landing.healed["members"][0]["throttled"] >= landing.evidence["members"][0]["throttled"]
        else:
            assert landing.healed["stopped_share"] == pytest.approx(0.8, abs=0.19)


async def nothing_slows(target: Any, by: str) -> None:
    """For a while: neither a stop nor a throttled period. How fast it is depends on who else runs here."""
    who = member(target, "a")
    before = target.account(who, "cpu")["throttled"] if by == "quota" else 0
    for _ in range(20):
        assert target.state(who) != "T"
        await anyio.sleep(0.01)
    assert by != "quota" or target.account(who, "cpu")["throttled"] <= before + 1  # a period that had begun


async def test_a_straggler_without_control_groups_is_stopped_by_signals(stage: Recorder, launch: Make) -> None:
    fault = Straggler(members=EVERYBODY)
    async with opened(launch({"a": COUNTER}), stage) as target:  # nobody asked for groups, so there are none
        assert not isinstance(target, Groups)
        async with fault.inject(target, hit(member(target, "a"))) as landing:
            assert target.state(member(target, "a")) == "T"
        assert "duty cycle" in landing.evidence["mechanism"]
        assert target.state(member(target, "a")) != "T"


async def test_a_process_that_does_nothing_is_no_straggler(
    stage: Recorder, launch: Make, grouped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.faults.compute.straggler.LANDS_WITHIN", 0.3)
    fault = Straggler(members=EVERYBODY, by="quota")
    async with opened(launch({"agent": EATER}), stage, fault) as target:
        await stage.until("worker.runs")
        with pytest.raises(NotLanded, match="computes less than its quota"):
            async with fault.inject(target, hit(member(target, "worker"))):
                pass
        assert target.account(member(target, "worker"), "cpu") == {}


@pytest.mark.parametrize("lab", [True, False], ids=["lab", "no-lab"])
async def test_a_frozen_group_stops_a_program_with_what_it_forked_or_a_worker_alone(
    stage: Recorder, launch: Make, lab: bool, grouped: None
) -> None:
    fault = CgroupFreeze(members=EVERYBODY)
    async with opened(launch({"agent": EATER}, lab=lab), stage, fault) as target:
        await stage.until("worker.runs")
        agent, worker = member(target, "agent"), member(target, "worker")
        async with fault.inject(target, hit(worker)):
            assert frozen(worker)
            assert not frozen(agent)
            with pytest.raises(NotLanded, match="limited already"):
                async with fault.inject(target, hit(worker)):
                    pass
            assert frozen(worker)
        assert not frozen(worker)
        async with fault.inject(target, hit(agent)) as landing:
            assert frozen(agent)
            assert frozen(worker)
            assert landing.evidence["members"][0]["frozen"] is True
        assert landing.healed["members"] == [{"member": "agent", "pid": agent.pid, "frozen": False}]
    assert left(os.getpid()) == []


def frozen(who: Member) -> bool:
    """What the kernel says of the group that it is in, in either version."""
    for line in Path(f"/proc/{who.pid}/cgroup").read_text().splitlines():
        place = line.rpartition(":")[2].strip("/")
        for file, text in (("cgroup.events", "frozen 1"), ("freezer.state", "FROZEN")):
            for root in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup/freezer"), Path("/sys/fs/cgroup")):
                path = root / place / file
                if place and path.exists() and text in path.read_text():
                    return True
    return False


@pytest.mark.parametrize("lab", [True, False], ids=["lab", "no-lab"])
async def test_the_oom_killer_ends_a_worker_that_asks_for_more_and_nobody_else(
    stage: Recorder, launch: Make, lab: bool, grouped: None
) -> None:
    fault = Oom(members=EVERYBODY, by="group", within=5.0)
    async with opened(launch({"agent": EATER}, lab=lab), stage, fault) as target:
        await stage.until("worker.runs")
        agent, worker = member(target, "agent"), member(target, "worker")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_nudge, target, worker)
            async with fault.inject(target, hit(worker)) as landing:
                tasks.cancel_scope.cancel()
        assert landing.evidence["gone"] == ["worker"]
        assert landing.evidence["members"][0]["oom_kills"] == 1
        exited = await stage.until("member.exited", "worker")
        assert exited.get("code") in (-signal.SIGKILL, None)
        assert target.state(agent) in "RSD"
    assert left(os.getpid()) == []


async def _nudge(target: Any, worker: Member) -> None:
    while True:
        await anyio.sleep(0.05)
        try:
            await target.signal(worker, signal.SIGUSR2)
        except NotLanded:
            return


async def test_a_limit_on_a_whole_program_is_gone_after_the_heal(stage: Recorder, launch: Make, grouped: None) -> None:
    fault = CgroupFreeze(members=EVERYBODY)
    async with opened(launch({"agent": EATER}), stage, fault) as target:
        await stage.until("worker.runs")
        agent = member(target, "agent")
        before = target.account(agent, "memory")
        assert (before["limit"], before["oom_kills"]) == (None, 0)
        assert before["bytes"] > 1 << 20
        await target.restrict(agent, "memory", 0)
        assert target.account(agent, "memory")["limit"] <= before["bytes"] + (8 << 20)
        await target.lift(agent, "memory")
        assert target.account(agent, "memory")["limit"] is None


async def test_without_control_groups_an_allocation_fails_inside_the_program(stage: Recorder, launch: Make) -> None:
    fault = Oom(members=EVERYBODY, by="address-space", within=5.0)
    async with opened(launch({"agent": EATER}), stage, fault) as target:
        await stage.until("worker.runs")
        worker = member(target, "worker")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_nudge, target, worker)
            async with fault.inject(target, hit(worker)) as landing:
                tasks.cancel_scope.cancel()
        assert "nobody was killed" in landing.evidence["mechanism"]
        assert (await stage.until("member.exited", "worker")).get("code") in (1, None)
        await stage.until_line("agent", "MemoryError")


async def test_a_program_that_is_done_had_no_allocation_that_failed(stage: Recorder, launch: Make) -> None:
    fault = Oom(members=EVERYBODY, by="address-space", within=20.0)
    async with opened(launch({"a": DONE_SOON}), stage, fault) as target:
        await stage.until("it.runs")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_nudge, target, member(target, "a"))
            with pytest.raises(NotLanded, match="a has ended by itself, with code 0"):
                async with fault.inject(target, hit(member(target, "a"))):
                    pass
            tasks.cancel_scope.cancel()


async def test_who_has_ended_by_itself_was_not_killed_although_nobody_has_looked(stage: Recorder, launch: Make) -> None:
    async with opened(launch({"agent": NEGLECTFUL}), stage) as target:
        await stage.until("worker.runs")
        worker = member(target, "worker")
        await target.signal(worker, signal.SIGUSR2)
        await target.wait_state(worker, "Z", 20.0)
        with pytest.raises(NotLanded, match="gone before SIGKILL could be sent"):
            async with Kill(members=EVERYBODY).inject(target, hit(worker)):
                pass


async def test_a_program_that_needs_no_memory_has_no_oom_and_keeps_its_limit(stage: Recorder, launch: Make) -> None:
    fault = Oom(members=EVERYBODY, by="address-space", within=0.2)
    async with opened(launch({"agent": EATER}), stage, fault) as target:
        await stage.until("worker.runs")
        worker = member(target, "worker")
        with pytest.raises(NotLanded, match="did without more memory"):
            async with fault.inject(target, hit(worker)):
                pass
        assert resource.prlimit(worker.pid, resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


FROZEN = """
import sys, anyio
from pathlib import Path
from chaos.api import Launch, Selection, Selector
from chaos.drivers.process import Process
from chaos.faults.process.cgroup_freeze import CgroupFreeze
from chaos.testing import Recorder
async def main():
    folder = Path(sys.argv[2])
    fault = CgroupFreeze(members=Selector(roles=("program",)))
    spec = {"members": [{"name": "a", "role": "program", "command": ["python", "-S", "-c", "input()"]}], "nodes": []}
    spec["members"][0]["command"][-1] = "import signal; signal.pause()"
    lab = sys.argv[1] == "lab"
    launch = Launch(spec=spec, settings={}, folder=folder, base=folder, points=(), lab=lab, faults=(fault,))
    async with Process().open(launch, Recorder()) as target:
        await target.wait_ready()
        async with fault.inject(target, Selection(members=target.members(), nodes=())) as landing:
            print(target.members()[0].pid, landing.evidence["members"][0]["version"], flush=True)
            await anyio.sleep_forever()
anyio.run(main)
"""


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("lab", ["lab", "no-lab"])
def test_a_killed_harness_leaves_no_group_even_of_one_that_is_frozen(
    lab: str, version: int, tmp_path: Path, grouped: None
) -> None:
    if not any(place.version == version and "freezer" in place.controllers for place in _places()):
        pytest.skip(f"no freezer of version {version} here")
    program = FROZEN
    if version == 1:  # as on a machine that has no other
        program = (
            "from chaos.drivers.process import cgroups\nfind = cgroups.places\n"
            "cgroups.places = lambda *a: [p for p in find(*a) if p.version == 1]\n" + FROZEN
        )
    command = [sys.executable, "-c", program, lab, str(tmp_path)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        pid, freezer = harness.stdout.readline().split()
        assert freezer == f"v{version}"
        assert left(harness.pid) != []
        os.kill(harness.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5.0
    while (found := left(harness.pid)) or Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
