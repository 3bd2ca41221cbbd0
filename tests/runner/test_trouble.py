"""Faults, targets and disks that go wrong: the rest is healed, and what happened is told."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from chaos.errors import TargetError
from chaos.history import Event
from chaos.trigger import At, OnPoint

from .fakes import LOG, FakeTarget, Play, experiment, step

pytestmark = pytest.mark.anyio


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


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


async def test_a_fault_whose_settings_ask_for_more_than_the_target_is_refused(play: Play) -> None:
    result, _ = await play(experiment(step(linked=True)))
    assert result.reason == "error"
    assert "cannot be done: this target does not offer it (it needs Links: " in result.detail
    assert LOG == ["closed"]


async def test_a_fault_that_cannot_go_on_is_healed_and_told(play: Play) -> None:
    result, history = await play(experiment(step(hold=3.0, busy=True, fail="upkeep")))
    assert result.reason == "finished"
    (broken,) = history.of("fault.failed")
    assert (broken.get("phase"), broken.get("message")) == ("hold", "there is nobody left")
    assert LOG[-2:] == ["4 heal worker-0", "closed"]


async def test_a_target_that_does_not_start(play: Play) -> None:
    result, history = await play(experiment(step()), fail=TargetError("port 7100 is taken"))
    assert (result.reason, result.detail) == ("error", "port 7100 is taken")
    assert (history[-1].get("reason"), history[-1].get("detail")) == ("error", "port 7100 is taken")


async def test_a_bug_in_a_driver_is_raised_after_healing(play: Play) -> None:
    async def script(target: FakeTarget) -> int:
        await anyio.sleep(5)
        raise ZeroDivisionError("a bug in the driver")

    with pytest.raises(ExceptionGroup) as caught:
        await play(experiment(step(hold=None), ends=True), script)
    assert caught.group_contains(ZeroDivisionError)
    assert LOG[-1] == "5 heal worker-0"


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


async def test_an_armed_fault_has_landed_when_somebody_ran_into_it(play: Play) -> None:
    _, history = await play(experiment(step(later=2.0)))
    armed, hit = history.of("fault.injecting")
    (landed,) = history.of("fault.landed")
    (healed,) = history.of("fault.healed")
    assert (hit.t - armed.t, landed.t - hit.t) == pytest.approx((2.0, 0.0), abs=0.05)
    assert landed.get("evidence") == {"who": "worker-0"}
    assert healed.t - landed.t == pytest.approx(1.0, abs=0.05)


async def test_an_armed_fault_that_nobody_ran_into_has_not_landed_and_is_healed(play: Play) -> None:
    _, history = await play(experiment(step(later=1000.0)))
    assert not history.of("fault.landed", "fault.healed")
    (failed,) = history.of("fault.failed")
    assert failed.get("error") == "NotLanded"
    assert "nobody ran into it" in failed.get("message")
    assert LOG[-2].endswith("heal worker-0")


async def test_whoever_stands_at_the_point_goes_on_once_the_fault_is_armed(play: Play) -> None:
    async def script(target: FakeTarget) -> int:
        await target.stage.at_point("worker-0", "save", {})
        target.met.set()
        await anyio.sleep(10)
        return 0

    _, history = await play(experiment(step(when=OnPoint(point="save"), later=-1.0)), script)
    assert history.of("point.released")[0].seq < history.of("fault.landed")[0].seq
