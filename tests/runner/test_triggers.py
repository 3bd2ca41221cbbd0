"""Every trigger, in virtual time."""

from __future__ import annotations

import anyio
import pytest

from chaos.api import Selector
from chaos.experiment import Mode
from chaos.trigger import (
    After,
    At,
    Condition,
    Every,
    OnEvent,
    OnFile,
    OnLog,
    OnPhase,
    OnPoint,
    OnProbe,
    Poisson,
    matches_path,
)

from .fakes import LOG, FakeTarget, Play, experiment, kinds, steady, step

pytestmark = pytest.mark.anyio


async def steps_every_second(target: FakeTarget) -> int:
    for number in range(1, 11):
        await anyio.sleep(1)
        target.emit("step.completed", step=number, rank=number % 2)
    return 0


async def test_a_moment_is_counted_from_the_start_of_the_method(play: Play) -> None:
    it = experiment(step(when=At(seconds=3.0, delay=0.5), hold=2.0), steady=(steady(every=1.0),))
    await play(it)
    assert LOG[:3] == ["5.5 inject worker-0", "5.5 landed worker-0", "7.5 heal worker-0"]


async def test_the_nth_event_that_matches_fires(play: Play) -> None:
    when = OnEvent(kind="step.completed", where={"rank": Condition(equals=1)}, nth=2)
    _, history = await play(experiment(step(when=when), ends=True), steps_every_second)
    assert LOG[0] == "3 inject worker-0"
    injecting = history.of("fault.injecting")[0]
    assert history[injecting.get("trigger")].get("step") == 3


async def test_an_event_before_the_gate_opened_fires_when_it_opens(play: Play) -> None:
    when = OnEvent(kind="step.completed", where={"step": Condition(equals=1)})
    it = experiment(step(when=when), ends=True, steady=(steady(every=2.0),))
    await play(it, steps_every_second)
    assert LOG[0] == "4 inject worker-0"


@pytest.mark.parametrize(("victim", "first"), [("worker-0", "1 on"), ("worker-1", "1 inject worker-1")])
async def test_a_fault_that_waits_for_the_member_that_waits_for_it_does_not_land_and_lets_it_go(
    play: Play, victim: str, first: str
) -> None:
    async def script(target: FakeTarget) -> int:
        await anyio.sleep(1)
        await target.stage.at_point("worker-0", "save", {})
        LOG.append(f"{target.now():g} on")
        return 0

    aimed = step(when=OnPoint(point="save"), awaits=True, members=Selector(names=(victim,)))
    _, history = await play(experiment(aimed, ends=True), script)
    assert LOG[0] == first
    said = [e.get("message") for e in history.of("fault.failed")]
    assert [("worker-0 stands at its trigger" in text) for text in said] == [True] * (victim == "worker-0")


async def test_a_member_waits_at_its_failpoint_until_the_fault_has_landed(play: Play) -> None:
    async def script(target: FakeTarget) -> int:
        for generation in (1, 2, 3):
            await anyio.sleep(1)
            await target.stage.at_point("worker-0", "checkpoint.before_commit", {"generation": generation})
            LOG.append(f"{target.now():g} past {generation}")
        return 0

    when = OnPoint(point="checkpoint.before_commit", where={"generation": Condition(equals=2)})
    _, history = await play(experiment(step(when=when, slow=4.0, hold=9.0), ends=True), script)
    assert LOG == [
        "1 past 1",
        "2 inject worker-0",
        "6 landed worker-0",
        "6 past 2",
        "7 past 3",
        "7 heal worker-0",
        "closed",
    ]
    reached = history.of("point.reached", generation=2)[0]
    assert (reached.source, reached.get("name")) == ("worker-0", "checkpoint.before_commit")
    landed, released = history.of("fault.landed")[0], history.of("point.released")[1]
    assert reached.seq < landed.seq < released.seq


@pytest.mark.parametrize("fail", ["inject", "unproved"])
async def test_a_failed_fault_lets_the_member_at_its_failpoint_go(play: Play, fail: str) -> None:
    async def script(target: FakeTarget) -> int:
        await target.stage.at_point("worker-0", "here", {})
        return 0

    result, history = await play(experiment(step(when=OnPoint(point="here"), fail=fail), ends=True), script)
    assert result.reason == "finished"
    assert history.of("fault.failed")
    assert not history.of("fault.landed")


async def test_the_end_of_a_run_lets_a_member_at_a_failpoint_go(play: Play) -> None:
    async def script(target: FakeTarget) -> int:
        await target.stage.at_point("worker-0", "here", {})
        LOG.append("past")
        return 0

    it = experiment(step(when=OnPoint(point="here", delay=500.0)), ends=True, limits={"wall": 5.0})
    result, _ = await play(it, script)
    assert result.reason == "limit"
    assert "past" in LOG


async def test_a_log_line_fires(play: Play) -> None:
    async def script(target: FakeTarget) -> int:
        for member in ("coordinator-0", "worker-0", "worker-1"):
            await anyio.sleep(1)
            target.stage.log_line(member, f"{member} saved shard 3")
        await anyio.sleep(1)
        return 0

    await play(experiment(step(when=OnLog(regex=r"shard \d", member="worker-*", nth=2)), ends=True), script)
    assert LOG[0] == "3 inject worker-0"


async def test_a_sample_fires(play: Play) -> None:
    it = experiment(
        step(when=OnProbe(probe="gauge", condition=Condition(at_least=7))),
        steady=(steady(read=lambda now: now, at_least=0, mode=Mode.AFTER),),
    )
    await play(it)
    assert LOG[0] == "7 inject worker-0"


