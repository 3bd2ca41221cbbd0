"""Stragglers, frozen groups, no memory, restart loops: on a target without processes, in virtual time."""

from __future__ import annotations

import signal
from contextlib import nullcontext
from typing import Any

import anyio
import pytest

from chaos.api import Fault, Launch, Member, Selector
from chaos.capabilities import Groups, Limits
from chaos.errors import HealFailed, NotLanded
from chaos.faults.compute.straggler import Straggler
from chaos.faults.process.cgroup_freeze import CgroupFreeze
from chaos.faults.process.oom import Oom
from chaos.faults.process.restart_loop import RestartLoop
from chaos.testing import FakeTarget

from .conftest import Hit
from .fitted import FittedTarget

pytestmark = pytest.mark.anyio
RANK_1 = Selector(ranks=(1,))
NODE_1 = Selector(nodes=("n1",))


@pytest.fixture
def fitted() -> FittedTarget:
    return FittedTarget()


async def test_a_straggler_has_a_share_of_its_cores(fitted: FittedTarget, hit: Hit) -> None:
    fault = Straggler(members=RANK_1, slowdown=4.0, cores=2.0)
    async with fault.inject(fitted, *hit(fault, fitted)) as landing:
        assert fitted.limited == {("worker-n1", "cpu"): 0.5}
        assert landing.evidence["members"][0]["throttled"] >= 1
    assert fitted.limited == {}


async def test_a_member_that_computes_nothing_is_not_slowed_by_a_quota(fitted: FittedTarget, hit: Hit) -> None:
    fitted.idle = frozenset({"worker-n1"})
    fault = Straggler(members=RANK_1)
    with pytest.raises(NotLanded, match="computes less than its quota"):
        async with fault.inject(fitted, *hit(fault, fitted)):
            pass
    assert fitted.limited == {}


async def test_a_duty_cycle_keeps_its_share_on_an_absolute_schedule(hit: Hit) -> None:
    class Timed(FakeTarget):
        def __init__(self) -> None:
            super().__init__()
            self.log: list[tuple[float, int]] = []

        async def signal(self, member: Member, signum: int) -> None:
            self.log.append((round(anyio.current_time() - began, 3), signum))
            if len(self.log) == 4:
                await anyio.sleep(0.37)  # the harness is held up once
            await super().signal(member, signum)

    began, timed = anyio.current_time(), Timed()
    fault = Straggler(members=RANK_1, slowdown=4.0, period=0.1)
    async with fault.inject(timed, *hit(fault, timed)) as landing:
        assert timed.standing() == {"worker-n1"}
        with anyio.move_on_after(1.04):
            await landing.upkeep()  # type: ignore[misc]
    stop, go = int(signal.SIGSTOP), int(signal.SIGCONT)
    early = [(0.0, stop), (0.075, go), (0.1, stop), (0.175, go)]
    late = [(round(t, 3), s) for k in range(6, 11) for t, s in ((k / 10, stop), (k / 10 + 0.075, go))]
    assert timed.log[:13] == [*early, *late[:9]]
    assert landing.healed["cycles"] == 10
    assert landing.healed["members"] == [{"member": "worker-n1", "pid": timed.member("worker-n1").pid, "state": "S"}]
    assert not timed.standing()


async def test_a_duty_cycle_goes_on_without_those_that_have_gone(target: FakeTarget, hit: Hit) -> None:
    fault = Straggler(members=NODE_1, by="duty-cycle")
    async with fault.inject(target, *hit(fault, target)) as landing:
        target.end("worker-n1")
        with anyio.move_on_after(0.55):
            await landing.upkeep()  # type: ignore[misc]
    assert landing.healed["cycles"] >= 5
    assert not target.standing()


async def test_a_frozen_group_that_does_not_thaw_says_what_to_undo(fitted: FittedTarget, hit: Hit) -> None:
    fault = CgroupFreeze(members=NODE_1)
    with pytest.raises(HealFailed, match="freezer of agent-n1 is still limited; freezer of worker-n1") as caught:
        async with fault.inject(fitted, *hit(fault, fitted)):
            fitted.stuck = True
    assert caught.value.undo == "echo max > somewhere; echo max > somewhere"


async def test_out_of_memory_tells_who_was_killed(fitted: FittedTarget, hit: Hit) -> None:
    fault = Oom(members=RANK_1)
    async with fault.inject(fitted, *hit(fault, fitted)) as landing:
        assert landing.evidence["gone"] == ["worker-n1"]
        assert landing.evidence["members"][0]["oom_kills"] == 1
    assert fitted.limited == {}


