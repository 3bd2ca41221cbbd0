"""Writers that are succeeded and do not know, on a target without processes."""

from __future__ import annotations

import anyio
import pytest

from chaos.api import Selector
from chaos.errors import NotLanded
from chaos.faults.writer.pause import Pause
from chaos.faults.writer.replay import Replay
from chaos.faults.writer.two_leaders import TwoLeaders
from chaos.testing import FakeTarget

from .conftest import Hit

pytestmark = pytest.mark.anyio
LEADER = Selector(names=("leader",))


class Lonely(FakeTarget):
    """Nobody takes the place of anybody."""

    def succeed(self) -> None:
        pass


async def test_a_writer_stays_stopped_until_somebody_else_was_granted_the_lease(target: FakeTarget, hit: Hit) -> None:
    fault = Pause(members=LEADER)
    async with fault.inject(target, *hit(fault, target)) as landing:
        assert target.standing() == {"leader"}
        assert landing.evidence["successor"]["holder"] == "standby"
        assert [m["state"] for m in landing.evidence["members"]] == ["T"]
    assert [m["state"] for m in landing.healed["members"]] == ["S"]


@pytest.mark.parametrize("said", [None, {"holder": "leader", "epoch": 2}])
async def test_without_a_successor_the_writer_goes_on_and_nothing_landed(hit: Hit, said: dict[str, object]) -> None:
    target, fault = Lonely(), Pause(members=LEADER, within=20.0)
    began = anyio.current_time()

    async def speak() -> None:
        await anyio.sleep(1)
        if said:
            target.say("lease.granted", **said)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(speak)
        with pytest.raises(NotLanded, match=r"nobody else was granted a lease or an epoch within 20 s"):
            async with fault.inject(target, *hit(fault, target)):
                pass
    assert anyio.current_time() - began == 20.0
    assert not target.standing()


async def test_a_grant_counts_although_it_comes_late(hit: Hit) -> None:
    target, fault = Lonely(), Pause(members=LEADER, within=20.0)

    async def speak() -> None:
        await anyio.sleep(7)
        target.say("epoch.issued", holder="leader", epoch=2)
        await anyio.sleep(1)
        target.say("epoch.issued", holder="other", epoch=3)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(speak)
        async with fault.inject(target, *hit(fault, target)) as landing:
            assert landing.evidence["seconds"] == 8.0
            assert landing.evidence["successor"]["epoch"] == 3


async def test_a_writer_that_ends_while_it_is_stopped_is_no_stale_writer(hit: Hit) -> None:
    class Killing(FakeTarget):
        def succeed(self) -> None:
            self.end("leader")
            super().succeed()

    target, fault = Killing(), Pause(members=LEADER)
    with pytest.raises(NotLanded, match="leader is in state X"):
        async with fault.inject(target, *hit(fault, target)):
            pass


async def test_a_leader_is_cut_from_the_boundary_alone(target: FakeTarget, hit: Hit) -> None:
    fault = TwoLeaders(leader=LEADER, cut_from=Selector(nodes=("n2",)))
    async with fault.inject(target, *hit(fault, target)) as landing:
        assert target.standing() == {"n0->n2", "n2->n0"}
        assert landing.evidence["successor"]["holder"] == "standby"
        assert [m["member"] for m in landing.evidence["old"]] == ["leader", "agent-n0", "worker-n0"][:1]
    assert landing.healed["pairs"]


async def test_a_leader_without_a_successor_is_joined_again(hit: Hit) -> None:
    target = Lonely()
    fault = TwoLeaders(leader=LEADER, cut_from=Selector(nodes=("n2",)))
    with pytest.raises(NotLanded, match="nobody else"):
        async with fault.inject(target, *hit(fault, target)):
            pass
    assert not target.standing()


async def test_one_that_has_died_is_no_second_leader(hit: Hit) -> None:
    class Killing(FakeTarget):
        def succeed(self) -> None:
            self.end("leader")
            super().succeed()

    target = Killing()
    fault = TwoLeaders(leader=LEADER, cut_from=Selector(nodes=("n2",)))
    with pytest.raises(NotLanded, match="leader does not run any more"):
        async with fault.inject(target, *hit(fault, target)):
            pass
    assert not target.standing()


async def test_both_on_one_node_cannot_be_parted(target: FakeTarget, hit: Hit) -> None:
    fault = TwoLeaders(leader=LEADER, cut_from=Selector(nodes=("n0",)))
    with pytest.raises(NotLanded, match="on both sides: n0"):
        async with fault.inject(target, *hit(fault, target)):
            pass


async def test_a_recorded_request_goes_out_again_once_its_token_is_old(target: FakeTarget) -> None:
    fault, told = Replay(link="store", match="commit"), []
    async with fault.inject(target) as landing:
        assert not landing.evidence, "armed is not landed"
        assert landing.hit is not None
        evidence = await landing.hit(lambda: told.append(len(target.replayed)))
    (sent,) = target.replayed
    assert told == [0], "the record must be told right before"
    assert evidence["recorded"]["bytes"] == len(sent.data)
    assert evidence["newer"]["epoch"] == 2


async def test_without_a_request_or_a_newer_epoch_nothing_is_sent() -> None:
    numb, lonely = FakeTarget(numb=True), Lonely()
    for target, reason in ((numb, "no request with"), (lonely, "nobody else was granted")):
        async with Replay(link="store", match="commit", within=5.0).inject(target) as landing:
            assert landing.hit is not None
            with pytest.raises(NotLanded, match=reason):
                await landing.hit(lambda: None)
        assert not target.replayed


async def test_an_epoch_from_before_the_request_does_not_count() -> None:
    target = Lonely()
    async with Replay(link="store", match="commit", within=5.0).inject(target) as landing:
        target.say("epoch.issued", holder="leader", epoch=2)
        assert landing.hit is not None
        with pytest.raises(NotLanded, match="nobody else was granted"):
            await landing.hit(lambda: None)
