"""However a run ends: what was injected is healed, and nothing more is."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import anyio
import pytest
import sniffio
import trio

from chaos.api import Selector
from chaos.trigger import After, At, OnEvent

from .fakes import LOG, FakeTarget, Play, experiment, kinds, runs_for, steady, step

pytestmark = pytest.mark.anyio


async def test_a_fault_is_healed_when_its_hold_is_over(play: Play) -> None:
    result, history = await play(experiment(step(hold=3.0)))
    assert LOG == ["1 inject worker-0", "1 landed worker-0", "4 heal worker-0", "closed"]
    assert result.reason == "finished"
    assert kinds(history) == [
        "run.started",
        "target.starting",
        "target.ready",
        "method.started",
        "fault.armed",
        "fault.injecting",
        "fault.landed",
        "fault.healed",
        "method.ended",
        "final.started",
        "target.stopping",
        "run.ended",
    ]
    landed, healed = history.of("fault.landed")[0], history.of("fault.healed")[0]
    assert landed.data == {
        "kind": "freeze",
        "members": ["worker-0"],
        "nodes": ["n0"],
        "evidence": {"who": "worker-0"},
        "instant": False,
    }
    assert healed.get("evidence") == {"back": "worker-0"}
    assert history[-1].t == 6.0  # settled


async def test_a_fault_may_go_on_doing_something_while_it_stands(play: Play) -> None:
    _, history = await play(experiment(step(hold=2.0, busy=True)))
    assert LOG == ["1 inject worker-0", "1 landed worker-0", "busy", "busy", "3 heal worker-0", "closed"]
    assert [e.kind for e in history if e.source == "fault:freeze"][-1] == "fault.healed"


async def test_a_fault_without_a_hold_is_healed_when_the_target_has_finished(play: Play) -> None:
    result, history = await play(experiment(step(hold=None), ends=True), runs_for(30.0, code=3))
    assert LOG == ["1 inject worker-0", "1 landed worker-0", "30 heal worker-0", "closed"]
    assert result.reason == "finished"
    assert history.of("target.finished")[0].data == {"code": 3, "member": "coordinator-0"}
    order = [history.of(k)[0].seq for k in ("target.finished", "fault.healed", "final.started", "run.ended")]
    assert order == sorted(order)


async def test_a_target_that_goes_on_keeps_a_fault_without_a_hold_for_the_time_to_settle(play: Play) -> None:
    await play(experiment(step(hold=None), limits={"settle": 5.0}))
    assert LOG[-2:] == ["6 heal worker-0", "closed"]


async def test_a_fault_is_healed_early_when_the_target_finishes_early(play: Play) -> None:
    await play(experiment(step(hold=50.0), ends=True), runs_for(10.0))
    assert LOG[-2:] == ["10 heal worker-0", "closed"]


async def test_an_instant_fault_is_over_at_once(play: Play) -> None:
    _, history = await play(experiment(step("kill", kill=True, hold=None)))
    assert kinds(history, "fault:kill") == ["fault.armed", "fault.injecting", "fault.landed"]
    assert LOG[2] == "1 heal worker-0"


async def test_a_method_without_steps_is_a_control(play: Play) -> None:
    result, history = await play(experiment(ends=True, steady=(steady(),)), runs_for(5.2))
    assert result.reason == "finished"
    assert len(history.of("probe.sampled")) == 11


async def test_an_abort_heals_at_once(play: Play) -> None:
    guard = steady("memory", read=lambda now: 0.95 if now > 7 else 0.5, at_least=None, at_most=0.9, every=0.25)
    it = experiment(step(hold=50.0), step("later", when=At(seconds=9.0)), abort=(guard,))
    result, history = await play(it)
    assert (result.reason, result.detail) == ("abort", "memory is 0.95")
    assert LOG == ["1 inject worker-0", "1 landed worker-0", "7.25 heal worker-0", "closed"]
    assert history.of("abort.triggered")[0].data == {"name": "memory", "value": 0.95}
    assert kinds(history, "fault:later") == ["fault.armed", "fault.missed"]
    assert history[-1].get("reason") == "abort"


async def test_an_abort_cuts_an_injection_short(play: Play) -> None:
    guard = steady("memory", read=lambda now: now, at_least=None, at_most=2.1, every=0.25)
    _, history = await play(experiment(step(slow=10.0), abort=(guard,)))
    assert LOG == ["1 inject worker-0", "2.25 heal worker-0", "closed"]
    assert history[-1].t == 2.25
    assert history.of("fault.failed")[0].get("phase") == "inject"


@pytest.mark.parametrize("moment", [n / 10 + 0.05 for n in range(0, 80, 5)])
async def test_at_whatever_moment_a_run_is_aborted_everything_is_healed(play: Play, moment: float) -> None:
    guard = steady("memory", read=lambda now: now, at_least=None, at_most=moment, every=0.1)
    it = experiment(
        step("one", slow=1.0, hold=1.0, heal=0.5),
        step("two", when=After(step="one", delay=0.3), slow=0.7, hold=2.0, heal=0.3, members=Selector(ranks=(1,))),
        step("three", when=At(seconds=2.15), hold=None, members=Selector(ranks=(2,))),
        step("kill", when=At(seconds=3.25), kill=True, slow=0.8, members=Selector(roles=("coordinator",))),
        abort=(guard,),
        limits={"settle": 60.0},
    )
    result, history = await play(it)
    assert result.reason == "abort"
    assert LOG[-1] == "closed"
    begun = [line.split()[2] for line in LOG if " inject " in line]
    assert sorted(begun) == sorted(line.split()[2] for line in LOG if " heal " in line)
    assert all(float(line.split()[0]) <= moment + 0.11 for line in LOG if " inject " in line)
    assert history[-1].t <= moment + 0.11 + 0.5
    for name in ("one", "two", "three"):
        landed, healed = (kinds(history, f"fault:{name}").count(f"fault.{k}") for k in ("landed", "healed"))
        assert landed == healed


async def test_a_guard_without_a_value_does_not_abort(play: Play) -> None:
    result, _ = await play(experiment(step(), abort=(steady("memory", read=None, at_most=1.0),)))
    assert result.reason == "finished"


async def test_a_guard_relative_to_the_baseline_compares_with_it(play: Play) -> None:
    guard = steady("rate", read=lambda now: 100.0 if now < 6 else 20.0, at_least=0.5, of_baseline=True)
    it = experiment(step(hold=50.0, when=At(seconds=3.0)), steady=(steady(),), abort=(guard,))
    result, history = await play(it)
    assert result.reason == "abort"
    assert history.of("abort.triggered")[0].t == 6.0


async def test_the_wall_limit_heals_and_ends(play: Play) -> None:
    result, history = await play(experiment(step(hold=None), ends=True, limits={"wall": 20.0}))
    assert result.reason == "limit"
    assert LOG[-2:] == ["20 heal worker-0", "closed"]
    assert history.of("limit.reached")[0].data == {"name": "wall", "value": 20.0}


async def test_the_wall_limit_holds_while_the_target_starts(play: Play) -> None:
    result, history = await play(experiment(step(), limits={"wall": 5.0}), start=1000.0)
    assert (result.reason, history[-1].t) == ("limit", 5.0)


async def test_a_target_that_does_not_get_ready_in_time(play: Play) -> None:
    class Never(FakeTarget):
        async def wait_ready(self) -> None:
            await anyio.sleep_forever()

    result, history = await play(experiment(step(), limits={"ready": 8.0}), target=Never)
    assert result.reason == "limit"
    assert history.of("limit.reached")[0].get("name") == "ready"
    assert LOG == ["closed"]


async def test_a_target_that_stops_getting_on_hangs(play: Play) -> None:
    async def script(target: FakeTarget) -> int:
        for number in range(3):
            await anyio.sleep(1)
            target.emit("step.completed", step=number)
        await anyio.sleep_forever()
        return 0

    result, history = await play(experiment(step(hold=None), ends=True, limits={"stall": 12.0}), script)
    assert result.reason == "hung"
    assert LOG[-3:] == ["stacks", "15 heal worker-0", "closed"]
    hung = history.of("target.hung")[0]
    assert hung.get("seconds") == 12.0
    assert hung.get("alive") == ["coordinator-0", "worker-0", "worker-1", "worker-2"]


async def test_stacks_that_do_not_come_delay_a_hang_by_seconds_only(play: Play) -> None:
    class Mute(FakeTarget):
        async def dump_stacks(self) -> tuple[str, ...]:
            await anyio.sleep_forever()
            return ()

    async def script(target: FakeTarget) -> int:
        target.emit("request.completed")
        await anyio.sleep_forever()
        return 0

    result, history = await play(
        experiment(step(hold=None), limits={"stall": 10.0, "settle": 99.0}), script, target=Mute
    )
    assert (result.reason, history[-1].t) == ("hung", 15.0)


async def test_a_harness_that_was_stopped_itself_takes_nobody_for_hung(play: Play) -> None:
    async def script(target: FakeTarget) -> int:
        target.emit("step.completed", step=1)
        await anyio.sleep(1)
        stop_harness(60)
        await anyio.sleep(0.1)  # what came meanwhile is read after timers have fired
        target.emit("step.completed", step=2)
        await anyio.sleep(5)
        return 0

    result, history = await play(experiment(ends=True, limits={"stall": 10.0, "wall": 200.0}), script)
    assert result.reason == "finished"
    assert not history.of("target.hung")


async def test_a_target_that_hangs_after_the_harness_was_stopped_is_found_all_the_same(play: Play) -> None:
    async def script(target: FakeTarget) -> int:
        target.emit("step.completed", step=1)
        stop_harness(60)
        await anyio.sleep_forever()
        return 0

    result, _ = await play(experiment(ends=True, limits={"stall": 10.0, "wall": 200.0}), script)
    assert result.reason == "hung"


def stop_harness(seconds: float) -> None:
    """Time goes on, and nobody runs."""
    if sniffio.current_async_library() == "trio":
        clock: Any = trio.lowlevel.current_clock()
    else:
        clock = asyncio.get_running_loop()
    clock.jump(seconds)


async def test_more_members_hurt_than_allowed_ends_the_run_healed(play: Play) -> None:
    async def script(target: FakeTarget) -> int:
        await anyio.sleep(3)
        target.emit("epoch.issued")
        await anyio.sleep_forever()
        return 0

    it = experiment(
        step(hold=None),
        step("second", when=OnEvent(kind="epoch.issued"), members=Selector(names=("worker-1",))),
        limits={"members_hurt": 1},
    )
    result, history = await play(it, script)
    assert result.reason == "limit"
    assert LOG == ["1 inject worker-0", "1 landed worker-0", "3 heal worker-0", "closed"]
    assert history.of("limit.reached")[0].data == {"name": "members-hurt", "value": 2}


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
async def test_a_signal_heals_and_ends_the_run(play: Play, signum: signal.Signals) -> None:
    async def script(target: FakeTarget) -> int:
        await anyio.sleep(5)
        os.kill(os.getpid(), signum)
        await anyio.sleep_forever()
        return 0

    result, history = await play(experiment(step(hold=None), ends=True), script, signals=True)
    assert (result.reason, result.signal) == ("interrupted", signum)
    assert LOG == ["1 inject worker-0", "1 landed worker-0", "5 heal worker-0", "closed"]
    assert history.of("run.interrupted")[0].data == {"signal": signum.name}


async def test_a_signal_inside_an_injection_injects_nothing_more(play: Play) -> None:
    async def script(target: FakeTarget) -> int:
        await anyio.sleep(3)
        os.kill(os.getpid(), signal.SIGTERM)
        await anyio.sleep_forever()
        return 0

    it = experiment(step(slow=10.0), step("next", when=At(seconds=3.5)))
    result, _ = await play(it, script, signals=True)
    assert result.reason == "interrupted"
    assert LOG == ["1 inject worker-0", "3 heal worker-0", "closed"]


async def test_more_signals_do_not_stop_a_heal_and_the_third_tells_what_is_left(play: Play) -> None:
    async def script(target: FakeTarget) -> int:
        for _ in range(3):
            await anyio.sleep(2)
            os.kill(os.getpid(), signal.SIGTERM)
        await anyio.sleep_forever()
        return 0

    result, history = await play(experiment(step(hold=None, heal=6.0), ends=True), script, signals=True)
    assert result.heal_failures == ()
    assert LOG[-2:] == ["8 heal worker-0", "closed"]
    told = [e.get("left") for e in history.of("run.interrupted")]
    assert told == [None, None, ["undo freeze on worker-0 (pid 101) (nodes n0)"]]
