"""Control groups: one for each member, entered before its program starts, gone with the run."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup

from chaos.api import JSON, Member, Stage
from chaos.capabilities import Groups
from chaos.drivers.process import fit_groups
from chaos.drivers.process.cgroups import Ground, Group, find_ground, run_name
from chaos.drivers.process.fittings.base import Face, Fitting
from chaos.drivers.process.recipe import Recipe
from chaos.drivers.process.spec import Program
from chaos.drivers.process.supervisor import Supervisor
from chaos.errors import HealFailed, NotLanded, Unsupported

FROZEN_WITHIN = 5.0  # seconds for the kernel to stop every thread; one in a system call stops at its end
EMPTY_WITHIN = 1.0  # for its parent to take note of one that ended in a group of its own; else the end removes that
LOOK = 0.002
HELP = "be root, or start chaos below a group that is yours: systemd-run --user --scope chaos run …"


class _Limited:
    """A process, and the group by which it is limited."""

    def __init__(self, group: Group, home: Group | None) -> None:
        self.group = group
        self.home = home  # of one that was taken out of another's group
        self.controllers: set[str] = set()


class GroupsFace(Face):
    """Implements Groups."""

    def controllers(self) -> Mapping[str, str]:
        ground = self.fitting(Grouping).ground
        return {controller: f"v{place.version}" for controller, place in ground.places.items()}

    async def restrict(self, member: Member, controller: str, value: float) -> JSON:
        return await self.fitting(Grouping).restrict(member, controller, value)

    async def lift(self, member: Member, controller: str) -> JSON:
        return await self.fitting(Grouping).lift(member, controller)

    def account(self, member: Member, controller: str) -> JSON:
        return self.fitting(Grouping).account(member, controller)


class Grouping(Fitting):
    """Groups of this machine, v1 or v2, below the harness's own."""

    name = "groups"
    capability = Groups
    face = GroupsFace

    def __init__(self, recipe: Recipe, stage: Stage) -> None:
        super().__init__(recipe, stage)
        self.ground = Ground(run_name(secrets.token_hex(4)), {}, {})
        self._groups: dict[str, Group] = {}  # by name of the program
        self._doors: dict[str, list[int]] = {}  # through which a member enters
        self._programs: dict[int, str] = {}  # by process id of those that the harness started
        self._limited: dict[int, _Limited] = {}  # by process id

    def lab(self) -> JSON:
        self.ground = find_ground(self.ground.name)
        if not self.ground.places:
            reasons = "; ".join(dict.fromkeys(self.ground.missing.values()))
            raise Unsupported(f"no control groups: {reasons}", HELP)
        return {"harness": os.getpid(), "folders": [str(folder) for folder in self.ground.folders]}

    async def set_up(self, supervisor: Supervisor, tasks: TaskGroup) -> str:
        try:
            self.ground.make()
            for program in self.recipe.programs:
                group = self._groups[program.name] = self.ground.group(program.name)
                doors = self._doors[program.name] = []
                for folder in group.folders:
                    doors.append(os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
        except OSError as error:
            raise Unsupported(f"no control groups: {error}", HELP) from error
        missing = "".join(f"; no {c}: {why}" for c, why in self.ground.missing.items())
        return self.ground.mechanism() + missing

    def dress(self, program: Program) -> tuple[JSON, Sequence[int]] | None:
        return {}, self._doors[program.name]

    async def started(self, program: Program, pid: int) -> None:
        self._programs[pid] = program.name

    async def tear_down(self) -> None:
        for door in (door for doors in self._doors.values() for door in doors):
            os.close(door)
        if self.ground.places:
            await anyio.to_thread.run_sync(fit_groups.bury, [str(folder) for folder in self.ground.folders])

    # --- Groups

    async def restrict(self, member: Member, controller: str, value: float) -> JSON:
        if controller not in self.ground.places:
            raise Unsupported(f"no control group limits {controller}: {self.ground.missing[controller]}")
        limited = self._limited.get(member.pid)
        if limited is None:
            limited = self._limited[member.pid] = self._enclose(member)
        if controller in limited.controllers:
            raise NotLanded(f"{controller} of {member.name} is limited already; the heal would end what another began")
        limited.controllers.add(controller)
        try:
            said = await anyio.to_thread.run_sync(limited.group.restrict, controller, value)
            if controller == "freezer":
                await self._until(limited.group, frozen=True)
            return {
                "member": member.name,
                "pid": member.pid,
                "version": f"v{limited.group.version(controller)}",
                **said,
            }
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await self.lift(member, controller)
            if isinstance(error, OSError):
                raise NotLanded(f"{controller} of {member.name} cannot be limited: {error}") from error
            raise

    async def lift(self, member: Member, controller: str) -> JSON:
        limited = self._limited.get(member.pid)
        if limited is None or controller not in limited.controllers:
            return {"member": member.name, "limited": False}
        group = limited.group
        try:
            group.lift(controller)  # nothing stands before it
            if controller == "freezer":
                await self._until(group, frozen=False)
            said = {"member": member.name, "pid": member.pid, **group.account(controller)}
        except (OSError, NotLanded) as error:
            raise HealFailed(
                f"{controller} of {member.name} is still limited: {error}", group.undo(controller)
            ) from error
        limited.controllers.discard(controller)
        if not limited.controllers:
            del self._limited[member.pid]
            if limited.home is not None:
                await self._send_home(member, limited)
        return said

    def account(self, member: Member, controller: str) -> JSON:
        limited = self._limited.get(member.pid)
        name = self._programs.get(member.pid)
        group = limited.group if limited else self._groups[name] if name else None
        if group is None or controller not in self.ground.places:
            return {}
        return group.account(controller)

    def _enclose(self, member: Member) -> _Limited:
        """The group of a member that we started; a new one for a process that somebody else did."""
        name = self._programs.get(member.pid)
        if name is not None:
            return _Limited(self._groups[name], None)
        home = self._home(member)
        try:
            group = self.ground.group(f"{member.name}-{member.pid}")
            group.move_in(member.pid)
        except OSError as error:
            raise NotLanded(f"{member.name} (process {member.pid}) cannot be moved into a group: {error}") from error
        return _Limited(group, home)

    def _home(self, member: Member) -> Group:
        """The group that it is in now: that of whoever forked it."""
        with suppress(OSError), open(f"/proc/{member.pid}/cgroup") as file:
            names = {line.rstrip().rpartition("/")[2] for line in file}
            for name in names & self._groups.keys():
                return self._groups[name]
        raise NotLanded(f"{member.name} (process {member.pid}) has gone, or is no member's process")

    async def _send_home(self, member: Member, limited: _Limited) -> None:
        """Back to where it was; one that has gone leaves an empty group, which goes as well."""
        assert limited.home is not None
        with suppress(OSError):
            limited.home.move_in(member.pid)
        with anyio.move_on_after(EMPTY_WITHIN):
            while True:
                with suppress(OSError):  # a process that is ending is still in it
                    limited.group.remove()
                    return
                await anyio.sleep(LOOK)

    async def _until(self, group: Group, *, frozen: bool) -> None:
        with anyio.move_on_after(FROZEN_WITHIN):
            while group.account("freezer")["frozen"] != frozen:  # noqa: ASYNC110 - the kernel tells nobody
                await anyio.sleep(LOOK)
            return
        raise NotLanded(
            f"{group.folder('freezer')} is {'not ' if frozen else 'still '}frozen after {FROZEN_WITHIN:g} s"
        )


__all__ = ["Grouping", "GroupsFace"]
