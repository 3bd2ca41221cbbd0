"""Power that goes and comes back, on a target without processes."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from chaos.api import JSON, Fault, Selector, Slot
from chaos.drivers.process.fittings.losses import losses
from chaos.errors import HealFailed, NotLanded
from chaos.faults.domain.cascade import Cascade, orders
from chaos.faults.domain.power_off import PowerOff
from chaos.faults.network.isolate import Isolate
from chaos.faults.process.freeze import Freeze
from chaos.faults.process.kill import Kill
from chaos.faults.storage.power_cut import PowerCut
from chaos.testing import FakeTarget

from .conftest import Hit

pytestmark = pytest.mark.anyio
RACK_1 = Selector(domains={"rack": "r1"})
RACK = Selector(domains={"rack": "r0"})
SLOTS = [
    Slot(name=f"{role}-n{i}", role=role, node=f"n{i}", domains={"rack": f"r{i // 2}"})
    for i in range(4)
    for role in ("agent", "worker")
]


@pytest.fixture
def target() -> FakeTarget:
    """Two racks of two nodes with an agent and a worker each."""
    return FakeTarget(SLOTS)


def names(target: FakeTarget) -> set[str]:
    return {member.name for member in target.members()}


async def test_power_off_ends_all_members_of_a_domain_and_no_others(target: FakeTarget, hit: Hit) -> None:
    before, fault = names(target), PowerOff(members=RACK)
    async with fault.inject(target, *hit(fault, target)) as landing:
        assert before - names(target) == set(landing.evidence["ended"])
        assert {m.node for m in target.members()} == {"n2", "n3"}
    assert names(target) == before
    assert set(landing.healed["started"]) == set(landing.evidence["ended"])


async def test_a_cascade_takes_its_time_between_nodes(target: FakeTarget, hit: Hit) -> None:
    fault = Cascade(members=Selector(nodes=("n0", "n1", "n2")), spacing=2.0)
    began = anyio.current_time()
    async with fault.inject(target, *hit(fault, target)) as landing:
        assert anyio.current_time() == began + 4.0
        assert [step["after"] for step in landing.evidence["steps"]] == [0.0, 2.0, 4.0]
        assert {m.node for m in target.members()} == {"n3"}
    assert sorted(landing.healed["order"]) == sorted(landing.evidence["order"])
    assert landing.healed["order"] != landing.evidence["order"]


async def test_a_cascade_that_is_broken_off_gives_power_back_to_those_that_it_had_reached(
    target: FakeTarget, hit: Hit
) -> None:
    before, fault = names(target), Cascade(members=Selector(nodes=("n0", "n1", "n2")), spacing=2.0)
    with anyio.move_on_after(3.0):
        async with fault.inject(target, *hit(fault, target)):
            pytest.fail("landed before its last node")
    assert names(target) == before
    assert not target.standing()


def test_a_cascade_has_the_same_orders_each_time_and_others_with_other_dice() -> None:
    nodes = ("n0", "n1", "n2", "n3", "n4")
    assert orders(nodes, 7) == orders(nodes, 7)
    assert len({str(orders(nodes, dice)) for dice in range(20)}) > 15
    assert all(up != down for down, up in (orders(nodes, dice) for dice in range(200)))


async def test_a_power_cut_that_takes_nothing_lands_unless_a_loss_is_asked_for(target: FakeTarget, hit: Hit) -> None:
    before, fault = names(target), PowerCut(members=RACK)
    async with fault.inject(target, *hit(fault, target)) as landing:
        assert landing.evidence["lost"] == []
    strict = PowerCut(members=RACK, require_loss=True)
    with pytest.raises(NotLanded, match=r"nothing on \. was lost: all of it had been synced"):
        async with strict.inject(target, *hit(strict, target)):
            pass
    assert names(target) == before


async def test_a_disk_on_which_nothing_lies_has_not_lost_its_power(hit: Hit) -> None:
    class Bare(FakeTarget):
        async def lose_unsynced(self, path: str) -> JSON:
            return {**await super().lose_unsynced(path), **losses({}, {})}

    target = Bare(SLOTS)
    before, fault = names(target), PowerCut(members=RACK, disk="elsewhere")
    with pytest.raises(NotLanded, match="nothing lay on elsewhere: is it the folder that is written to"):
        async with fault.inject(target, *hit(fault, target)):
            pass
    assert names(target) == before


async def test_a_member_that_does_not_come_back_is_a_failed_heal(target: FakeTarget, hit: Hit) -> None:
    class Broken(FakeTarget):
        async def power_on(self, nodes: object) -> JSON:
            raise NotLanded("agent-n1 cannot be started")

    broken = Broken(SLOTS)
    for fault in (PowerOff(members=RACK), PowerCut(members=RACK)):
        with pytest.raises(HealFailed, match="agent-n1 cannot be started"):
            async with fault.inject(broken, *hit(PowerOff(members=RACK), FakeTarget(SLOTS))):
                pass


@pytest.mark.parametrize("disk", ["/etc", "../other", ""])
def test_a_disk_is_a_folder_below_the_data(disk: str) -> None:
    with pytest.raises(ValueError, match="a folder below the target's data"):
        PowerCut(members=RACK, disk=disk)


@pytest.mark.parametrize("fault", [Freeze(members=RACK_1), Kill(members=RACK_1), Isolate(members=RACK_1)])
async def test_any_fault_takes_a_domain_and_hits_all_of_it(target: FakeTarget, hit: Hit, fault: Fault[Any]) -> None:
    async with fault.inject(target, *hit(fault, target)):
        if isinstance(fault, Isolate):
            assert {pair for pair, count in target.cuts.items() if count} == {
                pair for a in ("n2", "n3") for b in ("n0", "n1") for pair in ((a, b), (b, a))
            }
        else:
            struck = {m.name for m in target._members if target.state(m) in "TX"}
            assert struck == {"agent-n2", "worker-n2", "agent-n3", "worker-n3"}
