"""The contract functions can fail: each wrong plugin here is caught, for the reason it is wrong."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from trio.testing import MockClock

from chaos.api import (
    JSON,
    Cut,
    Driver,
    Fault,
    Files,
    Landing,
    Launch,
    Links,
    Member,
    Selection,
    Selector,
    Signals,
    Slot,
    Stage,
    Target,
)  # fmt: skip
from chaos.errors import NotLanded
from chaos.testing import FakeTarget, Recorder, check_driver, check_fault

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


class Wrong(Fault[Signals], frozen=True, kw_only=True):
    """Stop a member, in one of several wrong ways."""

    fidelity: ClassVar[str] = "none"
    how: str

    def selectors(self) -> tuple[Selector, ...]:
        return (Selector(ranks=(1,)),)

    @asynccontextmanager
    async def inject(self, target: Signals, *hit: Selection) -> AsyncIterator[Landing]:
        members = hit[0].members
        if not members and self.how != "hits nobody":
            raise NotLanded("nobody")
        landing = Landing({} if self.how == "no evidence" else {"stopped": len(members)})
        for member in members:
            if self.how != "changes nothing":
                await target.signal(member, signal.SIGSTOP)
            if self.how not in ("believes", "changes nothing"):
                await target.wait_state(member, "T", 1.0)
        healed = False
        try:
            yield landing
            healed = True
        finally:
            if self.how != "never heals" and (healed or self.how != "heals only in peace"):
                with anyio.CancelScope(shield=self.how != "gives way"):
                    await anyio.lowlevel.checkpoint()
                    for member in members:
                        if self.how == "trips over the dead" or target.state(member) != "X":
                            await target.signal(member, signal.SIGCONT)
                landing.healed = {} if self.how == "no proof of the heal" else {"running": len(members)}


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("no evidence", "landed without evidence"),
        ("changes nothing", "nothing has changed"),
        ("never heals", "still standing after the heal"),
        ("no proof of the heal", "healed without evidence"),
        ("heals only in peace", "still standing after an_error"),
        ("gives way", "still standing after cancellation"),
        ("hits nobody", "hit nothing"),
        ("believes", "hit nothing"),
    ],
)
async def test_a_fault_that_breaks_the_contract_is_caught(how: str, reason: str) -> None:
    with pytest.raises(AssertionError, match=reason):
        await check_fault(Wrong(how=how), FakeTarget)


async def test_a_heal_that_trips_over_a_dead_member_is_caught() -> None:
    with pytest.raises(NotLanded):
        await check_fault(Wrong(how="trips over the dead"), FakeTarget)


async def test_a_fault_that_keeps_the_contract_passes() -> None:
    await check_fault(Wrong(how="not wrong at all"), FakeTarget)


async def test_a_fault_without_words_is_caught() -> None:
    class Silent(Wrong, frozen=True, kw_only=True):
        """Stop a member."""

        fidelity: ClassVar[str] = ""

    with pytest.raises(AssertionError, match="what it stands for"):
        await check_fault(Silent(how=""), FakeTarget)


async def test_the_fake_target_can_do_all_that_the_contracts_name() -> None:
    target = FakeTarget()
    for capability in (Signals, Links, Files):
        assert isinstance(target, capability)
    same: Target = target
    await same.wait_ready()
    assert set(await target.dump_stacks()) == {m.name for m in target.members()}


async def test_a_restarted_member_is_another_process_of_the_same_name() -> None:
    target = FakeTarget()
    old = target.member("worker-n1")
    target.end("worker-n1")
    new = target.restart("worker-n1")
    assert (old.name, old.pid) != (new.name, new.pid)
    assert target.state(old) == "X"
    assert new in target.members()
    assert old not in target.members()


async def test_a_numb_target_takes_signals_and_does_not_change() -> None:
    target = FakeTarget(numb=True)
    member = target.member("worker-n1")
    await target.signal(member, signal.SIGKILL)
    with pytest.raises(NotLanded, match="in state S"):
        await target.wait_state(member, "X", 1.0)
    with pytest.raises(NotLanded):
        await target.cut(Cut(pairs=(("n0", "n1"),)))


async def test_a_recorder_waits_for_an_event_and_for_no_longer_than_it_is_told() -> None:
    stage = Recorder()
    stage.record("a", "it.happened", {})
    assert (await stage.until("it.happened")).source == "a"
    with pytest.raises(TimeoutError):
        await stage.until("it.happened", source="b", within=1.0)


class Sleepers(Driver, frozen=True, kw_only=True):
    """Starts a process, and does one thing wrong."""

    wrong: str

    def slots(self, spec: JSON) -> tuple[Slot, ...]:
        slot = Slot(name="sleeper", role="sleeper")
        return (slot, slot) if self.wrong == "two of one name" else (slot,)

    @asynccontextmanager
    async def open(self, launch: Launch, stage: Stage) -> AsyncIterator[Target]:
        process = sleeper()
        target = FakeTarget(self.slots({}))
        name = "stranger" if self.wrong == "a stranger" else "sleeper"
        member = Member(name=name, role="sleeper", pid=process.pid)
        target.members = lambda: () if self.wrong == "nobody" else (member,)  # type: ignore[method-assign]
        peace = False
        try:
            yield target
            peace = True
        finally:
            if self.wrong != "leaks" and (peace or self.wrong != "leaks after an error"):
                process.kill()
                process.wait()
            else:
                LEAKED.append(process)
            if self.wrong != "silent":
                stage.record("sleeper", "member.exited", {})


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"])


LEAKED: list[subprocess.Popen[bytes]] = []


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("two of one name", "two members of one name"),
        ("a stranger", "no slot declares"),
        ("nobody", "without a living member"),
        ("leaks", "left behind after in_peace: .'sleeper'"),
        ("leaks after an error", "left behind after an_error"),
        ("silent", "exit was not told"),
    ],
)
async def test_a_driver_that_breaks_the_contract_is_caught(wrong: str, reason: str, tmp_path: Path) -> None:
    launch = Launch(spec={}, settings={}, folder=tmp_path, base=tmp_path, points=())
    try:
        with pytest.raises(AssertionError, match=reason):
            await check_driver(Sleepers(wrong=wrong), launch)
    finally:
        while LEAKED:
            process = LEAKED.pop()
            process.kill()
            process.wait()


async def test_a_driver_that_keeps_the_contract_passes(tmp_path: Path) -> None:
    launch = Launch(spec={}, settings={}, folder=tmp_path, base=tmp_path, points=())
    await check_driver(Sleepers(wrong=""), launch)
