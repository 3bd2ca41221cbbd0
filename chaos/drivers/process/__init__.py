"""Members are processes of this machine, by default inside a lab of namespaces: the driver `process`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from chaos.api import JSON, Driver, Launch, Slot, Stage, Target
from chaos.drivers.process.spec import decode


class Process(Driver, frozen=True, kw_only=True):
    """Start every member as a process: each node with an address of its own, all of it gone with the harness.

    Needs user namespaces; without them (`--no-lab`) members are plain processes and no link can be cut.
    """

    def slots(self, spec: JSON) -> tuple[Slot, ...]:
        return decode(spec).slots()

    def open(self, launch: Launch, stage: Stage) -> AbstractAsyncContextManager[Target]:
        from chaos.drivers.process.opening import open_target

        return open_target(decode(launch.spec), launch, stage)
