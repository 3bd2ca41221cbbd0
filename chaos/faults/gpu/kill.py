"""A device that takes all that computes on it along."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal, Protocol, runtime_checkable

from chaos.api import JSON, Fault, Landing, Member, Selection, Selector
from chaos.capabilities import Device, Devices
from chaos.errors import NotLanded, Unsupported
from chaos.faults.gpu import _nvml
from chaos.faults.process._signals import GONE, members_of, prove, send
from chaos.faults.process.kill_agent import Supervised


@runtime_checkable
class Computing(Supervised, Devices, Protocol):
    """Ranks are bound to devices, and can be signalled."""


class Kill(Fault[Computing], frozen=True, kw_only=True):
    """End every process of the target on a device with SIGKILL.

    The processes are those that the driver (NVML) lists on it, where the target file gives the device its `index` and
    they are members; else, and on a machine without devices, the ranks that the target file binds to it. Processes of
    others are never touched.

    Proof: the kernel has ended each process; the evidence says by which binding it was found.

    Heal: none, it is for the target to recover.
    """

    fidelity = (
        "a device that fails or falls off the bus, as the processes on it see it: they end. The device itself is not "
        "touched, and whoever comes next can use it. With the binding `topology` no device is involved at all: the "
        "ranks that would use it are ended."
    )
    instant = True

    device: str = "gpu0"
    by: Literal["auto", "nvml", "topology"] = "auto"

    def selectors(self) -> tuple[Selector, ...]:
        return (Selector(domains={"device": self.device}),)

    @asynccontextmanager
    async def inject(self, target: Computing, *hit: Selection) -> AsyncIterator[Landing]:
        bound = members_of(hit[0])
        members, binding = await self._find(target, bound)
        reached = await send(target, members, signal.SIGKILL)
        gone = await prove(target, reached, GONE)
        yield Landing({"signal": "SIGKILL", "device": self.device, **binding, "members": gone})

    async def _find(self, target: Computing, bound: Sequence[Member]) -> tuple[Sequence[Member], JSON]:
        topology: JSON = {"binding": "topology", "fidelity": "no device was involved"}
        if self.by == "topology":
            return bound, topology
        try:
            device = next((d for d in target.devices() if d.name == self.device), Device(name=self.device, node=""))
            if device.index is None:
                raise Unsupported(f"{self.device} has no `index` in the target file")
            uuid, pids = await _nvml.processes(device.index)
            members = [member for member in target.members() if member.pid in pids]
            if not members:
                raise NotLanded(f"no process of the target is on device {device.index} ({uuid})")
            others = sorted({*pids} - {member.pid for member in members})
            return members, {"binding": "nvml", "uuid": uuid, "index": device.index, "left-alone": others}
        except (Unsupported, NotLanded) as error:
            if self.by == "nvml":
                raise
            return bound, {**topology, "why": str(error)}
