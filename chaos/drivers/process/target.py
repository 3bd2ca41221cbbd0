"""A target of processes, live: starting and ending its members, their events and logs, links between their nodes."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path

import anyio
import msgspec
from anyio.abc import TaskGroup

from chaos.api import JSON, Cut, Finished, Layout, Member, Slot, Stage
from chaos.capabilities import Device
from chaos.drivers.process.events import follow
from chaos.drivers.process.fittings.assembly import Assembly
from chaos.drivers.process.hooks import Hooking
from chaos.drivers.process.limits import Limiting
from chaos.drivers.process.listening import Listening
from chaos.drivers.process.members import Live, Processes, exit_code, facts, own_pid, pid_of
from chaos.drivers.process.power import GONE_WITHIN, Residents, end_residents
from chaos.drivers.process.recipe import Recipe
from chaos.drivers.process.spec import Program, Ready
from chaos.drivers.process.supervisor import Supervisor
from chaos.errors import NotLanded, TargetError, Unsupported

DRAIN = 0.2  # seconds that what a dead member still has in its socket may take to arrive


class ProcessTarget(Hooking, Limiting, Listening, Processes):
    """Implements Target, Signals, Checkpoints, Hooks, Limits, Programs and Hears; takes what members say
    (`events.Sink`)."""

    def __init__(
        self, recipe: Recipe, stage: Stage, supervisor: Supervisor, tasks: TaskGroup, assembly: Assembly
    ) -> None:
        Processes.__init__(self)
        Hooking.__init__(self, stage)
        Listening.__init__(self)
        Limiting.__init__(self)
        self.fittings = assembly.standing
        self._assembly = assembly
        self._recipe = recipe
        self._spec = recipe.spec
        self._stage = stage
        self._supervisor = supervisor
        self._tasks = tasks
        self._slots: dict[str, Slot] = {slot.name: slot for slot in self._spec.slots()}
        self._dark: set[str] = set()  # programs that a power cut ended: they come back with the power
        self._ended: dict[str, int | None] = {}  # members that the driver started: exit codes, in order of exit
        self._logs: dict[int, str] = {}  # inode of an output pipe -> member whose log it fills
        self._connections: Counter[int] = Counter()
        self._happened: set[tuple[str, str]] = set()
        self._awaited = {r.event for r in (self._spec.ready, *(p.ready for p in recipe.programs)) if r}
        self._news = anyio.Event()  # set and renewed at whatever somebody may wait for
        self._started = anyio.Event()
        self._failure: TargetError | None = None
        self._stopping = False

    # --- Target and Files

    async def wait_ready(self) -> None:
        await self._started.wait()
        if self._failure:
            raise self._failure

    async def wait_finished(self) -> Finished:
        while (finished := self._finished()) is None:
            await self._news.wait()
        return finished

    async def dump_stacks(self) -> tuple[str, ...]:
        """Also records which log each one writes to: that of its agent where one forked it."""
        # Without a hello nobody listens to the signal, and it would kill.
        asked = {live.member.name: self._log_of(live) for live in tuple(self.live.values()) if live.said}
        for live in tuple(self.live.values()):
            if live.said:
                live.signal(signal.SIGUSR1)
        self._stage.record("harness", "stacks.dumped", {"logs": asked})
        return tuple(asked)

    def mechanisms(self) -> dict[str, str]:
        """What this run stands on: `lab`, `links`, and what its members are fitted with."""
        return {**self._supervisor.mechanisms, **self._assembly.mechanisms}

    def refusals(self) -> dict[str, Unsupported]:
        """What members could not be fitted with, and why."""
        return self._assembly.refused

    def data_root(self) -> Path:
        return self._recipe.data

    def log_of(self, member: Member) -> Path | None:
        live = self.live.get(member.pid)
        name = self._log_of(live) if live else ""
        return self._recipe.logs / Path(name).name if name else None

    def devices(self) -> tuple[Device, ...]:
        return self._spec.bound()

    # --- Programs

    def programs(self, node: str | None = None) -> tuple[str, ...]:
        return tuple(p.name for p in self._recipe.programs if node in (None, p.node))

    async def start_again(self, name: str) -> Member:
        program = next((p for p in self._recipe.programs if p.name == name), None)
        if program is None:
            raise NotLanded(f"the harness did not start {name}: {', '.join(self.programs())} can be started again")
        while known := [live for live in self.live.values() if live.started and live.program == name]:
            if any(live.alive() for live in known):
                raise NotLanded(f"{name} has not ended")
            await self._news.wait()  # until its end was told
        self._ended.pop(name, None)
        try:
            await self._start(program)
        except TargetError as error:
            raise NotLanded(str(error)) from error
        found = [live.member for live in self.live.values() if live.started and live.program == name]
        if not found:
            raise NotLanded(f"{name} ended as soon as it was started")
        return found[-1]

    # --- Checkpoints

    def layout(self) -> Layout:
        declared = self._recipe.launch.spec.get("checkpoints")
        if declared is None:
            raise Unsupported("the target file does not say where checkpoints lie (`checkpoints`, docs/target.md)")
        return msgspec.convert(declared, Layout)

    # --- Power

    async def power_off(self, nodes: Sequence[str]) -> JSON:
        there = [live for live in self.live.values() if live.member.node in nodes and live.alive()]
        if not there:
            raise NotLanded(f"nobody is on {', '.join(nodes) or 'no node'}: there is no power to cut")
        self._dark.update(live.program for live in there if live.started)
        members = [f"{live.member.name} (pid {live.member.pid})" for live in there]
        pids = {live.member.pid for live in there}
        others = await end_residents(Residents(self._recipe.data, nodes, pids)) - pids
        with anyio.move_on_after(GONE_WITHIN) as limit:
            while any(live.member.node in nodes for live in self.live.values()):
                await self._news.wait()
        if limit.cancelled_caught:
            left = ", ".join(live.member.name for live in self.live.values() if live.member.node in nodes)
            raise NotLanded(f"still there {GONE_WITHIN:g} s after the power went: {left}")
        return {"nodes": list(nodes), "ended": members, "other_processes": len(others)}

    async def power_on(self, nodes: Sequence[str]) -> JSON:
        if self._supervisor.gone:
            return {"ended": "with the lab"}
        started: JSON = {}
        for name in (name for node in nodes for name in self.programs(node) if name in self._dark):
            self._dark.discard(name)
            started[name] = (await self.start_again(name)).pid
        return {"nodes": list(nodes), "started": started}

    # --- what members say

    def hello(self, data: JSON, pid: int, pidfd: int, t: float | None) -> str:
        name = str(data.get("member") or f"pid-{pid}")
        live = self.live.get(pid)
        stranger = live is None and (pidfd < 0 or own_pid(pid) != data.get("pid"))
        if pidfd >= 0 and (live or stranger):
            os.close(pidfd)
        if stranger or data.get("pid") is None:
            # It has ended already, is a forked child that still bears its parent's name, or never called hello().
            return name
        member = self._identify(name, data, pid)
        if live is None:
            live = Live(member, pidfd)
            self._tasks.start_soon(self._watch, live)
        said = {**data, **facts(member)}
        if (live.said or facts(live.member)) != said or pid not in self.live:
            self._stage.record(name, "member.started", said, t)
        live.member, live.said = member, said
        for fitting in self.fittings.values():
            fitting.met(member)
        self.live.pop(pid, None)  # the newest comes last
        self.live[pid] = live
        return name

    def event(self, source: str, kind: str, data: JSON, t: float | None) -> None:
        if kind in ("member.started", "member.exited", "hook.hit"):
            kind, data = "target.malformed", {"line": str(data)[:200], "reason": f"only the harness says {kind}"}
        self.heard(self._stage.record(source, kind, data, t))
        if kind in self._awaited and not self._started.is_set():
            self._happened.add((source, kind))
            self._tell()

    async def at_point(self, source: str, point: str, data: JSON) -> None:
        await self._stage.at_point(source, point, data)

    def log_line(self, member: str, line: str) -> None:
        self._stage.log_line(member, line)

    def opened(self, pid: int) -> None:
        self._connections[pid] += 1

    def closed(self, pid: int) -> None:
        self._connections[pid] -= 1
        if not self._connections[pid]:
            del self._connections[pid]
            self._tell()

    # --- start and end

    async def start_members(self) -> None:
        """Start one group of members after the other, each once those before it are ready."""
        try:
            for _, group in groupby(self._recipe.programs, key=lambda program: program.group):
                programs = tuple(group)
                for program in programs:
                    if self._stopping:
                        return
                    await self._start(program)
                for program in programs:
                    if program.ready:
                        await self._until(program.ready, program.name)
            if self._spec.ready:
                await self._until(self._spec.ready, None)
        except TargetError as error:
            self._failure = error
        self._started.set()

    async def stop(self) -> None:
        """SIGTERM to those that the driver started, a grace, SIGKILL to all that is left."""
        self._stopping = True
        self.signal_all(signal.SIGTERM, started_only=True)
        self.signal_all(signal.SIGCONT)  # a stopped process would sleep through its grace
        await self._until_alone(self._spec.grace)
        self.signal_all(signal.SIGKILL)
        await self._until_alone(1.0)
        await self._supervisor.end()
        await self._until_alone(1.0)

    async def _start(self, program: Program) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reader, False)
        self._logs[os.fstat(reader).st_ino] = program.name
        self._tasks.start_soon(self._follow, reader, program.name)
        recipe = self._recipe
        try:
            argv, env, cwd = recipe.argv(program), recipe.environment(program), str(recipe.workdir)
            dress = {}
            for fitting in self.fittings.values():
                env.update(fitting.environment(program))
                if (clothes := fitting.dress(program)) is not None:
                    dress[fitting.name] = clothes
            started = await self._supervisor.start(
                program.node, argv, env, cwd, writer, dress, recipe.preloaded(program, env)
            )
        finally:
            os.close(writer)
        pid = pid_of(started.pidfd)
        for fitting in self.fittings.values():
            await fitting.started(program, pid)
        if pid > 0 and pid in self.live:  # its hello was faster than the answer to our request
            self.live[pid].started, self.live[pid].program = started, program.name
            os.close(started.pidfd)
            return
        member = Member(name=program.name, role=program.role, pid=pid, node=program.node, rank=program.rank)
        live = self.live[pid] = Live(member, started.pidfd, started)
        self._stage.record(program.name, "member.started", facts(member))
        self._tasks.start_soon(self._watch, live)

    async def _follow(self, reader: int, name: str) -> None:
        try:
            await follow(reader, name, self._recipe.logs / f"{name}.log", self)
        finally:
            os.close(reader)

    async def _watch(self, live: Live) -> None:
        """Tell of a member's exit, after all that it said."""
        await anyio.wait_readable(live.pidfd)
        t = time.monotonic()
        pid, code = live.member.pid, None
        with anyio.move_on_after(DRAIN):
            while self._connections[pid]:
                await self._news.wait()
            code = await self._exit_code(live)
        expected = {"expected": True} if self._stopping else {}
        self._stage.record(live.member.name, "member.exited", {**facts(live.member), "code": code, **expected}, t)
        if self.live.get(pid) is live:
            del self.live[pid]
        os.close(live.pidfd)
        if live.started:
            self._ended[live.program] = code
        self.has_ended(pid, code)
        self._tell()

    async def _exit_code(self, live: Live) -> int | None:
        if live.started:
            await live.started.reaped.wait()
            return live.started.code
        while (code := exit_code(live.pidfd)) is None:  # noqa: ASYNC110 - nobody tells when its parent has looked
            await anyio.sleep(DRAIN / 20)
        return code

    async def _until(self, ready: Ready, name: str | None) -> None:
        """Wait for the event that means ready, from that member or from anyone; TargetError if it cannot come."""
        with anyio.move_on_after(ready.seconds):
            while not any(kind == ready.event and name in (None, source) for source, kind in self._happened):
                if dead := self._died_early(name):
                    await anyio.sleep(DRAIN / 4)  # its last words may be in the pipe, which others may hold open
                    tail = self._tail(dead)
                    code = self._ended[dead]
                    raise TargetError(f"{dead} exited with {code} before it was ready; last lines: {tail}")
                await self._news.wait()
            return
        tail = f"; last lines of {name}: {self._tail(name)}" if name else ""
        who = name or "the target"
        raise TargetError(f"{who} did not become ready: no event {ready.event} within {ready.seconds:g} s{tail}")

    def _died_early(self, name: str | None) -> str | None:
        """A member without which nothing gets ready: the one waited for, one that failed, one that decides the end."""
        ends = self._spec.ends
        for dead, code in self._ended.items():
            if dead == name or code != 0 or (ends and self._slots[dead].role == ends.role):
                return dead
        return None

    def _tail(self, name: str) -> str:
        try:
            lines = (self._recipe.logs / f"{name}.log").read_bytes()[-4096:].decode(errors="replace").splitlines()
        except OSError:
            return "(no log)"
        return " | ".join(lines[-8:]) or "(none)"

    async def _until_alone(self, timeout: float) -> None:
        with anyio.move_on_after(timeout):
            while self.live:
                await self._news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    def _finished(self) -> Finished | None:
        ends = self._spec.ends
        ended = {name: code for name, code in self._ended.items() if name not in self._dark}
        for name, code in ended.items():
            if ends and code in ends.codes and self._slots[name].role == ends.role:
                return Finished(code=code or 0, member=name)
        # Nobody is left who could decide: of the role that does, or at all.
        deciding = [p.name for p in self._recipe.programs if not ends or self._slots[p.name].role == ends.role]
        if self._started.is_set() and deciding and ended.keys() >= set(deciding):
            codes = {name: code for name, code in ended.items() if name in deciding}
            name, code = next(((n, c) for n, c in codes.items() if c != 0), tuple(codes.items())[-1])
            return Finished(code=-1 if code is None else code, member=name)
        return None

    def _identify(self, name: str, data: JSON, pid: int) -> Member:
        """Whom a hello means; what it leaves open is taken from the target file."""
        slot = self._slots.get(name)
        role, node, rank = (data.get(key) for key in ("role", "node", "rank"))
        return Member(
            name=name,
            role=str(role or (slot.role if slot else "")),
            pid=pid,
            node=str(node) if node is not None else slot.node if slot else None,
            rank=rank if isinstance(rank, int) else None,
        )

    def _log_of(self, live: Live) -> str:
        """The log that a process' stderr ends up in: a forked worker writes into that of its agent."""
        with suppress(OSError, KeyError, ValueError):
            link = os.readlink(f"/proc/{live.member.pid}/fd/2")  # pipe:[inode]
            return f"logs/{self._logs[int(link[6:-1])]}.log"
        return ""


class LabTarget(ProcessTarget):
    """Implements Links as well."""

    def nodes(self) -> tuple[str, ...]:
        return tuple(self._recipe.addresses)

    async def cut(self, cut: Cut) -> JSON:
        return await self._supervisor.links("cut", cut.pairs)

    async def restore(self, cut: Cut) -> JSON:
        if self._supervisor.gone:
            return {"ended": "with the lab"}
        return await self._supervisor.links("restore", cut.pairs)
