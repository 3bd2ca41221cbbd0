"""For authors of plugins: a target without processes, a stage that remembers, and the contracts as functions.

    async def test_freeze_keeps_the_contract() -> None:
        await check_fault(Freeze(members=Selector(ranks=(1,))), FakeTarget)

Everything waits with anyio alone, so tests may run on a virtual clock.
"""

from __future__ import annotations

import itertools
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec

from chaos.api import JSON, Cut, Driver, Fault, Finished, Launch, Member, Slot, Target, Undo
from chaos.errors import NotLanded
from chaos.fake_exchanges import FakeExchanges
from chaos.fake_network import FakeNetwork
from chaos.fake_storage import FakeFiles, FakePower, FakeViews
from chaos.fake_store import FakeStore
from chaos.fake_talk import FakeTalk
from chaos.fileops import Rule
from chaos.history import Event
from chaos.selection import select

NEVER = 5.0  # seconds that show that nobody runs into a fault

SLOTS = (
    Slot(name="leader", role="coordinator", node="n0", domains={"rack": "r0"}),
    *(
        Slot(name=f"{role}-n{i}", role=role, node=f"n{i}", rank=i if role == "worker" else None)
        for i in range(3)
        for role in ("agent", "worker")
    ),
)


class Recorder:
    """Implements Stage: keeps every event, lets a test wait for one, holds members at failpoints."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.lines: list[tuple[str, str]] = []
        self.owed: list[Undo] = []
        self.held: dict[str, anyio.Event] = {}  # failpoint -> what lets the members there go on
        self._news = anyio.Event()

    def record(self, source: str, kind: str, data: JSON, t: float | None = None) -> Event:
        event = Event(len(self.events), time.monotonic() if t is None else t, time.time(), source, kind, data)
        self.events.append(event)
        self._tell()
        return event

    def log_line(self, member: str, line: str) -> None:
        self.lines.append((member, line))
        self._tell()

    async def at_point(self, source: str, point: str, data: JSON) -> None:
        self.record(source, "point.reached", {"name": point, **data})
        if point in self.held:
            await self.held[point].wait()

    async def at_file(self, source: str, op: str, path: str, data: JSON) -> None:
        self.record(source, "file.reached", {"op": op, "path": path, **data})
        if f"{op} {path}" in self.held:
            await self.held[f"{op} {path}"].wait()

    async def owe(self, undo: Undo) -> Callable[[], Awaitable[None]]:
        self.owed.append(undo)

        async def settled() -> None:
            self.owed.remove(undo)

        return settled

    async def until(self, kind: str, source: str | None = None, times: int = 1, within: float = 10.0) -> Event:
        """The nth event of that kind (of that source); TimeoutError when it does not come."""
        with anyio.fail_after(within):
            while True:
                found = [e for e in self.events if e.kind == kind and source in (None, e.source)]
                if len(found) >= times:
                    return found[times - 1]
                await self._news.wait()

    async def until_line(self, member: str, text: str, times: int = 1, within: float = 10.0) -> None:
        """Returns when that many lines of the member hold the text."""
        with anyio.fail_after(within):
            while sum(text in line for name, line in self.lines if name == member) < times:
                await self._news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()


class FakeTarget(FakeNetwork, FakePower, FakeViews, FakeFiles, FakeTalk, FakeExchanges, FakeStore):
    """Implements Target, Signals, Links, Checkpoints, Hooks, Taps, PoweredDisks, Views in memory; what is armed hits.

    `numb`: accepts everything and nothing changes, as a fault that hits the wrong process: proofs must fail.
    `stubborn`: names of members that SIGTERM and SIGINT do not end; others end `grace` seconds after it.
    """

    def __init__(self, slots: Sequence[Slot] = SLOTS, *, numb: bool = False, folder: Path | None = None) -> None:
        super().__init__()
        self.slots = tuple(slots)
        self.numb = numb
        self.stubborn: frozenset[str] = frozenset()
        self.grace = 0.0
        self.finished = anyio.Event()
        self.code = 0
        self.cuts: Counter[tuple[str, str]] = Counter()
        self.hooks: dict[int, tuple[Member, str, JSON]] = {}  # those that are armed, by number
        self._pids, self._numbers = itertools.count(100), itertools.count(1)
        self.rules: list[FakeTapped] = []
        self._members = [self._born(slot) for slot in self.slots]
        self._states = {m.pid: "S" for m in self._members}
        self._leaving: dict[int, float] = {}  # process id -> when SIGTERM or SIGINT ends it
        self._news = anyio.Event()
        self.folder = folder

    def members(self) -> tuple[Member, ...]:
        return tuple(m for m in self._members if self.state(m) != "X")

    def member(self, name: str) -> Member:
        """The newest process with that name, dead or alive."""
        return next(m for m in reversed(self._members) if m.name == name)

    def end(self, name: str) -> None:
        """A member exits by itself."""
        self._become(self.member(name), "X")

    def restart(self, name: str) -> Member:
        """A new process takes the name over."""
        born = self._born(next(slot for slot in self.slots if slot.name == name))
        self._members.append(born)
        self._states[born.pid] = "S"
        return born

    def standing(self) -> frozenset[str]:
        """What is disturbed now: stopped members, cut pairs, disturbed ways and streams, armed hooks."""
        stopped = {m.name for m in self._members if self.state(m) == "T"}
        hooked = {f"{member.name}@{site}" for member, site, _ in self.hooks.values()}
        hooked |= {tapped.rule.path for tapped in self.rules}
        hooked |= {f"dark {node}" for node in self.dark} | self.disturbed() | self.lied() | self.served()
        hooked |= self.spoilt() if self.members() else set()
        return frozenset(stopped | hooked | {f"{a}->{b}" for (a, b), count in self.cuts.items() if count})

    async def wait_ready(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def wait_finished(self) -> Finished:
        await self.finished.wait()
        return Finished(code=self.code, member=self.slots[0].name)

    async def dump_stacks(self) -> tuple[str, ...]:
        await anyio.lowlevel.checkpoint()
        return tuple(m.name for m in self.members())

    async def signal(self, member: Member, signum: int) -> None:
        if self.state(member) == "X":
            raise NotLanded(f"{member.name} has already gone")
        if self.numb:
            return
        if signum in (signal.SIGTERM, signal.SIGINT):
            if member.name not in self.stubborn:
                self._leaving[member.pid] = anyio.current_time() + self.grace
        else:
            after = {signal.SIGKILL: "X", signal.SIGSTOP: "T", signal.SIGCONT: "S"}
            self._become(member, after.get(signal.Signals(signum), self.state(member)))

    def state(self, member: Member) -> str:
        if self._leaving and self._leaving.get(member.pid, float("inf")) <= anyio.current_time():
            return "X"
        return self._states.get(member.pid, "X")

    async def wait_state(self, member: Member, states: str, timeout: float) -> str:
        with anyio.move_on_after(timeout):
            while (state := self.state(member)) not in states:
                with anyio.move_on_at(self._leaving.get(member.pid, float("inf"))):
                    await self._news.wait()
            await anyio.lowlevel.checkpoint()
            return state
        raise NotLanded(f"{member.name} is in state {self.state(member)} and not in {states} after {timeout:g} s")

    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(slot.node for slot in self.slots if slot.node))

    async def cut(self, cut: Cut) -> JSON:
        await anyio.lowlevel.checkpoint()
        if self.numb:
            raise NotLanded("packets pass although they should be dropped")
        self.cuts.update(cut.pairs)
        self.succeed()
        return {"mechanism": "fake", "pairs": [{"from": a, "to": b, "sent": 1, "dropped": 1} for a, b in cut.pairs]}

    async def restore(self, cut: Cut) -> JSON:
        await anyio.lowlevel.checkpoint()
        self.cuts.subtract(cut.pairs)
        return {"mechanism": "fake", "pairs": [{"from": a, "to": b, "sent": 1, "received": 1} for a, b in cut.pairs]}

    async def arm(self, member: Member, site: str, change: JSON) -> int:
        await anyio.lowlevel.checkpoint()
        if self.state(member) == "X":
            raise NotLanded(f"{member.name} has already gone")
        number = next(self._numbers)
        self.hooks[number] = (member, site, change)
        return number

    async def wait_hit(self, number: int, timeout: float) -> JSON:
        await anyio.lowlevel.checkpoint()
        member, site, change = self.hooks[number]
        if self.numb:
            raise NotLanded(f"{member.name} was armed at {site}, and nothing was hit within {timeout:g} s")
        return {"member": member.name, "site": site, "do": change["do"]}

    async def disarm(self, number: int) -> JSON:
        self.hooks.pop(number, None)
        await anyio.lowlevel.checkpoint()
        return {"hits": 0 if self.numb else 1}

    async def tap(self, rule: Rule, names: Sequence[str] | None) -> FakeTapped:
        await anyio.lowlevel.checkpoint()
        self.rules.append(tapped := FakeTapped(self, rule, names))
        return tapped

    def _born(self, slot: Slot) -> Member:
        return Member(name=slot.name, role=slot.role, pid=next(self._pids), node=slot.node, rank=slot.rank)

    def _become(self, member: Member, state: str) -> None:
        self._states[member.pid] = state
        self._news.set()
        self._news = anyio.Event()
        if state == "T":
            self.succeed()


class FakeTapped:
    """Implements Tapped: hits the first member that it means, or nobody on a numb target."""

    def __init__(self, target: FakeTarget, rule: Rule, names: Sequence[str] | None) -> None:
        self.target, self.rule = target, rule
        self._names = names

    async def first(self, before: Callable[[], None]) -> JSON:
        await anyio.lowlevel.checkpoint()
        found = [m.name for m in self.target.members() if self._names is None or m.name in self._names]
        if self.target.numb or not found:
            await anyio.sleep_forever()
        before()
        if self.rule.action == "kill":
            self.target.end(found[0])
        return {"mechanism": "fake", "member": found[0], "op": self.rule.ops[0], "n": self.rule.first}

    async def lift(self) -> JSON:
        await anyio.lowlevel.checkpoint()
        if self in self.target.rules:
            self.target.rules.remove(self)
        return {"mechanism": "fake", "hits": 1}


UPKEEP = 1.0  # seconds that what a fault keeps doing is watched
_End = Callable[[Any, anyio.CancelScope], Awaitable[None]]

# --- contracts -------------------------------------------------------------------------------------------------------


async def check_fault(fault: Fault[Any], make: Callable[[], FakeTarget]) -> None:
    """The contract of every fault, as assertions: documented, round-trips, lands with proof, heals whatever happens.

    `make` gives a fresh target in which the fault hits something. A fault that nothing could prove wrong on a numb
    target (it needs neither signals nor links) passes the last part for the lack of an object.
    """
    kind = type(fault)
    assert kind.__doc__, f"{kind.__name__} has no docstring"
    assert kind.fidelity, f"{kind.__name__} does not say what it stands for"
    assert msgspec.convert(msgspec.to_builtins(fault), kind) == fault
    await _lands_and_heals(fault, make())
    for end in (_an_error, _cancellation, _the_end_of_all):
        await _heals_after(fault, make(), end)
    await _refuses(fault, make(), [])
    if not fault.instant or fault.selectors():
        numb = make()
        numb.numb = True
        await _refuses(fault, numb, None)
        assert not numb.standing(), f"{kind.__name__} left {set(numb.standing())} behind although it did not land"


async def _lands_and_heals(fault: Fault[Any], target: FakeTarget) -> None:
    before = len(target.members())
    async with fault.inject(target, *_hit(fault, target)) as landing:
        if landing.hit is not None:
            landing.evidence = await landing.hit(lambda: None)
        assert landing.evidence, "landed without evidence"
        msgspec.json.encode(landing.evidence)
        if fault.instant and landing.hit is None:
            assert not target.standing(), "an instant fault leaves nothing to heal"
        else:
            changed = target.standing() or target.replayed or target.dropped or len(target.members()) < before
            assert changed, "landed, and nothing has changed"
        with anyio.move_on_after(UPKEEP):
            await (landing.upkeep or anyio.lowlevel.checkpoint)()
    assert not target.standing(), f"still standing after the heal: {set(target.standing())}"
    if not fault.instant:
        assert landing.healed, "healed without evidence"
        msgspec.json.encode(landing.healed)


async def _heals_after(fault: Fault[Any], target: FakeTarget, end: _End) -> None:
    with anyio.CancelScope() as scope, suppress(_Boom):
        async with fault.inject(target, *_hit(fault, target)):
            await end(target, scope)
    assert not target.standing(), f"still standing after {end.__name__.strip('_')}: {set(target.standing())}"


async def _refuses(fault: Fault[Any], target: FakeTarget, slots: Sequence[Slot] | None) -> None:
    """NotLanded, with an empty selection (`slots` empty) or a target on which nothing takes effect."""
    hit = _hit(fault, target, slots)
    if slots is not None and not hit:
        return
    try:
        async with fault.inject(target, *hit) as landing:
            if landing.hit is not None:  # armed: nobody may run into it
                with anyio.move_on_after(NEVER):
                    await landing.hit(lambda: None)
                    raise AssertionError(f"{type(fault).__name__} says that it was hit and nobody was")
                return
    except NotLanded:
        return
    raise AssertionError(f"{type(fault).__name__} says that it landed and hit nothing")


def _left(members: Sequence[Member]) -> list[str]:
    return [m.name for m in members if Path(f"/proc/{m.pid}").exists()]


class _Boom(Exception):
    """An error of the runner while a fault stands."""


async def _in_peace(target: Target, scope: anyio.CancelScope) -> None:
    await anyio.lowlevel.checkpoint()


async def _an_error(target: Target, scope: anyio.CancelScope) -> None:
    raise _Boom


async def _cancellation(target: Target, scope: anyio.CancelScope) -> None:
    scope.cancel()
    await anyio.lowlevel.checkpoint()


async def _the_end_of_all(target: Target, scope: anyio.CancelScope) -> None:
    assert isinstance(target, FakeTarget)
    for member in target.members():
        target.end(member.name)


def _hit(fault: Fault[Any], target: FakeTarget, slots: Sequence[Slot] | None = None) -> tuple[Any, ...]:
    if slots is not None:
        return select(fault.selectors(), slots, ())
    return select(fault.selectors(), target.slots, target.members(), target.nodes())


async def check_driver(driver: Driver, launch: Launch) -> None:
    """The contract of every driver, as assertions; starts the target of `launch`, whose members must not end by
    themselves, three times: left in peace, by an error, and by cancellation."""
    slots = driver.slots(launch.spec)
    assert slots == driver.slots(launch.spec), "slots() must not depend on anything but the target file"
    assert len({slot.name for slot in slots}) == len(slots), "two members of one name"
    for number, end in enumerate((_in_peace, _an_error, _cancellation)):
        stage = Recorder()
        again = msgspec.structs.replace(launch, folder=launch.folder / str(number))
        seen: list[Member] = []
        with anyio.CancelScope() as scope, suppress(_Boom):
            async with driver.open(again, stage) as target:
                await target.wait_ready()
                seen += target.members()
                assert {m.name for m in seen} <= {slot.name for slot in slots}, "a member that no slot declares"
                assert seen, "a target without a living member"
                await end(target, scope)
        left = _left(seen)
        assert not left, f"left behind after {end.__name__.strip('_')}: {left}"
        exited = {e.source for e in stage.events if e.kind == "member.exited"}
        assert exited >= {m.name for m in seen}, "a member whose exit was not told"


__all__ = ["FakeTarget", "Recorder", "check_driver", "check_fault"]
