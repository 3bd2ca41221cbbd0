"""Loss, rate and delay between nodes of the lab: measured on the wire, and gone after the heal."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from chaos.api import Cut, Fault, Launch, Links, Selector
from chaos.drivers.process import Process
from chaos.drivers.process.fittings.packets import Loss
from chaos.drivers.process.fittings.wire import Wire
from chaos.errors import NotLanded
from chaos.faults.network.delay import Delay
from chaos.faults.network.loss import Loss as LossFault
from chaos.faults.network.rate import Rate
from chaos.testing import Recorder
from chaos.ways import Lossy, Shape, Slow

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
Make = Callable[..., Launch]

NODES = [{"name": "n-a"}, {"name": "n-b"}, {"name": "n-c"}]
A_B = (Selector(nodes=("n-a",)), Selector(nodes=("n-b",)))
THERE = (("n-a", "n-b"),)
BOTH = (*THERE, ("n-b", "n-a"))
FAULTS: dict[str, Fault[Any]] = {
    "loss": LossFault(between=A_B, loss=0.2),
    "rate": Rate(between=A_B, rate=100_000),
    "delay": Delay(between=A_B, delay=0.1),
}


@contextlib.asynccontextmanager
async def lab(launch: Launch, stage: Recorder, *faults: str) -> AsyncIterator[Any]:
    fitted = msgspec.structs.replace(launch, faults=tuple(FAULTS[f] for f in faults))
    async with Process().open(fitted, stage) as target:
        await target.wait_ready()
        yield target


def wire(target: Any) -> Wire:
    return Wire(target._supervisor, target._recipe.addresses)


async def test_a_fifth_of_the_packets_is_lost_one_way_and_none_after_the_heal(stage: Recorder, launch: Make) -> None:
    async with lab(launch({}, nodes=NODES), stage, "loss") as target:
        assert target.mechanisms()["loss"] == "nftables"
        assert isinstance(target, Lossy)
        shape = Shape(pairs=THERE, loss=0.2)
        (proof,) = (await target.lose(shape))["pairs"]
        assert proof["sent"] - proof["received"] == pytest.approx(0.2 * proof["sent"], rel=0.9)
        assert 700 < await wire(target).arrivals("n-a", "n-b", 1000) < 900
        assert await wire(target).arrivals("n-b", "n-a", 300) == 300
        assert await wire(target).arrivals("n-c", "n-b", 300) == 300
        healed = await target.keep(shape)
        assert healed["dropped"] >= healed["met"] > 100
        assert await wire(target).arrivals("n-a", "n-b", 1000) == 1000


async def test_one_way_loses_by_one_fault_at_a_time(stage: Recorder, launch: Make) -> None:
    async with lab(launch({}, nodes=NODES), stage, "loss") as target:
        shape = Shape(pairs=THERE, loss=0.5)
        await target.lose(shape)
        with pytest.raises(NotLanded, match="another fault of this kind"):
            await target.lose(shape)
        await target.keep(shape)
        await target.lose(shape)
        await target.keep(shape)


async def test_cuts_and_losses_do_not_touch_each_other(stage: Recorder, launch: Make) -> None:
    async with lab(launch({}, nodes=NODES), stage, "loss") as target:
        shape, cut = Shape(pairs=THERE, loss=0.3), Cut(pairs=THERE)
        await target.lose(shape)
        await target.cut(cut)
        await target.restore(cut)
        assert 0 < await wire(target).arrivals("n-a", "n-b", 200) < 200
        await target.keep(shape)
        assert await wire(target).arrivals("n-a", "n-b", 200) == 200


async def test_so_many_bytes_per_second_pass_one_way_and_more_after_the_heal(stage: Recorder, launch: Make) -> None:
    async with lab(launch({}, nodes=NODES), stage, "rate") as target:
        assert target.mechanisms()["rate"] == "htb"
        assert isinstance(target, Slow)
        shape = Shape(pairs=THERE, rate=100_000)
        (proof,) = (await target.slow(shape))["pairs"]
        assert proof["with"] <= 125_000 < proof["before"]
        arrived, seconds = await wire(target).rate("n-a", "n-b", 50_000, 10)
        assert arrived == 50_000
        assert seconds > 0.4
        arrived, seconds = await wire(target).rate("n-a", "n-c", 50_000, 10)
        assert 50_000 / seconds > 200_000
        await target.quicken(shape)
        arrived, seconds = await wire(target).rate("n-a", "n-b", 50_000, 10)
        assert arrived / seconds > 200_000


@pytest.mark.parametrize(
    ("fault", "shape"), [("loss", Shape(pairs=BOTH, loss=0.5)), ("rate", Shape(pairs=BOTH, rate=100_000))]
)
async def test_packets_of_the_harness_alone_have_not_met_it(
    stage: Recorder, launch: Make, fault: str, shape: Shape
) -> None:
    async with lab(launch({}, nodes=NODES), stage, fault) as target:
        enter, leave = (target.lose, target.keep) if fault == "loss" else (target.slow, target.quicken)
        await enter(shape)
        assert (await leave(shape))["met"] == 0


async def test_two_ways_of_one_node_have_rates_of_their_own(stage: Recorder, launch: Make) -> None:
    async with lab(launch({}, nodes=NODES), stage, "rate") as target:
        first, second = Shape(pairs=THERE, rate=100_000), Shape(pairs=(("n-a", "n-c"),), rate=50_000)
        await target.slow(first)
        (proof,) = (await target.slow(second))["pairs"]
        assert proof["with"] <= 62_500
        assert (await target.quicken(first))["met"] == 0
        assert (await wire(target).rate("n-a", "n-c", 30_000, 10))[1] > 0.4
        third = Shape(pairs=(("n-a", "n-b"),), rate=80_000)
        await target.slow(third)  # the queue is made anew, and what had been counted stays
        assert (await target.quicken(second))["met"] > 10
        await target.quicken(third)


async def test_netem_is_used_where_it_is_and_refused_with_a_reason_where_it_is_not(
    stage: Recorder, launch: Make
) -> None:
    async with lab(launch({}, nodes=NODES), stage, "delay") as target:
        mechanisms = target.mechanisms()
        if "delay" in mechanisms:
            shape = Shape(pairs=THERE, delay=0.1)
            (proof,) = (await target.delay(shape))["pairs"]
            assert proof["with"] > 0.1 > proof["before"]
            await target.hasten(shape)
            assert await wire(target).trip("n-a", "n-b", 1.0) < 0.1
        else:
            assert "CONFIG_NET_SCH_NETEM" in mechanisms["delay-refused"]
            assert not hasattr(target, "delay")


async def test_without_a_fault_that_needs_it_nothing_is_set_up(stage: Recorder, launch: Make) -> None:
    async with lab(launch({}, nodes=NODES), stage) as target:
        assert not {"loss", "rate", "delay", "loss-refused"} & target.mechanisms().keys()
        assert not isinstance(target, Lossy)
        assert isinstance(target, Links)


async def test_without_a_lab_it_is_refused(stage: Recorder, launch: Make) -> None:
    program = {"a": "import signal; signal.pause()"}
    async with lab(launch(program, lab=False, node="n-", nodes=NODES), stage, "loss") as target:
        assert "without the lab" in target.mechanisms()["loss-refused"]


async def test_a_loss_that_drops_nothing_has_not_landed_and_leaves_nothing(
    stage: Recorder, launch: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def everything(self: Wire, source: str, target: str, count: int) -> int:
        return count

    async with lab(launch({}, nodes=NODES), stage, "loss") as target:
        with monkeypatch.context() as patched:
            patched.setattr(Wire, "arrivals", everything)
            with pytest.raises(NotLanded, match="0 of 100 packets"):
                await target.lose(Shape(pairs=THERE, loss=0.2))
        assert isinstance(target.fitting(Loss), Loss)
        assert await wire(target).arrivals("n-a", "n-b", 300) == 300
