"""What the faults of processes do, on a target without processes."""

from __future__ import annotations

import anyio
import pytest

from chaos.api import Member, Programs, Selector
from chaos.errors import HealFailed, NotLanded, Unsupported
from chaos.faults.process.freeze import Freeze
from chaos.faults.process.kill import Kill
from chaos.faults.process.kill_agent import KillAgent
from chaos.faults.process.preempt import Preempt
from chaos.testing import FakeTarget

from .conftest import Hit

pytestmark = pytest.mark.anyio
RANK_1 = Selector(ranks=(1,))
NODE_1 = Selector(nodes=("n1",))


async def test_a_kill_ends_the_selected_and_nobody_else(target: FakeTarget, hit: Hit) -> None:
    fault = Kill(members=RANK_1)
    before = {m.name for m in target.members()}
    async with fault.inject(target, *hit(fault, target)) as landing:
        assert landing.evidence["members"] == [
            {"member": "worker-n1", "pid": target.member("worker-n1").pid, "state": "X"}
        ]
    assert before - {m.name for m in target.members()} == {"worker-n1"}


async def test_a_kill_of_a_process_that_has_gone_did_not_land(target: FakeTarget, hit: Hit) -> None:
    fault = Kill(members=RANK_1)
    selection = hit(fault, target)
    target.end("worker-n1")
    target.restart("worker-n1")  # whoever bears the name now is somebody else
    with pytest.raises(NotLanded, match="worker-n1: gone before SIGKILL"):
        async with fault.inject(target, *selection):
            pass
    assert target.state(target.member("worker-n1")) == "S"


async def test_a_kill_of_several_lands_although_one_goes_before_its_turn(target: FakeTarget, hit: Hit) -> None:
    fault = Kill(members=NODE_1)
    selection = hit(fault, target)
    target.end("worker-n1")
    async with fault.inject(target, *selection) as landing:
        assert [m["member"] for m in landing.evidence["members"]] == ["agent-n1"]


async def test_a_frozen_member_runs_again_after_the_block(target: FakeTarget, hit: Hit) -> None:
    fault = Freeze(members=NODE_1)
    async with fault.inject(target, *hit(fault, target)) as landing:
        assert target.standing() == {"agent-n1", "worker-n1"}
        assert {m["state"] for m in landing.evidence["members"]} == {"T"}
    assert {m["state"] for m in landing.healed["members"]} == {"S"}


async def test_a_freeze_of_a_stopped_process_changes_nothing_and_thaws_nobody(target: FakeTarget, hit: Hit) -> None:
    first, second = Freeze(members=RANK_1), Freeze(members=NODE_1)
    async with first.inject(target, *hit(first, target)):
        with pytest.raises(NotLanded, match="stopped already: worker-n1"):
            async with second.inject(target, *hit(second, target)):
                pass
        assert target.standing() == {"worker-n1"}


async def test_a_freeze_that_takes_hold_of_one_alone_lets_it_go_again(target: FakeTarget, hit: Hit) -> None:
    class Stiff(FakeTarget):
        def state(self, member: object) -> str:
            real = super().state(member)  # type: ignore[arg-type]
            return "D" if real == "T" and member == self.member("worker-n1") else real

    stiff, fault = Stiff(), Freeze(members=NODE_1)
    with pytest.raises(NotLanded, match="worker-n1 is in state D"):
        async with fault.inject(stiff, *hit(fault, stiff)):
            pass
    assert not stiff.standing()


async def test_a_member_that_stays_frozen_is_a_failed_heal_with_a_way_out(target: FakeTarget, hit: Hit) -> None:
    fault = Freeze(members=RANK_1)
    with pytest.raises(HealFailed, match="still frozen") as caught:
        async with fault.inject(target, *hit(fault, target)):
            target.numb = True
    assert caught.value.undo == f"kill -CONT {target.member('worker-n1').pid}"


async def test_a_preemption_tells_who_went_by_himself_and_when(target: FakeTarget, hit: Hit) -> None:
    target.grace, target.stubborn = 2.0, frozenset({"agent-n1"})
    fault = Preempt(members=NODE_1, grace=5.0)
    async with fault.inject(target, *hit(fault, target)) as landing:
        went = {m["member"]: (m["by"], m["after"]) for m in landing.evidence["members"]}
    assert went == {"worker-n1": ("SIGTERM", 2.0), "agent-n1": ("SIGKILL", 5.0)}


async def test_a_preemption_may_be_an_interrupt_at_the_terminal(target: FakeTarget, hit: Hit) -> None:
    fault = Preempt(members=RANK_1, grace=5.0, signal="INT")
    async with fault.inject(target, *hit(fault, target)) as landing:
        assert [(m["member"], m["by"]) for m in landing.evidence["members"]] == [("worker-n1", "SIGINT")]


async def test_a_preemption_that_is_cancelled_kills_at_once(target: FakeTarget, hit: Hit) -> None:
    target.stubborn = frozenset({"worker-n1"})
    fault = Preempt(members=RANK_1, grace=60.0)
    began = anyio.current_time()
    with anyio.move_on_after(1.0):
        async with fault.inject(target, *hit(fault, target)):
            raise AssertionError("landed although it was cancelled")
    assert anyio.current_time() - began == 1.0
    assert target.state(target.member("worker-n1")) == "X"


class Nursery(FakeTarget):
    """One that starts members again, those that it knows."""

    def programs(self, node: str | None = None) -> tuple[str, ...]:
        return ("worker-n1",)

    async def start_again(self, name: str) -> Member:
        await anyio.lowlevel.checkpoint()
        assert self.state(self.member(name)) == "X"
        return self.restart(name)


async def test_a_rolling_restart_starts_anew_who_has_gone(hit: Hit) -> None:
    target, fault = Nursery(), Preempt(members=RANK_1, grace=5.0, again=True)
    before = target.member("worker-n1")
    assert fault.needs() == (Programs,)
    async with fault.inject(target, *hit(fault, target)):
        assert target.state(before) == "X"
    assert target.member("worker-n1").pid != before.pid


async def test_nobody_is_told_to_go_whom_the_harness_cannot_start_again(hit: Hit) -> None:
    target, fault = Nursery(), Preempt(members=NODE_1, grace=5.0, again=True)
    with pytest.raises(Unsupported, match="did not start agent-n1"):
        async with fault.inject(target, *hit(fault, target)):
            raise AssertionError("landed")
    assert target.state(target.member("worker-n1")) == "S"


async def test_killing_an_agent_leaves_its_workers_and_tells_how_they_are(target: FakeTarget, hit: Hit) -> None:
    fault = KillAgent(members=Selector(names=("agent-n1",)))
    async with fault.inject(target, *hit(fault, target)) as landing:
        assert [m["member"] for m in landing.evidence["members"]] == ["agent-n1"]
        assert [(w["member"], w["state"]) for w in landing.evidence["workers"]] == [("worker-n1", "S")]


async def test_killing_an_agent_without_a_worker_orphans_nobody(target: FakeTarget, hit: Hit) -> None:
    fault = KillAgent(members=Selector(names=("agent-n1",)))
    target.end("worker-n1")
    with pytest.raises(NotLanded, match="no worker is alive under agent-n1"):
        async with fault.inject(target, *hit(fault, target)):
            pass
    assert target.state(target.member("agent-n1")) == "S"
