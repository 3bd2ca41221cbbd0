"""What the faults of links cut, on a target without links."""

from __future__ import annotations

from typing import Any, Literal

import anyio
import pytest

from chaos.api import JSON, Cut, Fault, Selector, Slot
from chaos.errors import HealFailed, NotLanded
from chaos.faults.network.bandwidth import Bandwidth
from chaos.faults.network.blackhole import Blackhole
from chaos.faults.network.bridge import Bridge
from chaos.faults.network.delay import Delay
from chaos.faults.network.down import Down
from chaos.faults.network.isolate import Isolate
from chaos.faults.network.latency import Latency
from chaos.faults.network.limit_data import LimitData
from chaos.faults.network.loss import Loss
from chaos.faults.network.majorities_ring import MajoritiesRing
from chaos.faults.network.partition import Partition
from chaos.faults.network.rate import Rate
from chaos.faults.network.reset import Reset
from chaos.faults.network.slicer import Slicer
from chaos.faults.network.slow_close import SlowClose
from chaos.testing import FakeTarget
from chaos.ways import Shape, Toxic

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


def nodes(count: int) -> FakeTarget:
    return FakeTarget([Slot(name=f"agent-n{i}", role="agent", node=f"n{i}") for i in range(count)])


async def test_a_bridge_parts_two_halves_and_is_heard_by_both(hit: Hit) -> None:
    target, fault = nodes(5), Bridge(members=N2)
    async with fault.inject(target, *hit(fault, target)):
        left, right = ("n0", "n1"), ("n3", "n4")
        assert target.standing() == {f"{a}->{b}" for a in left for b in right} | {
            f"{b}->{a}" for a in left for b in right
        }


@pytest.mark.parametrize("count", range(4, 10))
async def test_in_a_ring_everybody_hears_a_majority_and_nobody_the_same(hit: Hit, count: int) -> None:
    target, fault = nodes(count), MajoritiesRing(members=Selector(roles=("agent",)))
    async with fault.inject(target, *hit(fault, target)):
        names = {f"n{i}" for i in range(count)}
        heard = {n: frozenset(m for m in names if f"{m}->{n}" not in target.standing()) for n in names}
        assert all(n in heard[m] for n in names for m in heard[n]), "a way that is cut is cut both ways"
        assert all(len(h) > count / 2 for h in heard.values())
        assert len(set(heard.values())) == count


async def test_a_ring_of_three_is_no_ring(hit: Hit) -> None:
    target, fault = nodes(3), MajoritiesRing(members=Selector(roles=("agent",)))
    with pytest.raises(NotLanded, match="needs 4 nodes"):
        async with fault.inject(target, *hit(fault, target)):
            pass


WAYS: dict[str, Fault[Any]] = {
    "loses": Loss(between=(N0, N1), loss=0.2, direction="a-to-b"),
    "slow": Rate(between=(N0, N1), rate=10_000, direction="a-to-b"),
    "late": Delay(between=(N0, N1), delay=0.1, direction="a-to-b"),
}


@pytest.mark.parametrize("what", WAYS)
async def test_a_disturbed_way_is_one_way_where_it_is_told_so(target: FakeTarget, hit: Hit, what: str) -> None:
    fault = WAYS[what]
    async with fault.inject(target, *hit(fault, target)) as landing:
        assert target.standing() == {f"n0 {what} n1"}
        assert landing.evidence["pairs"]
    assert landing.healed["pairs"]


async def test_a_loss_that_stays_is_a_failed_heal(hit: Hit) -> None:
    class Torn(FakeTarget):
        async def keep(self, shape: Shape) -> JSON:
            raise NotLanded("half of them arrive")

    torn, fault = Torn(), Loss(between=(N0, N1), loss=0.2)
    with pytest.raises(HealFailed, match="not as it was: half of them arrive") as caught:
        async with fault.inject(torn, *hit(fault, torn)):
            pass
    assert caught.value.undo


LATE = Latency(link="store", members=N0, latency=1.5, jitter=0.3, stream="downstream", toxicity=0.5)


async def test_a_fault_of_streams_is_armed_and_lands_when_somebody_meets_it(target: FakeTarget, hit: Hit) -> None:
    asked: list[Toxic] = []

    class Seen(FakeTarget):
        async def poison(self, toxic: Toxic) -> JSON:
            asked.append(toxic)
            return await super().poison(toxic)

    seen = Seen()
    async with LATE.inject(seen, *hit(LATE, seen)) as landing:
        assert not landing.evidence
        assert landing.hit is not None
        began: list[str] = []
        proof = await landing.hit(lambda: began.append("now"))
        assert (proof["mechanism"], proof["met"], began) == ("fake", {"from": "n0"}, [])  # it acts since it was set
    assert landing.healed["met"]
    (toxic,) = asked
    assert toxic == Toxic(
        link="store", nodes=("n0",), kind="latency", streams=("downstream",), toxicity=0.5, ttl=600.0,
        attributes={"latency": 1500, "jitter": 300},
    )  # fmt: skip


async def test_a_toxic_that_nobody_meets_never_lands_and_is_healed(target: FakeTarget, hit: Hit) -> None:
    target.nobody_connects = True
    async with LATE.inject(target, *hit(LATE, target)) as landing:
        assert landing.hit is not None
        with anyio.move_on_after(1000) as limit:
            await landing.hit(lambda: None)
        assert limit.cancelled_caught
    assert not target.standing()


async def test_a_toxic_that_stays_is_a_failed_heal(hit: Hit) -> None:
    class Torn(FakeTarget):
        async def cure(self, toxic: Toxic) -> JSON:
            raise NotLanded("the proxy does not answer")

    torn = Torn()
    with pytest.raises(HealFailed, match="link store is not as it was: the proxy does not answer") as caught:
        async with LATE.inject(torn, *hit(LATE, torn)):
            pass
    assert "remove the toxics of link store" in caught.value.undo


TOXICS: dict[str, tuple[Fault[Any], dict[str, int]]] = {
    "bandwidth": (Bandwidth(link="l", members=N0, rate=64_000), {"rate": 64}),
    "limit_data": (LimitData(link="l", members=N0, bytes=10), {"bytes": 10}),
    "reset_peer": (Reset(link="l", members=N0, after=0.0001), {"timeout": 1}),
    "slicer": (
        Slicer(link="l", members=N0, size=100, variation=9, pause=0.002),
        {"average_size": 100, "size_variation": 9, "delay": 2000},
    ),
    "slow_close": (SlowClose(link="l", members=N0, delay=2.0), {"delay": 2000}),
    "timeout": (Blackhole(link="l", members=N0), {"timeout": 0}),
    "down": (Down(link="l", members=N0), {}),
}


@pytest.mark.parametrize("kind", TOXICS)
async def test_settings_become_what_toxiproxy_counts_in(hit: Hit, kind: str) -> None:
    asked: list[Toxic] = []

    class Seen(FakeTarget):
        async def poison(self, toxic: Toxic) -> JSON:
            asked.append(toxic)
            return await super().poison(toxic)

    seen, (fault, attributes) = Seen(), TOXICS[kind]
    async with fault.inject(seen, *hit(fault, seen)):
        pass
    assert [(toxic.kind, dict(toxic.attributes)) for toxic in asked] == [(kind, attributes)]
    assert asked[0].streams == (("upstream", "downstream") if kind != "down" else ())
