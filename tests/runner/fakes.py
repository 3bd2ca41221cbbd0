"""A scripted target, and faults that write down what happens to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import anyio
import anyio.lowlevel

from chaos.api import (
    Driver,
    Fault,
    Finished,
    Landing,
    Launch,
    Links,
    Member,
    Probe,
    Scene,
    Selection,
    Selector,
    Signals,
    Slot,
    Stage,
)
from chaos.errors import HealFailed, NotLanded
from chaos.experiment import Budget, Experiment, Hypothesis, Limits, Mode, Step, TargetSpec
from chaos.history import History
from chaos.runner import RunResult
from chaos.trigger import AnyTrigger, At, Condition

Script = Callable[["FakeTarget"], Awaitable[int]]
LOG: list[str] = []  # what faults and drivers did, in order, with the second


class FakeTarget:
    """Two workers and a coordinator, without processes; what it does over time is a script."""

    def __init__(self, stage: Stage, script: Script | None, slots: Sequence[Slot]) -> None:
        self.stage = stage
        self.alive = [
            Member(name=s.name, role=s.role, pid=100 + i, node=s.node, rank=s.rank) for i, s in enumerate(slots)
        ]
        self.begin = anyio.current_time()
        self.ended = anyio.Event()
        self.met = anyio.Event()
        self.code = 0
        self._script = script

    def now(self) -> float:
        return round(anyio.current_time() - self.begin, 3)

    async def play(self) -> None:
        if self._script is not None:
            self.code = await self._script(self)
            self.ended.set()

    async def tap(self, rule: Any, names: Any) -> Any:
        raise NotLanded("only the script says what is done to files")

    def members(self) -> tuple[Member, ...]:
        return tuple(self.alive)

    def emit(self, kind: str, source: str = "worker-0", **data: Any) -> None:
        self.stage.record(source, kind, data)

    async def wait_ready(self) -> None:
        pass

    async def wait_finished(self) -> Finished:
        await self.ended.wait()
        return Finished(code=self.code, member="coordinator-0")

    async def dump_stacks(self) -> tuple[str, ...]:
        LOG.append("stacks")
        return tuple(m.name for m in self.alive)

    async def signal(self, member: Member, signum: int) -> None:
        LOG.append(f"signal {member.name} {signum}")

    def state(self, member: Member) -> str:
        return "S"

    async def wait_state(self, member: Member, states: str, timeout: float) -> str:
        return states[0]


class FakeDriver(Driver, frozen=True, kw_only=True):
    script: Any = None
    target: Any = FakeTarget
    fail: Any = None  # raised when opened
    start: float = 0.0  # seconds it takes to open

    def slots(self, spec: dict[str, Any]) -> tuple[Slot, ...]:
        return SLOTS

    @asynccontextmanager
    async def open(self, launch: Launch, stage: Stage) -> AsyncIterator[Any]:
        await anyio.sleep(self.start)
        if self.fail is not None:
            raise self.fail
        target = self.target(stage, self.script, SLOTS)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(target.play)
            try:
                yield target
            finally:
                await anyio.lowlevel.checkpoint()  # a close that is cut short shows
                LOG.append("closed")
                tasks.cancel_scope.cancel()


SLOTS = (
    Slot(name="coordinator-0", role="coordinator", node="n0", domains={"rack": "r0"}),
    Slot(name="worker-0", role="worker", node="n0", rank=0, domains={"rack": "r0"}),
    Slot(name="worker-1", role="worker", node="n1", rank=1, domains={"rack": "r0"}),
    Slot(name="worker-2", role="worker", node="n2", rank=2, domains={"rack": "r1"}),
)


class Freeze(Fault[Signals], frozen=True, kw_only=True):
    """Do nothing, and say when."""

    fidelity: ClassVar[str] = "none"
    members: Selector = Selector(names=("worker-0",))
    slow: float = 0.0  # seconds to inject
    heal: float = 0.0  # seconds to heal
    fail: str = ""  # inject, crash, stuck, heal, crash-heal, unproved, nothing or upkeep
    busy: bool = False  # goes on doing something while it stands
    linked: bool = False  # needs Links beside Signals
    later: float = 0.0  # seconds until somebody runs into it; negative: as soon as `FakeTarget.met` is set

    def selectors(self) -> tuple[Selector, ...]:
        return (self.members,)

    def needs(self) -> tuple[type, ...]:
        return (Signals, Links) if self.linked else ()

    async def upkeep(self) -> None:
        while True:
            await anyio.sleep(0.75)
            LOG.append("busy")
            if self.fail == "upkeep":
                raise NotLanded("there is nobody left")

    async def _meet(self, target: Any, name: str, before: Callable[[], None]) -> dict[str, Any]:
        if self.later > 0:
            await anyio.sleep(self.later)
        else:
            await target.met.wait()
        before()
        return {"who": name}

    @asynccontextmanager
    async def inject(self, target: Any, *hit: Selection) -> AsyncIterator[Landing]:
        name = "+".join(m.name for m in hit[0].members) or "+".join(hit[0].nodes)
        if self.fail == "inject":
            raise NotLanded("it did not take")
        if self.fail == "stuck":
            raise HealFailed("half of it is done", "undo that half by hand")
        if self.fail == "crash":
            raise ZeroDivisionError("a bug in the fault")
        LOG.append(f"{target.now():g} inject {name}")
        try:
            await anyio.sleep(self.slow)
            LOG.append(f"{target.now():g} landed {name}")
            landing = Landing({} if self.fail == "unproved" else {"who": name}, self.upkeep if self.busy else None)
            if self.later:
                landing = Landing({}, hit=lambda before: self._meet(target, name, before))
            yield landing if self.fail != "nothing" else None  # type: ignore[misc]
            landing.healed = {"back": name}
        finally:
            with anyio.CancelScope(shield=self.heal < 1000):
                await anyio.sleep(self.heal)
                if self.fail == "heal":
                    raise HealFailed("it is stuck", "wake it by hand")
                if self.fail == "crash-heal":
                    raise ZeroDivisionError("a bug in the heal")
                LOG.append(f"{target.now():g} heal {name}")


class Heeded(Freeze, frozen=True, kw_only=True):
    """Lands only by what its victims do."""

    awaits: ClassVar[bool] = True


class Kill(Freeze, frozen=True, kw_only=True):
    """The same at one instant."""

    instant: ClassVar[bool] = True


class Gauge(Probe, frozen=True, kw_only=True):
    """What a script says, by the time of the run."""

    unit: ClassVar[str] = "none"
    read: Any = None
    takes: float = 0.0

    async def sample(self, scene: Scene) -> float | None:
        await anyio.sleep(self.takes)
        value = self.read(scene.now()) if callable(self.read) else self.read
        if isinstance(value, Exception):
            raise value
        return value  # type: ignore[no-any-return]


def step(name: str = "freeze", when: AnyTrigger | None = None, hold: float | None = 1.0, **fault: Any) -> Step:
    cls = Kill if fault.pop("kill", False) else Heeded if fault.pop("awaits", False) else Freeze
    return Step(name=name, kind=name, fault=cls(**fault), when=when or At(seconds=1.0), hold=hold)


def steady(name: str = "gauge", read: Any = 1.0, at_least: float | None = 0.5, **more: Any) -> Hypothesis:
    probe = Gauge(read=read, every=more.pop("every", 0.5), takes=more.pop("takes", 0.0))
    bound = Condition(at_least=at_least, at_most=more.pop("at_most", None))
    return Hypothesis(name=name, kind=name, probe=probe, bound=bound, mode=more.pop("mode", Mode.EDGE), **more)


def experiment(
    *method: Step, ends: bool = False, limits: dict[str, Any] | None = None, settings: Any = None, **more: Any
) -> Experiment:
    spec = TargetSpec(
        name="fake",
        path="/nowhere/target.yaml",
        driver="fake",
        settings=settings or {"nodes": 3},
        slots=SLOTS,
        events={},
        points={},
        recovery_paths=(),
        ends=ends,
        raw={},
    )
    return Experiment(
        name="fake",
        path="fake.yaml",
        title="",
        description="",
        tags=(),
        target=spec,
        seed=1,
        steady=more.get("steady", ()),
        method=method,
        budget=Budget(),
        invariants=(),
        abort=more.get("abort", ()),
        limits=Limits(**{"settle": 2.0, "wall": 100.0, **(limits or {})}),
    )


Play = Callable[..., Awaitable[tuple[RunResult, History]]]


def kinds(history: History, source: str | None = None) -> list[str]:
    return [e.kind for e in history if source is None or e.source == source]


def runs_for(seconds: float, code: int = 0) -> Script:
    """A target that ends by itself."""

    async def script(target: FakeTarget) -> int:
        await anyio.sleep(seconds)
        return code

    return script
