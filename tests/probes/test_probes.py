"""Probes on scripted scenes: the number, its absence, and the moment between."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from chaos.api import Member, Probe
from chaos.history import Event
from chaos.probes.host import memory
from chaos.probes.host.load import Load
from chaos.probes.host.memory import Memory
from chaos.probes.process.alive import Alive
from chaos.probes.process.rss import Rss
from chaos.probes.training.loss import Loss
from chaos.probes.training.progress import Progress
from chaos.probes.training.step_time import StepTime
from chaos.probes.training.throughput import Throughput

from .scene import Scene

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "trio"


def completed(t: float, rank: int = 0, samples: Any = (1, 2, 3), step: int = 1, loss: str = "2.5") -> Event:
    data = {"step": step, "rank": rank, "samples": samples, "loss": loss}
    return Event(seq=0, t=t, wall=0, source=f"worker-{rank}", kind="step.completed", data=data)


def training(until: float) -> list[Event]:
    """Two ranks, a step of three samples each every quarter of a second."""
    return [completed(i / 4, rank, step=i) for i in range(1, int(until * 4) + 1) for rank in (0, 1)]


async def of(probe: Probe, scene: Scene) -> float | None:
    return await probe.sample(scene)


async def test_throughput_is_the_sum_of_all_ranks() -> None:
    assert await of(Throughput(), Scene(10.0, *training(10))) == pytest.approx(24.0)


async def test_throughput_is_zero_while_the_group_stands_still_and_unknown_before_it_began() -> None:
    assert await of(Throughput(), Scene(60.0, *training(10))) == 0.0
    assert await of(Throughput(), Scene(60.0)) is None


async def test_throughput_does_not_count_the_time_before_the_first_step() -> None:
    late = [completed(20 + e.t, e.get("rank")) for e in training(10)]
    assert await of(Throughput(), Scene(21.0, *[e for e in late if e.t <= 21.0])) is None
    assert await of(Throughput(), Scene(21.75, *[e for e in late if e.t <= 21.75])) == pytest.approx(24.0)


async def test_throughput_takes_counts_as_well_as_lists() -> None:
    events = [completed(i / 2, samples=8) for i in range(1, 21)]
    assert await of(Throughput(window=4.0), Scene(10.0, *events)) == pytest.approx(16.0)


async def test_step_time_is_that_of_one_rank() -> None:
    assert await of(StepTime(), Scene(10.0, *training(10))) == pytest.approx(0.25)
    assert await of(StepTime(), Scene(10.0, completed(9.0))) is None
    assert await of(StepTime(), Scene(10.0)) is None


async def test_loss_is_the_mean_of_a_window_and_nan_stays_nan() -> None:
    events = [completed(8.0, loss="3.0"), completed(9.0, loss="2.0"), completed(1.0, loss="9.0")]
    assert await of(Loss(), Scene(10.0, *events)) == 2.5
    broken = await of(Loss(), Scene(10.0, *events, completed(9.5, loss="nan")))
    assert broken is not None
    assert broken != broken
    assert await of(Loss(), Scene(90.0, *events)) is None


async def test_progress_is_the_last_step_and_a_rollback_takes_it_back() -> None:
    assert await of(Progress(), Scene(10.0)) is None
    assert await of(Progress(), Scene(10.0, completed(1.0, step=40), completed(2.0, step=21))) == 21


async def test_alive_counts_members_of_a_role() -> None:
    members = [Member(name=f"w{i}", role="worker", pid=i) for i in range(3)] + [Member(name="s", role="store", pid=9)]
    assert await of(Alive(), Scene(members=members)) == 4
    assert await of(Alive(role="worker"), Scene(members=members)) == 3
    assert await of(Alive(role="worker"), Scene()) == 0


async def test_rss_adds_up_living_members_and_is_unknown_when_none_lives() -> None:
    me = Member(name="me", role="worker", pid=os.getpid())
    gone = Member(name="gone", role="worker", pid=2**22 + 1)
    one, two = await of(Rss(), Scene(members=[me])), await of(Rss(), Scene(members=[me, me, gone]))
    assert one is not None
    assert two is not None
    assert 1 << 20 < one < two < 3 * one
    assert await of(Rss(), Scene(members=[gone])) is None
    assert await of(Rss(role="store"), Scene(members=[me])) is None


async def test_load_is_per_processor() -> None:
    value = await of(Load(), Scene())
    assert value is not None
    assert 0 <= value < 1000


async def test_memory_of_this_machine_is_a_share() -> None:
    value = await of(Memory(), Scene())
    assert value is not None
    assert 0 < value < 1.5


async def test_memory_takes_the_tighter_of_machine_and_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  1000 kB\nMemFree: 10 kB\nMemAvailable:   600 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert await of(Memory(), Scene()) == pytest.approx(0.4)
    (tmp_path / "memory.current").write_text("900\n")
    (tmp_path / "memory.stat").write_text("anon 500\ninactive_file 100\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert await of(Memory(), Scene()) == pytest.approx(0.4)
    (tmp_path / "memory.max").write_text("1000\n")
    assert await of(Memory(), Scene()) == pytest.approx(0.8)
    (tmp_path / "meminfo").write_text("")
    (tmp_path / "memory.max").unlink()
    assert await of(Memory(), Scene()) is None
