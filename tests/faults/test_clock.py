"""Shifted clocks on a target without processes, in virtual time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import anyio
import msgspec
import pytest

from chaos.api import Selector
from chaos.errors import HealFailed, NotLanded
from chaos.faults.clock.drift import Drift
from chaos.faults.clock.jump import Jump
from chaos.faults.clock.skew import Skew

from .conftest import Hit
from .fitted import FittedTarget

pytestmark = pytest.mark.anyio
RANK_1 = Selector(ranks=(1,))


@pytest.fixture
def fitted() -> FittedTarget:
    return FittedTarget()


async def test_a_jump_is_there_at_once_and_gone_at_once(fitted: FittedTarget, hit: Hit) -> None:
    fault = Jump(members=RANK_1, by=3600.0, direction="behind")
    async with fault.inject(fitted, *hit(fault, fitted)) as landing:
        assert fitted.clocks == {"worker-n1": -3600.0}
        (said,) = landing.evidence["members"]
        assert (said["before"], said["ahead"]) == (0.0, -3600.0)
    assert fitted.clocks == {}
    assert landing.healed["members"][0]["ahead"] == 0.0


@pytest.mark.parametrize(
    ("asked", "wanted", "met", "note"),
    [
        (None, "required", None, False),
        (0, "required", 0, True),
        (3, "required", 3, False),
        (0, "optional", None, True),
        (3, "optional", None, False),
    ],
)
async def test_a_clock_that_nobody_looks_at_proves_nothing_unless_that_is_allowed(
    fitted: FittedTarget, hit: Hit, asked: int | None, wanted: Any, met: int | None, note: bool
) -> None:
    fitted.asked = asked
    for fault in (
        Jump(members=RANK_1, by=60.0, asked=wanted),
        Skew(members=RANK_1, by=60.0, asked=wanted),
        Drift(members=RANK_1, rate=0.1, asked=wanted),
    ):
        async with fault.inject(fitted, *hit(fault, fitted)) as landing:
            pass
        assert landing.met == met
        assert (landing.healed.get("note") == "nobody asked for the time meanwhile") is note


async def test_a_jump_to_and_fro(fitted: FittedTarget, hit: Hit) -> None:
    fault = Jump(members=RANK_1, by=60.0, every=1.0)
    async with fault.inject(fitted, *hit(fault, fitted)) as landing:
        began = anyio.current_time()
        upkeep: Any = landing.upkeep
        with anyio.move_on_after(3.5):
            await upkeep()
    assert [(round(t - began, 3), s) for t, _, s in fitted.shifts] == [(0, 60.0), (1, 0.0), (2, 60.0), (3, 0.0)]


async def test_a_skew_never_makes_a_step(fitted: FittedTarget, hit: Hit) -> None:
    fault = Skew(members=RANK_1, by=1.0, direction="behind", over=2.0)
    async with fault.inject(fitted, *hit(fault, fitted)):
        shifts = [s for _, _, s in fitted.shifts]
        assert len(shifts) == 50
        assert shifts[-1] == -1.0
        assert max(abs(b - a) for a, b in pairwise(shifts)) < 0.03
    assert fitted.clocks == {}


async def test_a_drift_grows_as_long_as_it_stands(fitted: FittedTarget, hit: Hit) -> None:
    fault = Drift(members=RANK_1, rate=0.1)
    async with fault.inject(fitted, *hit(fault, fitted)) as landing:
        assert 0 < landing.evidence["members"][0]["ahead"] < 0.01
        upkeep: Any = landing.upkeep
        with anyio.move_on_after(9.975):
            await upkeep()
        assert fitted.clocks["worker-n1"] == pytest.approx(1.0, abs=0.01)
    assert landing.healed["reached"] == pytest.approx(1.0, abs=0.01)


async def test_a_clock_that_does_not_move_was_not_hit(fitted: FittedTarget, hit: Hit) -> None:
    fitted.numb = True
    for fault in (Jump(members=RANK_1, by=5.0), Skew(members=RANK_1, by=50.0), Drift(members=RANK_1, rate=0.5)):
        with pytest.raises(NotLanded):
            async with fault.inject(fitted, *hit(fault, fitted)):
                pass


async def test_a_clock_that_stays_wrong_is_a_failed_heal(fitted: FittedTarget, hit: Hit) -> None:
    fault = Jump(members=RANK_1, by=5.0)
    with pytest.raises(HealFailed, match="may still be shifted"):
        async with fault.inject(fitted, *hit(fault, fitted)):
            fitted.stuck = True


async def test_a_shift_by_nothing_is_none(fitted: FittedTarget) -> None:
    for kind, field in ((Jump, "by"), (Skew, "by"), (Drift, "rate")):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"members": {"ranks": [1]}, field: 0.0}, kind)