@pytest.mark.parametrize("by", ["group", "address-space"])
async def test_a_member_that_asks_for_no_memory_was_not_hit(fitted: FittedTarget, hit: Hit, by: Any) -> None:
    fitted.idle = frozenset({"worker-n1"})
    fault = Oom(members=RANK_1, by=by)
    with pytest.raises(NotLanded, match=r"nobody was killed|bore it"):
        async with fault.inject(fitted, *hit(fault, fitted)):
            pass
    assert fitted.limited == {}


async def test_without_groups_the_address_space_is_limited_and_the_evidence_says_so(hit: Hit) -> None:
    alone, fault = FittedTarget(controllers=("cpu",)), Oom(members=RANK_1)
    async with fault.inject(alone, *hit(fault, alone)) as landing:
        assert "nobody was killed" in landing.evidence["mechanism"]


@pytest.mark.parametrize(
    ("code", "said", "lands"),
    [
        (0, None, False), (None, None, False), (-signal.SIGTERM, None, False), (-signal.SIGKILL, None, False),
        (1, None, True), (-signal.SIGABRT, None, True), (-signal.SIGSEGV, None, True),
        (None, "MemoryError", True), (0, "MemoryError", True),
    ],
)  # fmt: skip
async def test_an_end_that_tells_of_no_missing_memory_is_no_proof(
    fitted: FittedTarget, hit: Hit, code: int | None, said: str | None, lands: bool
) -> None:
    fitted.ending = {"code": code, "said": said}
    fault = Oom(members=RANK_1, by="address-space")
    with nullcontext() if lands else pytest.raises(NotLanded, match="worker-n1 has ended by itself"):
        async with fault.inject(fitted, *hit(fault, fitted)) as landing:
            assert landing.evidence["members"][0]["code"] == code


async def test_a_kill_of_before_is_none_of_this_fault(fitted: FittedTarget, hit: Hit) -> None:
    fitted.kills, fitted.idle = {"worker-n1": 3}, frozenset({"worker-n1"})
    fault = Oom(members=RANK_1, by="group")
    with pytest.raises(NotLanded, match="nobody was killed"):
        async with fault.inject(fitted, *hit(fault, fitted)):
            pass


async def test_a_restart_loop_counts_no_member_that_had_ended_by_itself(target: FakeTarget, hit: Hit) -> None:
    fault = RestartLoop(members=NODE_1)
    chosen = hit(fault, target)
    target.end("worker-n1")
    async with fault.inject(target, *chosen) as landing:
        assert [m["member"] for m in landing.evidence["members"]] == ["agent-n1"]
    assert landing.healed["kills"] == {"agent-n1": 1, "worker-n1": 0}


async def test_a_restart_loop_kills_whoever_comes_back_until_the_heal(target: FakeTarget, hit: Hit) -> None:
    fault = RestartLoop(members=RANK_1)
    async with fault.inject(target, *hit(fault, target)) as landing, anyio.create_task_group() as tasks:
        upkeep: Any = landing.upkeep
        tasks.start_soon(upkeep)
        for _ in range(3):
            born = target.restart("worker-n1")
            await anyio.sleep(0.105)
            assert target.state(born) == "X"
        tasks.cancel_scope.cancel()
    assert landing.healed["kills"] == {"worker-n1": 4}
    assert len(landing.healed["later"]) == 3
    assert target.state(target.restart("worker-n1")) == "S"


async def test_a_restart_loop_of_so_many_times_leaves_the_next_one_alone(target: FakeTarget, hit: Hit) -> None:
    fault = RestartLoop(members=RANK_1, times=2)
    async with fault.inject(target, *hit(fault, target)) as landing, anyio.create_task_group() as tasks:
        upkeep: Any = landing.upkeep
        tasks.start_soon(upkeep)
        target.restart("worker-n1")
        await anyio.sleep(0.105)
        left = target.restart("worker-n1")
        await anyio.sleep(0.105)
        tasks.cancel_scope.cancel()
    assert target.state(left) == "S"
    assert landing.healed["kills"] == {"worker-n1": 2}


@pytest.mark.parametrize(
    ("fault", "groups", "refused_without"),
    [
        (Straggler(members=RANK_1), True, ()),
        (Straggler(members=RANK_1, by="quota"), True, (Groups,)),
        (Straggler(members=RANK_1, by="duty-cycle"), False, ()),
        (CgroupFreeze(members=RANK_1), True, ()),
        (Oom(members=RANK_1, by="group"), True, (Groups,)),
        (Oom(members=RANK_1, by="address-space"), False, (Limits,)),
    ],
)
async def test_groups_are_set_up_only_where_a_fault_may_use_them(
    fault: Fault[Any], groups: bool, refused_without: tuple[type, ...], tmp_path: Any
) -> None:
    launch = Launch(spec={}, settings={}, folder=tmp_path, base=tmp_path, points=(), faults=(fault,))
    assert launch.wants(Groups) is groups
    assert fault.needs() == refused_without
