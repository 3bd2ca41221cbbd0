"""Members whose file operations are seen, and can be stopped, before they happen."""

from __future__ import annotations

import platform
import socket
from collections.abc import Iterable, Sequence

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from chaos.api import JSON, HitsFiles, Launch, Member, Selector, Stage, Taps
from chaos.drivers.process.fittings.base import Face, Fitting
from chaos.drivers.process.fittings.tap.armed import MECHANISM, Armed
from chaos.drivers.process.fittings.tap.desk import Desk
from chaos.drivers.process.fittings.tap.filter import program as filter_of
from chaos.drivers.process.fittings.tap.observer import Observer
from chaos.drivers.process.fittings.tap.probe import probe
from chaos.drivers.process.fittings.tap.syscalls import MACHINES, numbers
from chaos.drivers.process.fittings.tap.unsynced import OPS as UNSYNCED_OPS
from chaos.drivers.process.fittings.tap.unsynced import Unsynced
from chaos.drivers.process.recipe import Recipe
from chaos.drivers.process.spec import Program
from chaos.drivers.process.supervisor import Supervisor
from chaos.errors import Unsupported
from chaos.fileops import FILE_OPS, Rule
from chaos.selection import matching

RECORD = "operations.jsonl"  # in the run's folder: what was tapped below the target's data, one JSON object a line


class TapFace(Face):
    """Gives Taps."""

    async def tap(self, rule: Rule, names: Sequence[str] | None) -> Armed:
        return await self.fitting(Tap).arm(rule, names)


class Tap(Fitting):
    """Only the members that a fault or a trigger may mean are tapped, and only for the operations that it names."""

    name = "tap"
    capability = Taps
    face = TapFace

    def __init__(self, recipe: Recipe, stage: Stage) -> None:
        super().__init__(recipe, stage)
        self._observers: tuple[Observer, ...] = ()
        self._ops: dict[str, frozenset[str]] = {}
        self._theirs: dict[str, socket.socket] = {}
        self._desk: Desk | None = None
        self._over = anyio.Event()

    @classmethod
    def wanted(cls, launch: Launch) -> bool:
        return super().wanted(launch) or bool(launch.files)

    def watch(self, observers: Sequence[Observer]) -> None:
        """Also let these see what they ask for, of all members."""
        self._observers = tuple(observers)

    def lab(self) -> JSON:
        probe()
        return {}

    async def set_up(self, supervisor: Supervisor, tasks: TaskGroup) -> str:
        recipe, launch = self.recipe, self.recipe.launch
        rules = [fault.rule() for fault in launch.faults if isinstance(fault, HitsFiles)]
        unsynced = Unsynced((rule.path for rule in rules if rule.action == "drop"), f"{recipe.data}/")
        self._ops = {program.name: ops for program in recipe.programs if (ops := self._wanted(program))}
        calls = numbers(frozenset(FILE_OPS), MACHINES[platform.machine()].column)
        desk = self._desk = Desk(
            recipe.data, recipe.folder / RECORD, self.stage, launch.files, self._observers, unsynced, calls
        )
        tasks.start_soon(desk.serve, tasks)
        tasks.start_soon(self._listen, desk)
        seen = ", ".join(op for op in FILE_OPS if any(op in ops for ops in self._ops.values()))
        return f"{MECHANISM}: {seen} of {', '.join(self._ops)}; not what goes through io_uring or mapped memory"

    def dress(self, program: Program) -> tuple[JSON, Sequence[int]] | None:
        ops = self._ops.get(program.name)
        if not ops:
            return None
        assert self._desk is not None
        self._close(program)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._desk.server.expect(ours, program.name)
        self._theirs[program.name] = theirs
        here = MACHINES[platform.machine()]
        return {"code": filter_of(ops, here).hex(), "seccomp": here.seccomp}, [theirs.fileno()]

    async def started(self, program: Program, pid: int) -> None:
        self._close(program)
        if self._desk is not None:
            self._desk.known.setdefault(pid, program.name)

    def met(self, member: Member) -> None:
        if self._desk is not None:
            self._desk.known[member.pid] = member.name

    async def arm(self, rule: Rule, names: Sequence[str] | None) -> Armed:
        """A rule that stands when this returns."""
        if not self._ops:
            raise Unsupported("no member is tapped: none that the harness starts can be one that is meant")
        assert self._desk is not None
        armed = Armed(rule, names, self._desk)
        await self._desk.arm(armed)
        return armed

    async def tear_down(self) -> None:
        for theirs in self._theirs.values():
            theirs.close()
        if self._desk is not None:
            self._desk.server.stop()
            await self._over.wait()

    async def _listen(self, desk: Desk) -> None:
        try:
            await anyio.to_thread.run_sync(desk.server.run, limiter=anyio.CapacityLimiter(1))
        finally:
            desk.close()
            self._over.set()

    def _close(self, program: Program) -> None:
        if (theirs := self._theirs.pop(program.name, None)) is not None:
            theirs.close()

    def _wanted(self, program: Program) -> frozenset[str]:
        """The operations that have to be tapped of what this program does, or starts."""
        launch, ops = self.recipe.launch, set[str]()
        for fault in launch.faults:
            if isinstance(fault, HitsFiles) and self._means(fault.selectors(), program):
                rule = fault.rule()
                ops |= {*rule.ops, *(UNSYNCED_OPS if rule.action == "drop" else ())}
        for when in launch.files:
            source = when.where.get("source")
            if source is None or self._may_be(program, {str(source.equals), *map(str, source.one_of or ())}):
                ops.add(when.op)
        for observer in self._observers:
            ops |= observer.ops
        return frozenset(ops)

    def _means(self, selectors: Sequence[Selector], program: Program) -> bool:
        slots = self.recipe.spec.slots()
        return self._may_be(program, {slot.name for selector in selectors for slot in matching(selector, slots)})

    def _may_be(self, program: Program, names: Iterable[str]) -> bool:
        """Whether a process of the program may be one of these members: itself, or one that it starts on its node."""
        names = set(names)
        started = {p.name for p in self.recipe.programs}
        announced = [slot for slot in self.recipe.spec.slots() if slot.name in names - started]
        return program.name in names or any(
            slot.node is None or program.node is None or slot.node == program.node for slot in announced
        )


__all__ = ["RECORD", "Tap"]
