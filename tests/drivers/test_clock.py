"""Shifted clocks of real processes, as they tell the time themselves."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from chaos.api import Fault, Launch, Member, Selection, Selector
from chaos.drivers.process import Process, vdso
from chaos.errors import NotLanded, Unsupported
from chaos.faults.clock.drift import Drift
from chaos.faults.clock.jump import Jump
from chaos.faults.clock.skew import Skew
from chaos.faults.process.freeze import Freeze
from chaos.history import Event
from chaos.testing import Recorder

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
Make = Callable[..., Launch]
EVERYBODY = Selector(roles=("program",))

# Tells its clocks on SIGUSR2, forks a child on SIGHUP; a thread asks for the time without a pause.
TELLER = """
    import ctypes, os, signal, threading, time
    from chaos import inside
    inside.hello("a", role="program")
    libc = ctypes.CDLL(None)
    asked = {signal.SIGUSR2, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, asked)
    def tell():
        inside.emit("time", wall=time.time(), mono=time.monotonic(), seconds=libc.time(None), ns=time.time_ns())
    def ask():
        while True:
            time.time()
    def split():
        if os.fork() == 0:
            inside.hello("b", role="program")
            inside.emit("child.runs")
    threading.Thread(target=ask, daemon=True).start()
    inside.emit("it.runs")
    while True:
        tell() if signal.sigwait(asked) == signal.SIGUSR2 else split()
"""


@pytest.fixture(scope="module", autouse=True)
def shiftable() -> None:
    try:
        vdso.try_it()
    except Unsupported as error:
        pytest.skip(str(error))


@asynccontextmanager
async def opened(launch: Launch, stage: Recorder, fault: Fault[Any]) -> AsyncIterator[Any]:
    async with Process().open(msgspec.structs.replace(launch, faults=(fault,)), stage) as target:
        await target.wait_ready()
        await stage.until("it.runs")
        yield target


def member(target: Any, name: str) -> Member:
    found: Member = next(m for m in target.members() if m.name == name)
    return found


async def ask(target: Any, stage: Recorder, name: str = "a") -> Event:
    before = sum(e.kind == "time" for e in stage.events)
    await target.signal(member(target, name), signal.SIGUSR2)
    return await stage.until("time", times=before + 1)


def ahead(event: Event) -> float:
    """By how much its wall clock was ahead; its monotonic one must be ours."""
    assert abs(event.get("mono") - event.t) < 5.0
    return float(event.get("wall") - (event.get("mono") + time.time() - time.monotonic()))


@pytest.mark.parametrize("lab", [True, False], ids=["lab", "no-lab"])
async def test_a_member_tells_another_time_itself_and_the_true_one_after_the_heal(
    stage: Recorder, launch: Make, lab: bool
) -> None:
    fault = Jump(members=EVERYBODY, by=3600.0, direction="behind")
    async with opened(launch({"a": TELLER}, lab=lab), stage, fault) as target:
        assert ahead(await ask(target, stage)) == pytest.approx(0.0, abs=0.05)
        async with fault.inject(target, Selection(members=target.members(), nodes=())) as landing:
            told = await ask(target, stage)
            assert ahead(told) == pytest.approx(-3600.0, abs=0.05)
            assert told.get("ns") / 1e9 == pytest.approx(told.get("wall"), abs=0.5)
            assert told.get("seconds") == pytest.approx(told.get("wall"), abs=1.1)
            assert landing.evidence["members"][0]["ahead"] == pytest.approx(-3600.0, abs=0.05)
            with pytest.raises(NotLanded):  # nobody may take it for his own and heal it too early
                await _other(target).shift_clock(member(target, "a"), 1.0)
        assert ahead(await ask(target, stage)) == pytest.approx(0.0, abs=0.05)
        assert landing.healed["members"][0]["ahead"] == 0.0


def _other(target: Any) -> Any:
    """The same target, asked by somebody who does not know of the shift."""
    from chaos.drivers.process.fittings.clock import Clock

    clock = target.fitting(Clock)
    other = Clock(clock.recipe, clock.stage)
    other._image = clock.image

    class Asked:
        async def shift_clock(self, who: Member, seconds: float) -> Any:
            return await other.shift(target, who, seconds)

    return Asked()


async def test_a_child_inherits_the_shift_and_is_healed_with_its_parent(stage: Recorder, launch: Make) -> None:
    fault = Jump(members=EVERYBODY, by=86400.0)
    async with opened(launch({"a": TELLER}), stage, fault) as target:
        async with fault.inject(target, Selection(members=target.members(), nodes=())) as landing:
            await target.signal(member(target, "a"), signal.SIGHUP)
            await stage.until("child.runs")
            assert ahead(await ask(target, stage, "b")) == pytest.approx(86400.0, abs=0.05)
        assert landing.healed["members"][0]["mended"] == ["a", "b"]
        for name in ("a", "b"):
            assert ahead(await ask(target, stage, name)) == pytest.approx(0.0, abs=0.05)


QUIET = """
    import signal
    from chaos import inside
    inside.hello("a", role="program")
    inside.emit("it.runs")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    while True:
        signal.sigwait({signal.SIGUSR2})
