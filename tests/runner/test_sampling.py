"""Probes keep their rate, and say when they have nothing to say."""

from __future__ import annotations

from typing import Any, ClassVar

import anyio
import msgspec
import pytest

from chaos.api import Probe, Scene
from chaos.experiment import Mode

from .fakes import LOG, FakeTarget, Play, experiment, steady, step

pytestmark = pytest.mark.anyio


async def end_after_10s(target: FakeTarget) -> int:
    await anyio.sleep(10.1)
    return 0


async def samples(play: Play, **gauge: Any) -> list[tuple[float, Any]]:
    it = experiment(ends=True, steady=(steady(mode=Mode.AFTER, **gauge),))
    _, history = await play(it, end_after_10s)
    return [(e.t, e.data) for e in history.of("probe.sampled")]


async def test_a_probe_that_takes_long_keeps_its_period(play: Play) -> None:
    taken = await samples(play, every=0.5, takes=0.2)
    assert [t for t, _ in taken] == [round(0.2 + 0.5 * n, 6) for n in range(20)]


async def test_a_probe_that_is_not_back_within_its_period_is_late_and_has_no_value(play: Play) -> None:
    taken = await samples(play, every=1.0, takes=60.0)
    assert [t for t, _ in taken] == [float(n) for n in range(1, 11)]
    assert all(data == {"value": None, "late": True} for _, data in taken)


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (0.25, {"value": 0.25}),
        (3, {"value": 3}),
        (1e-9, {"value": 1e-9}),
        (None, {"value": None}),
        (float("inf"), {"value": None, "error": "not a finite number: inf"}),
        (float("nan"), {"value": None, "error": "not a finite number: nan"}),
        (True, {"value": None, "error": "not a finite number: True"}),
        (OSError("gone"), {"value": None, "error": "OSError: gone"}),
    ],
)
async def test_a_sample_is_a_finite_number_or_says_why_not(play: Play, read: Any, data: Any) -> None:
    assert (await samples(play, read=read))[0][1] == data


async def test_a_probe_of_the_abort_is_taken_while_the_target_starts(play: Play) -> None:
    class Slow(FakeTarget):
        async def wait_ready(self) -> None:
            await anyio.sleep(30)

    guard = steady("memory", read=lambda now: now, at_least=None, at_most=5.1)
    result, history = await play(experiment(step(), abort=(guard,)), target=Slow)
    assert (result.reason, history[-1].t) == ("abort", 5.5)
    assert LOG == ["closed"]


@pytest.mark.parametrize(("until", "reason"), [(9.0, "finished"), (99.0, "abort")])
async def test_nothing_is_too_little_before_the_target_is_ready(play: Play, until: float, reason: str) -> None:
    class Slow(FakeTarget):
        async def wait_ready(self) -> None:
            await anyio.sleep(10)

    alive = steady("alive", read=lambda now: 0 if now < until else 1, at_least=1)  # until then nobody lives
    result, history = await play(experiment(step(), abort=(alive,)), target=Slow)
    assert result.reason == reason
    assert [e.t for e in history.of("abort.triggered")] == ([10.0] if reason == "abort" else [])


async def test_a_probe_sees_the_members_and_what_happened_lately(play: Play) -> None:
    async def script(target: FakeTarget) -> int:
        for _ in range(10):
            target.emit("step.completed")
            await anyio.sleep(1)
        return 0

    class Count(Probe, frozen=True, kw_only=True):
        """Members, and a hundredth for each recent step."""

        unit: ClassVar[str] = "none"

        async def sample(self, scene: Scene) -> float | None:
            return len(scene.target.members()) + len(scene.recent("step.completed", 2.5)) / 100

    look = msgspec.structs.replace(steady(mode=Mode.AFTER), probe=Count(every=0.75))
    _, history = await play(experiment(ends=True, steady=(look,)), script)
    assert [e.get("value") for e in history.of("probe.sampled")][5:8] == [4.02, 4.03, 4.03]
