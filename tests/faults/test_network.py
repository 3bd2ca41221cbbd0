"""What the faults of links cut, on a target without links."""

from __future__ import annotations

from typing import Literal

import anyio
import pytest

from chaos.api import JSON, Cut, Selector
from chaos.errors import HealFailed, NotLanded
from chaos.faults.network.isolate import Isolate
from chaos.faults.network.partition import Partition
from chaos.testing import FakeTarget

from .conftest import Hit

pytestmark = pytest.mark.anyio
N0, N1, N2 = (Selector(nodes=(f"n{i}",)) for i in range(3))
REST = Selector(rest=True)


async def test_a_partition_cuts_each_pair_of_both_sides_both_ways(target: FakeTarget, hit: Hit) -> None:
    fault = Partition(between=(N2, REST))
    async with fault.inject(target, *hit(fault, target)) as landing:
        assert target.standing() == {"n2->n0", "n2->n1", "n0->n2", "n1->n2"}
        assert len(landing.evidence["pairs"]) == 4
    assert landing.healed["pairs"]


@pytest.mark.parametrize(("direction", "pair"), [("a-to-b", "n0->n1"), ("b-to-a", "n1->n0")])
async def test_a_one_way_partition_cuts_one_way(
    target: FakeTarget, hit: Hit, direction: Literal["a-to-b", "b-to-a"], pair: str
) -> None:
    fault = Partition(between=(N0, N1), direction=direction)
    async with fault.inject(target, *hit(fault, target)):
        assert target.standing() == {pair}


async def test_a_node_on_both_sides_is_refused(target: FakeTarget, hit: Hit) -> None:
    fault = Partition(between=(N0, Selector(nodes=("n0", "n1"))))
    with pytest.raises(NotLanded, match="on both sides: n0"):
        async with fault.inject(target, *hit(fault, target)):
            pass


async def test_partitions_stack(target: FakeTarget, hit: Hit) -> None:
    first, second = Partition(between=(N0, N1)), Isolate(members=N0)
    async with first.inject(target, *hit(first, target)):
        async with second.inject(target, *hit(second, target)):
            pass
        assert target.standing() == {"n0->n1", "n1->n0"}


async def test_an_isolated_node_hears_nobody_and_is_heard_by_nobody(target: FakeTarget, hit: Hit) -> None:
    fault = Isolate(members=Selector(ranks=(1,)))
    async with fault.inject(target, *hit(fault, target)):
        assert target.standing() == {"n1->n0", "n1->n2", "n0->n1", "n2->n1"}


async def test_isolating_everybody_is_refused(target: FakeTarget, hit: Hit) -> None:
    fault = Isolate(members=Selector(nodes=("n0", "n1", "n2")))
    with pytest.raises(NotLanded, match="a side without a node"):
        async with fault.inject(target, *hit(fault, target)):
            pass


async def test_a_network_that_does_not_come_back_is_a_failed_heal(hit: Hit) -> None:
    class Torn(FakeTarget):
        async def restore(self, cut: Cut) -> JSON:
            raise NotLanded("nothing arrives")

    torn, fault = Torn(), Partition(between=(N0, N1))
    with pytest.raises(HealFailed, match="not whole again: nothing arrives") as caught:
        async with fault.inject(torn, *hit(fault, torn)):
            await anyio.sleep(1)
    assert caught.value.undo
