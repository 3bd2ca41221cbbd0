"""However a run ends: what was injected is healed, and nothing more is."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from chaos.api import Selector
from chaos.errors import TargetError
from chaos.experiment import Mode
from chaos.history import Event
from chaos.trigger import After, At, OnEvent

from .fakes import LOG, FakeTarget, Play, Script, experiment, kinds, steady, step

pytestmark = pytest.mark.anyio


def runs_for(seconds: float, code: int = 0) -> Script:
    async def script(target: FakeTarget) -> int:
        await anyio.sleep(seconds)
        return code

    return script


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# --- the ordinary ways -----------------------------------------------------------------------------------------------


async def test_a_fault_is_healed_when_its_hold_is_over(play: Play) -> None:
    result, history = await play(experiment(step(hold=3.0)))
    assert LOG == ["1 inject worker-0", "1 landed worker-0", "4 heal worker-0", "closed"]
    assert result.reason == "finished"
    assert kinds(history) == [
        "run.started",
        "target.starting",
        "target.ready",
        "baseline.met",
        "method.started",
        "fault.armed",
        "fault.injecting",
        "fault.landed",
        "fault.healed",
        "method.ended",
        "final.started",
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


# --- the gate before the method --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gauge", "reason"),
    [
        ({"read": 0.1}, "last value 0.1, 0 in a row met the bound"),
        ({"read": None}, "no data"),
        ({"read": ValueError("no such metric")}, "ValueError: no such metric"),
        ({"read": float("nan")}, "not a finite number: nan"),
        ({"read": True}, "not a finite number: True"),
        ({"read": "1.0"}, "not a finite number: '1.0'"),
        ({"read": 1.0, "takes": 0.7}, "late"),
        ({"read": lambda now: 1.0 if now % 1.5 else 0.0}, "last value"),
    ],
)
async def test_a_steady_state_that_is_not_met_injects_nothing(play: Play, gauge: Any, reason: str) -> None:
    it = experiment(step(), steady=(steady(**gauge),), limits={"baseline": 20.25})
    result, history = await play(it)
    assert result.reason == "limit"
    assert LOG == ["closed"]
    assert reason in history.of("baseline.missed")[0].get("gauge")
    assert not history.of("method.started", "fault.armed")


async def test_a_steady_state_needs_three_samples_in_a_row(play: Play) -> None:
    values = iter([1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    it = experiment(step(), steady=(steady(read=lambda _: next(values, 1.0), every=1.0),))
    _, history = await play(it)
    assert history.of("method.started")[0].t == 5.0
    assert history.of("baseline.met")[0].data == {"gauge": [1.0, 1.0, 1.0]}


async def test_a_bound_of_the_baseline_needs_data_only(play: Play) -> None:
    it = experiment(step(), steady=(steady(read=0.1, of_baseline=True, mode=Mode.AFTER),))
    _, history = await play(it)
    assert history.of("method.started")[0].t == 1.0


async def test_a_hypothesis_for_later_does_not_gate(play: Play) -> None:
    _, history = await play(experiment(step(), steady=(steady(read=None, mode=Mode.DURING),)))
    assert history.of("method.started")[0].t == 0.0


async def test_a_target_that_finishes_before_its_steady_state_has_nothing_injected(play: Play) -> None:
    result, history = await play(experiment(step(), ends=True, steady=(steady(read=None),)), runs_for(4.0))
    assert result.reason == "finished"
    assert history.of("baseline.missed")
    assert not history.of("fault.armed")


# --- aborts, limits, hangs -------------------------------------------------------------------------------------------


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


# --- faults and targets that go wrong --------------------------------------------------------------------------------


async def test_a_fault_that_does_not_land_is_told_and_the_run_goes_on(play: Play) -> None:
    result, history = await play(experiment(step(fail="inject"), step("other", when=At(seconds=5.0))))
    assert result.reason == "finished"
    assert history.of("fault.failed")[0].data == {
        "phase": "inject",
        "error": "NotLanded",
        "message": "it did not take",
        "undo": "",
    }
    assert history.of("fault.landed")[0].source == "fault:other"


@pytest.mark.parametrize("fail", ["unproved", "nothing"])
async def test_a_fault_without_proof_has_not_landed_and_is_healed(play: Play, fail: str) -> None:
    _, history = await play(experiment(step(fail=fail)))
    assert not history.of("fault.landed", "fault.healed")
    assert history.of("fault.failed")[0].get("error") == "NotLanded"
    assert LOG[-2:] == ["1 heal worker-0", "closed"]


async def test_a_bug_in_a_fault_ends_the_run_and_the_others_are_healed(play: Play) -> None:
    result, history = await play(experiment(step(hold=None), step("broken", when=At(seconds=4.0), fail="crash")))
    assert result.reason == "error"
    assert LOG[-2:] == ["4 heal worker-0", "closed"]
    failed = history.of("fault.failed")[0]
    assert failed.get("error") == "ZeroDivisionError"
    assert "a bug in the fault" in failed.get("traceback")
    assert "a bug in the fault" in result.traces[0]


async def test_a_dead_member_is_no_member(play: Play) -> None:
    async def script(target: FakeTarget) -> int:
        target.alive = [m for m in target.alive if m.name != "worker-0"]
        await anyio.sleep_forever()
        return 0

    _, history = await play(experiment(step()), script)
    assert history.of("fault.failed")[0].get("message") == "no member selected"
    assert LOG == ["closed"]


async def test_an_injection_that_cannot_undo_its_first_half_is_a_failed_heal(play: Play) -> None:
    result, history = await play(experiment(step(fail="stuck")))
    assert result.heal_failures[0].undo == "undo that half by hand"
    assert history.of("fault.failed")[0].get("phase") == "heal"


@pytest.mark.parametrize(("fail", "undo"), [("heal", "wake it by hand"), ("crash-heal", "undo freeze on worker-0")])
async def test_a_heal_that_raises_ends_the_run_and_says_what_to_undo(play: Play, fail: str, undo: str) -> None:
    it = experiment(step(fail=fail), step("other", when=At(seconds=1.5), hold=None), ends=True)
    result, history = await play(it)
    assert result.reason == "error"
    assert [f.step for f in result.heal_failures] == ["freeze"]
    assert undo in result.heal_failures[0].undo
    assert history.of("fault.failed", phase="heal")[0].get("undo") == result.heal_failures[0].undo
    assert LOG[-2:] == ["2 heal worker-0", "closed"]


async def test_a_heal_has_a_limit(play: Play) -> None:
    it = experiment(step(heal=5000.0), step("other", when=At(seconds=1.5), hold=None), limits={"heal": 4.0})
    result, history = await play(it)
    assert "longer than 4s" in result.heal_failures[0].message
    assert LOG[-2:] == ["6 heal worker-0", "closed"]
    assert history[-1].t == 6.0


async def test_a_fault_that_the_target_cannot_carry_is_refused_before_anything_is_broken(play: Play) -> None:
    class Deaf:
        def __init__(self, *args: Any) -> None:
            self._it = FakeTarget(*args)

        async def play(self) -> None:
            await self._it.play()

        def members(self) -> Any:
            return self._it.members()

    result, history = await play(experiment(step()), target=Deaf)
    assert result.reason == "error"
    assert "Signals" in result.detail
    assert history.of("fault.failed")[0].get("error") == "Unsupported"
    assert LOG == ["closed"]


async def test_a_target_that_does_not_start(play: Play) -> None:
    result, history = await play(experiment(step()), fail=TargetError("port 7100 is taken"))
    assert (result.reason, result.detail) == ("error", "port 7100 is taken")
    assert history[-1].data == {"reason": "error", "detail": "port 7100 is taken"}


async def test_a_bug_in_a_driver_is_raised_after_healing(play: Play) -> None:
    async def script(target: FakeTarget) -> int:
        await anyio.sleep(5)
        raise ZeroDivisionError("a bug in the driver")

    with pytest.raises(ExceptionGroup) as caught:
        await play(experiment(step(hold=None), ends=True), script)
    assert caught.group_contains(ZeroDivisionError)
    assert LOG[-1] == "5 heal worker-0"


# --- the journal -----------------------------------------------------------------------------------------------------


async def test_a_full_disk_heals_first_and_ends_the_run(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write

    def full(file: int, data: bytes) -> int:
        if b'"epoch.issued"' in data:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data)

    async def script(target: FakeTarget) -> int:
        await anyio.sleep(4)
        target.emit("epoch.issued")
        await anyio.sleep_forever()
        return 0

    monkeypatch.setattr(os, "write", full)
    result, history = await play(experiment(step(hold=None), ends=True), script)
    assert result.reason == "error"
    assert "No space left" in result.detail
    assert LOG[-2:] == ["4 heal worker-0", "closed"]
    assert history[-1].kind == "method.ended"  # it reads up to its last whole event


async def test_an_observer_sees_every_event_and_cannot_break_a_run(play: Play) -> None:
    class Screen:
        def __init__(self) -> None:
            self.seen: list[Event] = []

        def event(self, event: Event) -> None:
            self.seen.append(event)
            if event.kind == "fault.landed":
                raise RuntimeError("the terminal has gone")

    screen = Screen()
    result, history = await play(experiment(step()), observer=screen)
    assert result.reason == "finished"
    assert screen.seen == list(history)[: len(screen.seen)]
    assert screen.seen[-1].kind == "fault.landed"
    assert "the terminal has gone" in result.traces[0]


async def test_settings_that_are_secret_are_in_no_file(play: Play, tmp_path: Any) -> None:
    await play(experiment(step(), settings={"hub-token": "hf_abcdef", "nodes": 3}))
    for name in ("journal.jsonl", "schedule.json"):
        assert "hf_abcdef" not in (tmp_path / name).read_text()
        assert "***" in (tmp_path / name).read_text()


async def test_a_run_never_writes_over_another(play: Play, tmp_path: Path) -> None:
    await play(experiment(step()))
    before = contents(tmp_path)
    with pytest.raises(FileExistsError):
        await play(experiment(step(), step("other")))
    assert contents(tmp_path) == before
    assert LOG.count("closed") == 1


# --- signals ---------------------------------------------------------------------------------------------------------


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