"""


async def test_who_never_asks_for_the_time_has_not_met_another_one(stage: Recorder, launch: Make) -> None:
    for program, met in ((QUIET, False), (TELLER, True)):
        fault = Jump(members=EVERYBODY, by=60.0)
        stage.events.clear()
        async with opened(launch({"a": program}), stage, fault) as target:
            hit = Selection(members=target.members(), nodes=())
            for _ in range(2):  # what the first one counted is no business of the second
                async with fault.inject(target, hit) as landing:
                    await anyio.sleep(0.05)
                assert landing.met is not None
                assert bool(landing.met) is met
                assert landing.healed["members"][0]["asked"] == landing.met
                assert ("nobody asked for the time" in landing.healed.get("note", "")) is not met


def test_the_code_is_what_its_source_says(tmp_path: Path) -> None:
    if not (shutil.which("as") and shutil.which("objcopy")):
        pytest.skip("no assembler on this machine")
    source = Path(vdso.__file__).with_suffix(".S")
    subprocess.run(["as", source, "-o", tmp_path / "o"], check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", tmp_path / "o", tmp_path / "bin"], check=True)
    assert (tmp_path / "bin").read_bytes() == vdso.CODE


async def test_a_skew_and_a_drift_of_real_clocks(stage: Recorder, launch: Make) -> None:
    skew, drift = Skew(members=EVERYBODY, by=30.0, over=0.2), Drift(members=EVERYBODY, rate=0.5)
    async with opened(launch({"a": TELLER}), stage, skew) as target:
        hit = Selection(members=target.members(), nodes=())
        async with skew.inject(target, hit):
            assert ahead(await ask(target, stage)) == pytest.approx(30.0, abs=0.05)
        async with drift.inject(target, hit) as landing, anyio.create_task_group() as tasks:
            upkeep: Any = landing.upkeep
            first = await ask(target, stage)
            tasks.start_soon(upkeep)
            await anyio.sleep(0.6)
            second = await ask(target, stage)
            tasks.cancel_scope.cancel()
        assert ahead(second) - ahead(first) == pytest.approx(0.5 * (second.t - first.t), abs=0.2)
        assert ahead(await ask(target, stage)) == pytest.approx(0.0, abs=0.05)


async def test_a_frozen_member_stays_frozen_while_its_clock_is_shifted(stage: Recorder, launch: Make) -> None:
    fault, freeze = Jump(members=EVERYBODY, by=60.0), Freeze(members=EVERYBODY)
    async with opened(launch({"a": TELLER}), stage, fault) as target:
        hit = Selection(members=target.members(), nodes=())
        async with freeze.inject(target, hit):
            async with fault.inject(target, hit):
                assert target.state(member(target, "a")) == "T"
            assert target.state(member(target, "a")) == "T"
        assert ahead(await ask(target, stage)) == pytest.approx(0.0, abs=0.05)
        async with fault.inject(target, hit):
            await target.signal(member(target, "a"), signal.SIGKILL)
            await target.wait_state(member(target, "a") if target.members() else hit.members[0], "XZ", 5.0)


def test_a_change_waits_for_a_thread_that_stands_in_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    image = vdso.own()
    place = min(image.entries.values()) + 2
    monkeypatch.setattr(Path, "read_text", lambda self: f"running\n0 0x0 {hex(0x1000 + place)}")
    monkeypatch.setattr(os, "listdir", lambda path: ["1"])
    with pytest.raises(vdso.Caught):
        vdso._look_out(1, 0x1000, image)
    monkeypatch.setattr(Path, "read_text", lambda self: f"0 0x0 {hex(0x1000 + place - 2)}")
    vdso._look_out(1, 0x1000, image)


def test_another_machine_is_refused_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(Unsupported, match="this machine is riscv64"):
        vdso.try_it()
