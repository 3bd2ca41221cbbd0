"""A target in memory whose members stand in control groups and have limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio.lowlevel

from chaos.api import JSON, Member
from chaos.capabilities import Device
from chaos.errors import HealFailed, NotLanded
from chaos.testing import FakeTarget


class FittedTarget(FakeTarget):
    """Implements Groups, Limits and Clocks, too: who is limited to fewer cores is throttled at once, who is limited in
    memory dies at once. `idle`: names of members that need neither."""

    def __init__(self, *args: Any, controllers: tuple[str, ...] = ("cpu", "memory", "freezer"), **more: Any) -> None:
        super().__init__(*args, **more)
        self.idle: frozenset[str] = frozenset()
        self.ending: JSON = {"code": 1, "said": None}
        self.stuck = False  # what is limited stays limited
        self.limited: dict[tuple[str, str], float] = {}
        self.kills: dict[str, int] = {}
        self.shifts: list[tuple[float, str, float]] = []
        self.clocks: dict[str, float] = {}
        self.asked: int | None = None  # questions for the time while it was shifted; None: nobody knows
        self._controllers = controllers
        self._looks = 0

    def standing(self) -> frozenset[str]:
        alive = {m.name for m in self.members()}
        return super().standing() | {
            f"{c} of {name}" for name, c in (*self.limited, *((n, "clock") for n in self.clocks)) if name in alive
        }

    # --- Groups

    def controllers(self) -> Mapping[str, str]:
        return dict.fromkeys(self._controllers, "v2")

    async def restrict(self, member: Member, controller: str, value: float) -> JSON:
        await anyio.lowlevel.checkpoint()
        if self.state(member) == "X":
            raise NotLanded(f"{member.name} has already gone")
        if (member.name, controller) in self.limited:
            raise NotLanded(f"{controller} of {member.name} is limited already")
        if not self.numb:
            self.limited[member.name, controller] = value
            if controller == "memory" and member.name not in self.idle:
                self._out_of_memory(member)
        return {"member": member.name, "pid": member.pid, "value": value}

    async def lift(self, member: Member, controller: str) -> JSON:
        await anyio.lowlevel.checkpoint()
        if self.stuck:
            raise HealFailed(f"{controller} of {member.name} is still limited", "echo max > somewhere")
        return {"member": member.name, "limited": self.limited.pop((member.name, controller), None) is None}

    def account(self, member: Member, controller: str) -> JSON:
        limited = (member.name, controller) in self.limited
        if controller == "cpu":
            self._looks += limited and member.name not in self.idle
            return {"throttled": self._looks, "throttled_seconds": 0.0}
        if controller == "memory":
            return {"bytes": 1, "limit": None, "oom_kills": self.kills.get(member.name, 0)}
        return {"frozen": limited}

    # --- Limits

    async def limit_address_space(self, member: Member, size: int | None) -> JSON:
        await anyio.lowlevel.checkpoint()
        if self.state(member) == "X":
            raise NotLanded(f"{member.name} has already gone")
        if size is None:
            self.limited.pop((member.name, "address space"), None)
        elif not self.numb:
            self.limited[member.name, "address space"] = size
            if member.name not in self.idle:
                self._out_of_memory(member)
        return {"size": 1, "limit": size}

    async def how_it_ended(self, member: Member) -> JSON:
        await anyio.lowlevel.checkpoint()
        return self.ending

    # --- Devices

    def devices(self) -> tuple[Device, ...]:
        return tuple(Device(name=f"gpu{i}", node=f"n{i}", index=i) for i in range(3))

    # --- Clocks

    async def shift_clock(self, member: Member, seconds: float) -> JSON:
        await anyio.lowlevel.checkpoint()
        if self.state(member) == "X":
            raise NotLanded(f"{member.name} has already gone")
        if not self.numb:
            self.clocks[member.name] = seconds
            self.shifts.append((round(anyio.current_time(), 3), member.name, round(seconds, 3)))
        return {"member": member.name, "pid": member.pid, "ahead": self.clock_ahead(member)}

    async def true_clock(self, member: Member) -> JSON:
        await anyio.lowlevel.checkpoint()
        if self.stuck:
            raise HealFailed(f"the clock of {member.name} may still be shifted", f"kill -KILL {member.pid}")
        self.clocks.pop(member.name, None)
        asked = {} if self.asked is None else {"asked": self.asked}
        return {"member": member.name, "ahead": self.clock_ahead(member), **asked}

    def clock_ahead(self, member: Member) -> float:
        return self.clocks.get(member.name, 0.0)

    def _out_of_memory(self, member: Member) -> None:
        self.kills[member.name] = self.kills.get(member.name, 0) + 1
        self.end(member.name)
