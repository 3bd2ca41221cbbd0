"""Members are processes of this machine, by default inside a lab of namespaces: the driver `process`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from chaos.api import JSON, Driver, Launch, Slot, Stage, Target
from chaos.drivers.process.spec import decode


class Process(Driver, frozen=True, kw_only=True):
    """Start every member as a process: each node with an address of its own, all of it gone with the harness.

    The lab is made of user, mount, process, network and IPC namespaces: no root is needed, nodes reach nothing but each
    other, /dev/shm (also for temporary files) is the lab's own, and files are those of the machine. Without user
    namespaces (`--no-lab`) members are plain processes, nodes are addresses 127.0.0.x, and no link can be cut. A target
    without members and nodes needs no lab.

    A member finds in its environment: CHAOS_EVENTS (socket for `chaos.inside`), CHAOS_MEMBER, CHAOS_NODE, CHAOS_ADDRESS
    (its own), CHAOS_NODES (all, JSON), CHAOS_SETTINGS (JSON), CHAOS_DATA (folder of its durable state), CHAOS_POINTS.
    """

    def slots(self, spec: JSON) -> tuple[Slot, ...]:
        return decode(spec).slots()

    def open(self, launch: Launch, stage: Stage) -> AbstractAsyncContextManager[Target]:
        spec = decode(launch.spec)
        if spec.empty:
            from chaos.drivers.process.nobody import open_nobody

            return open_nobody(launch)
        from chaos.drivers.process.opening import open_target

        return open_target(spec, launch, stage)