async def test_after_another_step_landed_or_healed(play: Play) -> None:
    it = experiment(
        step("first", hold=5.0),
        step("second", when=After(step="first", delay=2.0)),
        step("third", when=After(step="first", healed=True)),
        step("kill", kill=True, when=After(step="third")),
        step("last", when=After(step="kill", healed=True)),
    )
    await play(it)
    assert [line.split()[0] for line in LOG if "inject" in line] == ["1", "3", "6", "6", "6"]


async def test_after_a_step_that_fails_nothing_waits_for_ever(play: Play) -> None:
    it = experiment(
        step("first", fail="inject"),
        step("second", when=After(step="first")),
        step("third", when=After(step="second")),
    )
    result, history = await play(it)
    assert result.reason == "finished"
    assert kinds(history, "fault:third") == ["fault.armed", "fault.missed"]
    assert history[-1].t == 3.0


async def test_a_repeated_step_keeps_its_period(play: Play) -> None:
    it = experiment(step(when=Every(period=10.0, times=3), hold=9.0, slow=0.5))
    await play(it)
    assert [line.split()[0] for line in LOG if "inject" in line] == ["10", "20", "30"]


async def test_arrivals_are_those_of_the_schedule(play: Play) -> None:
    it = experiment(step(when=Poisson(rate=0.1), kill=True, hold=None))
    _, history = await play(it)
    moments = [round(e.t, 3) for e in history.of("fault.injecting")]
    assert len(moments) > 3
    assert moments == sorted(moments)
    assert len(set(moments)) == len(moments)


async def test_a_trigger_that_never_fires_is_told(play: Play) -> None:
    it = experiment(step(when=OnEvent(kind="step.completed", nth=99)), ends=True)
    result, history = await play(it, steps_every_second)
    assert result.reason == "finished"
    assert kinds(history, "fault:freeze") == ["fault.armed", "fault.missed"]


@pytest.mark.parametrize("kind", ["run.ended", "fault.landed", "probe.sampled", "baseline.met", "target.finished"])
async def test_a_target_that_says_what_only_the_harness_says_is_not_believed(play: Play, kind: str) -> None:
    async def script(target: FakeTarget) -> int:
        target.emit(kind, source="fault:kill", evidence={"state": "X"}, reason="finished", code=0)
        await anyio.sleep(1)
        return 7

    _, history = await play(experiment(ends=True), script)
    forged = [e for e in history.of(kind) if e.source == "fault:kill"]
    assert not forged
    assert history.of("target.malformed")[0].get("reason") == f"only the harness says {kind}"


async def test_a_member_waits_before_its_file_operation_until_the_fault_has_landed(play: Play) -> None:
    async def script(target: FakeTarget) -> int:
        for name in ("gen-1/shard", "gen-1/manifest.json", "gen-2/manifest.json"):
            await anyio.sleep(1)
            await target.stage.at_file("store", "rename", name, {"pid": 7})
            LOG.append(f"{target.now():g} past {name}")
        return 0

    when = OnFile(path="**/manifest.json", op="rename", where={"source": Condition(equals="store")}, nth=2)
    _, history = await play(experiment(step(when=when, slow=4.0, hold=1.0), ends=True), script)
    assert LOG[:5] == [
        "1 past gen-1/shard",
        "2 past gen-1/manifest.json",
        "3 inject worker-0",
        "7 landed worker-0",
        "7 past gen-2/manifest.json",
    ]
    reached = history.of("file.reached", path="gen-2/manifest.json")[0]
    landed, released = history.of("fault.landed")[0], history.of("file.released")[2]
    assert reached.seq < landed.seq < released.seq


async def test_a_phase_begins_with_the_last_of_its_events_in_order(play: Play) -> None:
    async def script(target: FakeTarget) -> int:
        await anyio.sleep(1)
        target.emit("failure.detected", member="worker-1")  # a false alarm: nothing has been injected yet
        target.emit("checkpoint.loading", generation=1, rank=0)
        await anyio.sleep(3)
        target.emit("checkpoint.loading", generation=1, rank=0)  # nobody has noticed the fault
        target.emit("failure.detected", member="worker-0")
        await anyio.sleep(1)
        target.emit("checkpoint.loading", generation=1, rank=1)
        await anyio.sleep(9)
        return 0

    first = step(when=At(seconds=2.0), hold=1.0)
    during = step(name="during", when=OnPhase(phase="recovery.load"), hold=1.0)
    _, history = await play(experiment(first, during, ends=True), script)
    injecting = history.of("fault.injecting")[1]
    assert injecting.source == "fault:during"
    cause = history[injecting.get("trigger")]
    assert (cause.kind, cause.get("rank")) == ("checkpoint.loading", 1)


@pytest.mark.parametrize(
    ("pattern", "path", "match"),
    [
        ("**/manifest.json", "manifest.json", True),
        ("**/manifest.json", "store/gen-3/manifest.json", True),
        ("**/manifest.json", "store/gen-3/manifest.json.tmp", False),
        ("store/*/manifest.json", "store/gen-3/manifest.json", True),
        ("store/*/manifest.json", "store/a/b/manifest.json", False),
        ("store/**", "store/a/b", True),
        ("gen-?/s[1]", "gen-1/s[1]", True),
        ("gen-?/s", "gen-/s", False),
    ],
)
def test_globs_over_paths(pattern: str, path: str, match: bool) -> None:
    assert matches_path(pattern, path) is match
